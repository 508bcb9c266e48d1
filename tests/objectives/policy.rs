//! Policy losses against verl, RLVER's release and hand-computed numbers, and gradients against differences.

use rlver::objective::{
    CispoBounds, ObjectiveError, PolicyLoss, PolicyLossConfig, PolicyLossKind, PolicyRow, policy_loss,
};
use serde_json::Value;

use super::{GOLDEN, actions, all_close, cases, close, fixture, mask, matrix, name, number, numeric_grad, weights};

fn run(config: &PolicyLossConfig, inputs: &Value, mode: &str) -> PolicyLoss {
    let masks = mask(&inputs["response_mask"]);
    let [new, old, advantage] = ["log_prob", "old_log_prob", "advantages"].map(|key| actions(&inputs[key], &masks));
    let weights = weights(mode, &masks, masks[0].len());
    let rows: Vec<_> = (0..masks.len())
        .map(|row| PolicyRow {
            logprob: &new[row],
            old_logprob: &old[row],
            advantage: &advantage[row],
            weight: weights[row],
            rollout_weight: None,
        })
        .collect();
    policy_loss(config, &rows).unwrap()
}

fn same_grad(actual: &PolicyLoss, expected: &Value, inputs: &Value, what: &str) {
    let masks = mask(&inputs["response_mask"]);
    all_close(&actual.grad, &actions(expected, &masks).concat(), GOLDEN, what);
    for (row, mask) in matrix(expected).iter().zip(&masks) {
        assert!(row.iter().zip(mask).all(|(grad, action)| *action || *grad == 0.0), "{what}");
    }
}

#[test]
fn golden_clip() {
    let fixture = fixture("ppo_policy_loss.json");
    let mut legacy = 0;
    for case in cases(&fixture) {
        let (params, expected) = (&case["params"], &case["expected"]);
        let inputs = &fixture["inputs"][case["inputs_ref"].as_str().unwrap()];
        let mode = params["loss_agg_mode"].as_str().unwrap();
        let config = PolicyLossConfig {
            clip_low: number(&params["clip_low"]),
            clip_high: number(&params["clip_high"]),
            dual_clip: Some(number(&params["clip_ratio_c"])),
            ..PolicyLossConfig::default()
        };
        let ours = run(&config, inputs, mode);
        close(ours.loss, number(&expected["pg_loss"]), GOLDEN, name(case));
        close(ours.metrics.clip_fraction(), number(&expected["pg_clipfrac"]), GOLDEN, name(case));
        close(ours.metrics.clip_fraction_lower(), number(&expected["pg_clipfrac_lower"]), GOLDEN, name(case));
        close(ours.metrics.approx_kl(), number(&expected["ppo_kl"]), GOLDEN, name(case));
        same_grad(&ours, &expected["grad_log_prob"], inputs, name(case));
        // The release neither clamps the log-ratio nor clips twice; its values are for inputs where the former is idle.
        if let Some(expected) = case.get("expected_rlver_legacy_no_dual_clip") {
            let widest = mask(&inputs["response_mask"]);
            let gaps = actions(&inputs["log_prob"], &widest).concat();
            let old = actions(&inputs["old_log_prob"], &widest).concat();
            if gaps.iter().zip(&old).any(|(new, old)| (new - old).abs() > 20.0) {
                continue;
            }
            let ours = run(&PolicyLossConfig { dual_clip: None, ..config }, inputs, mode);
            close(ours.loss, number(&expected["pg_loss"]), GOLDEN, name(case));
            close(ours.metrics.clip_fraction(), number(&expected["pg_clipfrac"]), GOLDEN, name(case));
            close(ours.metrics.approx_kl(), number(&expected["ppo_kl"]), GOLDEN, name(case));
            legacy += 1;
        }
    }
    assert_eq!((cases(&fixture).len(), legacy), (45, 2));
}

#[test]
fn golden_gspo_and_cispo() {
    let fixture = fixture("ppo_policy_loss_variants.json");
    let mut compared = 0;
    for case in cases(&fixture) {
        let kind = match name(case).split('/').next() {
            Some("gspo") => PolicyLossKind::Gspo,
            Some("cispo") => PolicyLossKind::Cispo,
            _ => continue,
        };
        let (params, expected) = (&case["params"], &case["expected"]);
        let config = PolicyLossConfig {
            kind,
            clip_low: number(&params["clip_low"]),
            clip_high: number(&params["clip_high"]),
            ..PolicyLossConfig::default()
        };
        let ours = run(&config, &case["inputs"], params["loss_agg_mode"].as_str().unwrap());
        close(ours.loss, number(&expected["pg_loss"]), GOLDEN, name(case));
        same_grad(&ours, &expected["grad_log_prob"], &case["inputs"], name(case));
        let metrics = &expected["metrics"];
        close(ours.metrics.clip_fraction(), number(&metrics["actor/pg_clipfrac"]), GOLDEN, name(case));
        close(ours.metrics.approx_kl(), number(&metrics["actor/ppo_kl"]), GOLDEN, name(case));
        close(ours.metrics.clip_fraction_lower(), number(&metrics["actor/pg_clipfrac_lower"]), GOLDEN, name(case));
        compared += 1;
    }
    assert_eq!(compared, 4);
}

pub(super) const OLD: [&[f64]; 2] = [&[-1.0, -2.0, -0.5], &[-0.3, -1.5, -2.5, -0.7, -1.1]];
pub(super) const NEW: [&[f64]; 2] = [&[-0.7, -2.4, -0.5], &[-0.9, -0.2, -2.4, -2.3, -1.0]];
const ADVANTAGE: [&[f64]; 2] = [&[0.8; 3], &[-1.2; 5]];

fn hand(config: &PolicyLossConfig) -> PolicyLoss {
    let rows = [0, 1].map(|row| PolicyRow {
        logprob: NEW[row],
        old_logprob: OLD[row],
        advantage: ADVANTAGE[row],
        weight: 1.0,
        rollout_weight: None,
    });
    policy_loss(config, &rows).unwrap()
}

#[test]
fn hand_computed_clip() {
    let dual = hand(&PolicyLossConfig { dual_clip: Some(3.0), ..PolicyLossConfig::default() });
    let expected = [-0.96, -0.536256, -0.8, 0.96, 3.6, 1.326205, 0.96, 1.326205];
    all_close(&dual.token_loss, &expected, 5e-7, "dual clip");
    assert_eq!(dual.metrics.clipped_lower, 1);
    close(dual.metrics.ratio_max, 3.669297, 5e-7, "largest ratio");
    let single = hand(&PolicyLossConfig::default());
    close(single.token_loss[4], 4.403156, 1e-6, "without dual clip");
    assert!(single.metrics.approx_kl_k3() > 0.0);
}

#[test]
fn hand_computed_gspo() {
    let gspo = PolicyLossConfig { kind: PolicyLossKind::Gspo, ..PolicyLossConfig::default() };
    let wide = hand(&gspo).token_loss;
    let tight = hand(&PolicyLossConfig { clip_low: 3e-4, clip_high: 4e-4, ..gspo }).token_loss;
    all_close(&[wide[0], wide[7]], &[-0.773773, 1.04323], 5e-7, "0.2");
    all_close(&[tight[0], tight[7]], &[-0.773773, 1.19964], 5e-7, "3e-4");
}

#[test]
fn gradients_equal_differences() {
    let clip = PolicyLossConfig { dual_clip: Some(3.0), clip_high: 0.28, ..PolicyLossConfig::default() };
    // Per-token advantages for `clip`; GSPO's token form is a true gradient when a row has one advantage.
    let varied: [&[f64]; 2] = [&[0.8, -0.3, 0.2], &[-1.2, -0.9, 0.4, 1.1, -0.2]];
    for (config, advantage) in [(clip, varied), (PolicyLossConfig { kind: PolicyLossKind::Gspo, ..clip }, ADVANTAGE)] {
        let correction = [vec![0.7; 3], vec![1.3; 5]];
        let loss = |new: &[f64]| {
            let (first, second) = new.split_at(3);
            let rows = [first, second].into_iter().enumerate().map(|(row, logprob)| PolicyRow {
                logprob,
                old_logprob: OLD[row],
                advantage: advantage[row],
                weight: [0.25, 0.1][row],
                rollout_weight: Some(&correction[row]),
            });
            policy_loss(&config, &rows.collect::<Vec<_>>()).unwrap()
        };
        let at = NEW.concat();
        all_close(&loss(&at).grad, &numeric_grad(&at, |new| loss(new).loss), 1e-8, &format!("{:?}", config.kind));
    }
}

#[test]
fn cispo_keeps_a_gradient_where_it_clips() {
    let config = PolicyLossConfig { kind: PolicyLossKind::Cispo, clip_high: 0.2, ..PolicyLossConfig::default() };
    let ours = hand(&config);
    close(ours.grad[0], -1.2 * 0.8, 1e-12, "ratio held at 1.2");
    close(ours.token_loss[0], -1.2 * 0.8 * -0.7, 1e-12, "held ratio times logprob");
    let trl = hand(&PolicyLossConfig { clip_high: 5.0, cispo_bounds: CispoBounds::Trl, ..config });
    close(trl.grad[4], 1.2 * (1.3f64).exp(), 1e-9, "absolute bound not reached");
    assert_eq!(trl.metrics.clipped, 0);
}

#[test]
fn far_apart_policies_stay_finite() {
    for kind in [PolicyLossKind::Clip, PolicyLossKind::Gspo, PolicyLossKind::Cispo] {
        let row = PolicyRow {
            logprob: &[-1.0, -900.0],
            old_logprob: &[-800.0, -1.0],
            advantage: &[-1.0, 1.0],
            weight: 0.5,
            rollout_weight: None,
        };
        let ours = policy_loss(&PolicyLossConfig { kind, ..PolicyLossConfig::default() }, &[row]).unwrap();
        assert!(ours.loss.is_finite() && ours.grad.iter().all(|grad| grad.is_finite()));
    }
}

#[test]
fn inconsistent_inputs_are_refused() {
    let row = PolicyRow { logprob: &[-1.0], old_logprob: &[], advantage: &[1.0], weight: 1.0, rollout_weight: None };
    let default = PolicyLossConfig::default();
    assert!(matches!(policy_loss(&default, &[row]), Err(ObjectiveError::LengthMismatch { .. })));
    for config in [
        PolicyLossConfig { clip_low: 1.5, ..default },
        PolicyLossConfig { clip_high: f64::NAN, ..default },
        PolicyLossConfig { dual_clip: Some(1.0), ..default },
    ] {
        assert!(matches!(policy_loss(&config, &[]), Err(ObjectiveError::OutOfRange { .. })));
    }
}
