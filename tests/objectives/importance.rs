//! Rollout importance correction.

use rlver::objective::{CorrectionLevel, CorrectionMode, ObjectiveError, RolloutCorrection};

use super::{all_close, close};

const OLD: [f64; 3] = [-1.0, -2.0, -0.5];
const ROLLOUT: [f64; 3] = [-1.0, -3.0, -0.2];

fn weights(level: CorrectionLevel, mode: CorrectionMode, cap: f64, floor: f64) -> Vec<f64> {
    RolloutCorrection { level, mode, cap, floor }.weights(&OLD, &ROLLOUT).unwrap().weights
}

#[test]
fn tokens_and_rows_are_truncated_or_masked() {
    use CorrectionLevel::{Sequence, Token};
    use CorrectionMode::{Mask, Truncate};
    let last = (-0.3f64).exp();
    all_close(&weights(Token, Truncate, 2.0, 0.0), &[1.0, 2.0, last], 1e-12, "token, truncate");
    all_close(&weights(Token, Mask, 2.0, 0.0), &[1.0, 0.0, last], 1e-12, "token, mask");
    all_close(&weights(Token, Mask, 3.0, 0.9), &[1.0, 1f64.exp(), 0.0], 1e-12, "token, mask with a floor");
    all_close(&weights(Sequence, Truncate, 3.0, 0.0), &[0.7f64.exp(); 3], 1e-12, "sequence");
    all_close(&weights(Sequence, Truncate, 2.0, 0.0), &[2.0; 3], 1e-12, "sequence, truncate");
    all_close(&weights(Sequence, Mask, 2.0, 0.0), &[0.0; 3], 1e-12, "sequence, mask");
}

#[test]
fn counts_and_extremes() {
    let row = RolloutCorrection::default().weights(&OLD, &ROLLOUT).unwrap();
    assert_eq!(row.bounded, 1);
    close(row.raw_max, 1f64.exp(), 1e-12, "largest");
    let far = RolloutCorrection::default().weights(&[0.0], &[-1e9]).unwrap();
    assert!(far.raw_max.is_finite());
    assert!(RolloutCorrection::default().weights(&[], &[]).unwrap().weights.is_empty());
}

#[test]
fn equal_logprobs_weigh_one() {
    for level in [CorrectionLevel::Token, CorrectionLevel::Sequence] {
        let row = RolloutCorrection { level, ..RolloutCorrection::default() }.weights(&OLD, &OLD).unwrap();
        assert_eq!(row.weights, [1.0; 3]);
    }
}

#[test]
fn impossible_bounds_are_refused() {
    let default = RolloutCorrection::default();
    for wrong in [
        RolloutCorrection { cap: 0.0, ..default },
        RolloutCorrection { cap: f64::NAN, ..default },
        RolloutCorrection { floor: 3.0, ..default },
    ] {
        assert!(matches!(wrong.weights(&OLD, &ROLLOUT), Err(ObjectiveError::OutOfRange { .. })));
    }
    assert!(matches!(default.weights(&OLD, &[]), Err(ObjectiveError::LengthMismatch { .. })));
}
