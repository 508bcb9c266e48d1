//! The value loss against verl, RLVER's release and hand-computed numbers.

use rlver::objective::{ObjectiveError, ValueLoss, ValueRow, value_loss};

use super::{GOLDEN, actions, all_close, cases, close, fixture, mask, matrix, name, number, numeric_grad, weights};

#[test]
fn golden_value_loss() {
    let fixture = fixture("ppo_value_loss.json");
    for case in cases(&fixture) {
        let (inputs, params, expected) = (&case["inputs"], &case["params"], &case["expected"]);
        let masks = mask(&inputs["response_mask"]);
        let [values, old, returns] = ["vpreds", "values", "returns"].map(|key| actions(&inputs[key], &masks));
        let weights = weights(params["loss_agg_mode"].as_str().unwrap(), &masks, masks[0].len());
        let rows: Vec<_> = (0..masks.len())
            .map(|row| ValueRow {
                values: &values[row],
                old_values: &old[row],
                returns: &returns[row],
                weight: weights[row],
            })
            .collect();
        let clip = number(&params["cliprange_value"]);
        let ours = value_loss(Some(clip), &rows).unwrap();
        close(ours.loss, number(&expected["vf_loss"]), GOLDEN, name(case));
        close(ours.metrics.clip_fraction(), number(&expected["vf_clipfrac"]), GOLDEN, name(case));
        all_close(&ours.grad, &actions(&expected["grad_vpreds"], &masks).concat(), GOLDEN, name(case));
        for (row, mask) in matrix(&expected["grad_vpreds"]).iter().zip(&masks) {
            assert!(row.iter().zip(mask).all(|(grad, action)| *action || *grad == 0.0));
        }
        if let Some(expected) = case.get("expected_rlver_legacy") {
            close(ours.loss, number(&expected["vf_loss"]), GOLDEN, name(case));
            close(ours.metrics.clip_fraction(), number(&expected["vf_clipfrac"]), GOLDEN, name(case));
        }
        if clip > 1e6 {
            let plain = value_loss(None, &rows).unwrap();
            close(plain.loss, ours.loss, 0.0, name(case));
        }
    }
    assert_eq!(cases(&fixture).len(), 45);
}

fn hand(clip: f64, values: &[f64]) -> ValueLoss {
    let row = ValueRow { values, old_values: &[0.2, 0.0, 0.4], returns: &[1.0, -0.6, 0.5], weight: 1.0 / 3.0 };
    value_loss(Some(clip), &[row]).unwrap()
}

#[test]
fn hand_computed_value_loss() {
    let at = [0.9, 0.1, 0.45];
    close(hand(0.5, &at).loss, 0.097083, 5e-7, "0.5");
    close(hand(0.2, &at).loss, 0.142083, 5e-7, "0.2");
    assert_eq!(hand(0.2, &at).metrics.clipped, 1);
    close(hand(0.5, &at).metrics.mean_value(), 1.45 / 3.0, 1e-12, "mean value");
    close(hand(0.5, &at).metrics.mean_squared_error(), (0.01 + 0.49 + 0.0025) / 3.0, 1e-12, "squared error");
    for clip in [0.2, 0.5] {
        all_close(&hand(clip, &at).grad, &numeric_grad(&at, |v| hand(clip, v).loss), 1e-8, "gradient");
    }
}

#[test]
fn inconsistent_inputs_are_refused() {
    assert!(matches!(value_loss(Some(0.0), &[]), Err(ObjectiveError::OutOfRange { .. })));
    let row = ValueRow { values: &[0.0], old_values: &[0.0], returns: &[], weight: 1.0 };
    assert!(matches!(value_loss(None, &[row]), Err(ObjectiveError::LengthMismatch { .. })));
}
