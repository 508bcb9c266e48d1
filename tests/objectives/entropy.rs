//! Logprob and entropy from logits against verl, and gradients against differences.

use rlver::objective::{ObjectiveError, entropy, entropy_grad, logprob, logprob_grad};

use super::{GOLDEN, all_close, cases, close, fixture, mask, matrix, name, number, numeric_grad, weights};

#[test]
fn golden_entropy() {
    let fixture = fixture("ppo_entropy.json");
    for case in cases(&fixture) {
        let (inputs, expected) = (&case["inputs"], &case["expected"]);
        let temperature = number(&case["params"]["temperature"]);
        let masks = mask(&inputs["response_mask"]);
        let labels = matrix(&inputs["labels"]);
        let length = masks[0].len();
        let mut row_sums = vec![0.0; masks.len()];
        let token_weight = weights("token-mean", &masks, length)[0];
        for (row, logits) in inputs["logits"].as_array().unwrap().iter().enumerate() {
            let logits = matrix(logits);
            let entropies: Vec<f64> = logits.iter().map(|z| entropy(z, temperature).unwrap()).collect();
            all_close(&entropies, &matrix(&expected["entropy"])[row], GOLDEN, name(case));
            let logprobs: Vec<f64> =
                logits.iter().zip(&labels[row]).map(|(z, y)| logprob(z, *y as usize, temperature).unwrap()).collect();
            all_close(&logprobs, &matrix(&expected["token_logprobs"])[row], GOLDEN, name(case));
            let grads = matrix(&expected["grad_logits_of_token_mean_entropy"][row]);
            for (t, z) in logits.iter().enumerate() {
                let weight = if masks[row][t] { token_weight } else { 0.0 };
                let grad: Vec<f64> = entropy_grad(z, temperature).unwrap().iter().map(|g| weight * g).collect();
                all_close(&grad, &grads[t], GOLDEN, name(case));
                row_sums[row] += if masks[row][t] { entropies[t] } else { 0.0 };
            }
        }
        for mode in ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "token-sum"]
        {
            let loss: f64 = weights(mode, &masks, length).iter().zip(&row_sums).map(|(w, sum)| w * sum).sum();
            close(loss, number(&expected[format!("entropy_loss/{mode}")]), GOLDEN, mode);
        }
    }
    assert_eq!(cases(&fixture).len(), 2);
}

#[test]
fn hand_computed_logprobs() {
    let logits = [2.0, 1.0, 0.5, -1.0];
    let at = |temperature: f64| [0, 1, 2, 3].map(|label| logprob(&logits, label, temperature).unwrap());
    all_close(&at(1.0), &[-0.495182, -1.495182, -1.995182, -3.495182], 5e-7, "T = 1");
    all_close(&at(0.7), &[-0.315346, -1.743918, -2.458203, -4.601061], 5e-7, "T = 0.7");
}

#[test]
fn gradients_equal_differences() {
    let logits = [2.0, 1.0, 0.5, -1.0];
    for temperature in [1.0, 0.7] {
        let grad = entropy_grad(&logits, temperature).unwrap();
        all_close(&grad, &numeric_grad(&logits, |z| entropy(z, temperature).unwrap()), 1e-8, "entropy");
        let grad = logprob_grad(&logits, 2, temperature).unwrap();
        all_close(&grad, &numeric_grad(&logits, |z| logprob(z, 2, temperature).unwrap()), 1e-8, "logprob");
    }
}

#[test]
fn a_masked_vocabulary_entry_contributes_nothing() {
    let masked = [2.0, 1.0, f64::NEG_INFINITY];
    close(entropy(&masked, 1.0).unwrap(), entropy(&masked[..2], 1.0).unwrap(), 1e-15, "entropy");
    assert_eq!(entropy_grad(&masked, 1.0).unwrap()[2], 0.0);
    assert_eq!(logprob_grad(&masked, 0, 1.0).unwrap()[2], 0.0);
}

#[test]
fn impossible_inputs_are_refused() {
    assert!(matches!(entropy(&[0.0], 0.0), Err(ObjectiveError::OutOfRange { key: "temperature", .. })));
    assert!(matches!(logprob(&[0.0], 1, 1.0), Err(ObjectiveError::OutOfRange { key: "label", .. })));
    assert!(matches!(logprob(&[], 0, 1.0), Err(ObjectiveError::OutOfRange { .. })));
}
