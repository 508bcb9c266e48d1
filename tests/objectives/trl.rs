//! TRL's GRPO losses: our policy loss, KL loss and weights put together as `loss_type` does.

use rlver::objective::{
    CispoBounds, KlClamp, KlEstimator, KlRow, PolicyLossConfig, PolicyLossKind, PolicyRow, kl_loss, policy_loss,
};

use super::{GOLDEN, actions, all_close, cases, close, fixture, mask, matrix, name, number, vector, weights};

#[test]
fn golden_trl_losses() {
    let fixture = fixture("ppo_trl_grpo_loss.json");
    let inputs = &fixture["inputs"];
    let masks = mask(&inputs["mask"]);
    let [new, old, reference] =
        ["per_token_logps", "old_per_token_logps", "ref_per_token_logps"].map(|key| actions(&inputs[key], &masks));
    let advantages: Vec<Vec<f64>> =
        vector(&inputs["advantages"]).iter().zip(&new).map(|(a, row)| vec![*a; row.len()]).collect();
    let mut compared = 0;
    for case in cases(&fixture) {
        let (params, expected) = (&case["params"], &case["expected"]);
        let sequence = params["importance_sampling_level"] == "sequence";
        // luspo scales a row's loss by its length before averaging over rows: with one ratio per row, a sum.
        let (kind, mode) = match (params["loss_type"].as_str().unwrap(), sequence) {
            ("grpo", false) => (PolicyLossKind::Clip, "seq-mean-token-mean"),
            ("grpo", true) => (PolicyLossKind::Gspo, "seq-mean-token-mean"),
            ("bnpo" | "dapo", false) => (PolicyLossKind::Clip, "token-mean"),
            ("bnpo" | "dapo", true) => (PolicyLossKind::Gspo, "token-mean"),
            ("dr_grpo", false) => (PolicyLossKind::Clip, "seq-mean-token-sum-norm"),
            ("dr_grpo", true) => (PolicyLossKind::Gspo, "seq-mean-token-sum-norm"),
            ("luspo", true) => (PolicyLossKind::Gspo, "seq-mean-token-sum"),
            ("cispo", false) => (PolicyLossKind::Cispo, "token-mean"),
            _ => continue, // cispo with one ratio per row: not offered
        };
        let config = PolicyLossConfig {
            kind,
            clip_low: number(&params["epsilon_low"]),
            clip_high: number(&params["epsilon_high"]),
            dual_clip: params["delta"].as_f64(),
            cispo_bounds: CispoBounds::Trl,
        };
        let weights = weights(mode, &masks, params["max_completion_length"].as_u64().unwrap() as usize);
        let rows: Vec<_> = (0..masks.len())
            .map(|row| PolicyRow {
                logprob: &new[row],
                old_logprob: &old[row],
                advantage: &advantages[row],
                weight: weights[row],
                rollout_weight: None,
            })
            .collect();
        let policy = policy_loss(&config, &rows).unwrap();
        let rows: Vec<_> = (0..masks.len())
            .map(|row| KlRow { logprob: &new[row], ref_logprob: &reference[row], weight: weights[row] })
            .collect();
        let kl = kl_loss(KlEstimator::K3, KlClamp::None, &rows).unwrap();
        let beta = number(&params["beta"]);
        close(policy.loss + beta * kl.loss, number(&expected["loss"]), GOLDEN, name(case));
        let grad: Vec<f64> = policy.grad.iter().zip(&kl.grad).map(|(policy, kl)| policy + beta * kl).collect();
        all_close(&grad, &actions(&expected["grad_logps"], &masks).concat(), GOLDEN, name(case));
        for (row, mask) in matrix(&expected["grad_logps"]).iter().zip(&masks) {
            assert!(row.iter().zip(mask).all(|(grad, action)| *action || *grad == 0.0));
        }
        if let Some(expected) = expected["metrics"]["kl"].as_f64() {
            close(kl.kl_sum / kl.tokens as f64, expected, GOLDEN, name(case));
        }
        if kind == PolicyLossKind::Clip {
            let region = number(&expected["metrics"]["clip_ratio/region_mean"]);
            close(policy.metrics.clip_fraction(), region, GOLDEN, name(case));
        }
        compared += 1;
    }
    assert_eq!((compared, cases(&fixture).len()), (29, 31));
}
