//! Mean, variance and whitening against verl.

use rlver::objective::{
    MaskedRow, ObjectiveError, action_values, masked_mean, masked_variance, scatter_actions, whiten,
};

use super::{GOLDEN, all_close, cases, close, fixture, mask, matrix, name, number};

fn rows<'a>(values: &'a [Vec<f64>], masks: &'a [Vec<bool>]) -> Vec<MaskedRow<'a>> {
    values.iter().zip(masks).map(|(values, mask)| MaskedRow { values, mask }).collect()
}

#[test]
fn golden_whiten() {
    let fixture = fixture("ppo_whiten.json");
    let mut compared = 0;
    for case in cases(&fixture).iter().filter(|case| case.get("expected").is_some()) {
        let (values, masks) = (matrix(&case["inputs"]["values"]), mask(&case["inputs"]["mask"]));
        let rows = rows(&values, &masks);
        let shift = case["params"]["shift_mean"].as_bool().unwrap_or(true);
        let whitened = whiten(&rows, shift).unwrap();
        for ((row, expected), mask) in whitened.iter().zip(matrix(&case["expected"]["whitened"])).zip(&masks) {
            let kept = action_values(&expected, mask).unwrap();
            all_close(&action_values(row, mask).unwrap(), &kept, GOLDEN, name(case));
            assert!(row.iter().zip(mask).all(|(value, action)| *action || *value == 0.0));
        }
        close(masked_mean(&rows).unwrap(), number(&case["expected"]["mean"]), GOLDEN, name(case));
        close(masked_variance(&rows).unwrap(), number(&case["expected"]["var_unbiased"]), GOLDEN, name(case));
        if let Some(means) = case["expected"]["mean_axis1"].as_array() {
            for (row, expected) in rows.iter().zip(means) {
                close(masked_mean(&[*row]).unwrap(), number(expected), GOLDEN, name(case));
            }
        }
        compared += 1;
    }
    assert_eq!(compared, 7);
}

#[test]
fn a_single_token_whitens_to_zero_where_verl_raises() {
    let row = MaskedRow { values: &[0.25, 7.0], mask: &[true, false] };
    assert_eq!(whiten(&[row], true).unwrap(), [[0.0, 0.0]]);
    assert_eq!(whiten(&[row], false).unwrap(), [[0.25, 0.0]]);
    assert_eq!(masked_variance(&[row]).unwrap(), 0.0);
}

#[test]
fn an_empty_mask_gives_zeros() {
    let row = MaskedRow { values: &[f64::NAN, 1.0], mask: &[false, false] };
    assert_eq!(masked_mean(&[row]).unwrap(), 0.0);
    assert_eq!(masked_variance(&[]).unwrap(), 0.0);
    assert_eq!(whiten(&[row], true).unwrap(), [[0.0, 0.0]]);
}

#[test]
fn scatter_undoes_action_values() {
    let mask = [true, false, true];
    assert_eq!(scatter_actions(&action_values(&[1.0, f64::NAN, 2.0], &mask).unwrap(), &mask).unwrap(), [1.0, 0.0, 2.0]);
    assert!(matches!(scatter_actions(&[1.0], &mask), Err(ObjectiveError::LengthMismatch { .. })));
    assert!(matches!(action_values(&[1.0], &mask), Err(ObjectiveError::LengthMismatch { .. })));
}
