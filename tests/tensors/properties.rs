//! What holds for all losses.

use rlver::objective::PolicyLossKind;
use rlver::recipe::{ObjectiveSection, Recipe, RolloutIs};

use super::losses::some_rows;
use super::{Row, term};

const KINDS: [PolicyLossKind; 3] = [PolicyLossKind::Clip, PolicyLossKind::Gspo, PolicyLossKind::Cispo];

fn objective(policy_loss: PolicyLossKind) -> ObjectiveSection {
    ObjectiveSection { policy_loss, entropy_coef: 0.0, ..Recipe::default().objective }
}

#[test]
fn without_old_log_probabilities_the_ratio_is_exactly_one() {
    for kind in KINDS {
        let rows: Vec<Row> = some_rows().into_iter().map(|row| Row { old: vec![], ..row }).collect();
        let (ours, grad, _) = term(&rows, &[0.0; 10], &objective(kind));
        assert_eq!(ours.metrics.ratio_max, 1.0);
        assert_eq!((ours.metrics.clipped, ours.metrics.clipped_lower, ours.metrics.kl_k1_sum), (0, 0, 0.0));
        // The policy gradient without any correction: −A on every token (GSPO: −A's share of the row, the same here).
        let plain = rows.iter().flat_map(|r| r.advantage.iter().map(|a| -a * r.weight));
        assert!(grad.iter().zip(plain).all(|(g, expected)| (g - expected).abs() < 1e-6), "{kind:?}");
        // It is what equal old log-probabilities give.
        let same: Vec<Row> = rows.iter().map(|row| Row { old: row.new.clone(), ..row.clone() }).collect();
        let (theirs, same_grad, _) = term(&same, &[0.0; 10], &objective(kind));
        assert_eq!((ours.value, grad), (theirs.value, same_grad), "{kind:?}");
    }
}

#[test]
fn a_masked_correction_leaves_a_row_out() {
    for kind in KINDS {
        let mut rows = some_rows();
        rows[2].sampled = rows[2].old.iter().map(|l| l - 3.0).collect();
        let o = ObjectiveSection {
            rollout_is: RolloutIs::Sequence,
            rollout_is_mode: rlver::objective::CorrectionMode::Mask,
            rollout_is_threshold: 100.0,
            ..objective(kind)
        };
        let (ours, grad, _) = term(&rows, &[0.0; 10], &o);
        assert!(grad[4..].iter().all(|g| *g == 0.0), "{kind:?} {grad:?}");
        assert_eq!(ours.bounded, 6);
        assert!(ours.value.is_finite());
    }
}
