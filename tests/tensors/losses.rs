//! Golden cases and settings, one by one.

use rlver::objective::{
    Aggregation, CispoBounds, CorrectionLevel, CorrectionMode, KlClamp, KlEstimator, KlRow, PolicyLossKind, PolicyRow,
    RolloutCorrection, kl_loss, policy_loss,
};
use rlver::recipe::{KlUse, ObjectiveSection, Recipe, RolloutIs};
use rlver::train::loss_config;
use rlver_kernels::ppo::value_loss;
use serde_json::Value;

use super::{Row, close, constant, narrow, term, tracked};
use crate::objectives::{actions, cases, fixture, mask, name, number, vector, weights};

fn plain() -> ObjectiveSection {
    ObjectiveSection { entropy_coef: 0.0, dual_clip: 0.0, ..Recipe::default().objective }
}

/// The rows of a verl case.
fn rows(inputs: &Value, mode: &str) -> Vec<Row> {
    let masks = mask(&inputs["response_mask"]);
    let [new, old, advantage] = ["log_prob", "old_log_prob", "advantages"].map(|key| actions(&inputs[key], &masks));
    let weights = weights(mode, &masks, masks[0].len());
    (0..masks.len())
        .map(|r| Row {
            new: narrow(&new[r]),
            old: narrow(&old[r]),
            sampled: narrow(&old[r]),
            advantage: advantage[r].clone(),
            weight: weights[r],
            ..Row::default()
        })
        .filter(|row| !row.new.is_empty())
        .collect()
}

#[track_caller]
fn compare(rows: &[Row], objective: &ObjectiveSection, loss: f64, grad: &[f64], what: &str) {
    let n = rows.iter().map(|r| r.new.len()).sum();
    let (ours, grads, _) = term(rows, &vec![0.5; n], objective);
    close(ours.value, loss, what);
    assert_eq!(grads.len(), grad.len(), "{what}");
    for (ours, theirs) in grads.iter().zip(grad) {
        close(*ours, *theirs, what);
    }
}

#[test]
fn golden_clip_on_tensors() {
    let fixture = fixture("ppo_policy_loss.json");
    for case in cases(&fixture) {
        let (params, expected) = (&case["params"], &case["expected"]);
        let inputs = &fixture["inputs"][case["inputs_ref"].as_str().unwrap()];
        let objective = ObjectiveSection {
            clip_low: number(&params["clip_low"]),
            clip_high: number(&params["clip_high"]),
            dual_clip: number(&params["clip_ratio_c"]),
            ..plain()
        };
        let grad = actions(&expected["grad_log_prob"], &mask(&inputs["response_mask"])).concat();
        let rows = rows(inputs, params["loss_agg_mode"].as_str().unwrap());
        compare(&rows, &objective, number(&expected["pg_loss"]), &grad, name(case));
    }
    assert_eq!(cases(&fixture).len(), 45);
}

#[test]
fn golden_gspo_and_cispo_on_tensors() {
    let fixture = fixture("ppo_policy_loss_variants.json");
    let mut compared = 0;
    for case in cases(&fixture) {
        let policy_loss = match name(case).split('/').next() {
            Some("gspo") => PolicyLossKind::Gspo,
            Some("cispo") => PolicyLossKind::Cispo,
            _ => continue,
        };
        let (params, expected) = (&case["params"], &case["expected"]);
        let objective = ObjectiveSection {
            policy_loss,
            clip_low: number(&params["clip_low"]),
            clip_high: number(&params["clip_high"]),
            ..plain()
        };
        let grad = actions(&expected["grad_log_prob"], &mask(&case["inputs"]["response_mask"])).concat();
        let rows = rows(&case["inputs"], params["loss_agg_mode"].as_str().unwrap());
        compare(&rows, &objective, number(&expected["pg_loss"]), &grad, name(case));
        compared += 1;
    }
    assert_eq!(compared, 4);
}

#[test]
fn golden_trl_losses_on_tensors() {
    let fixture = fixture("ppo_trl_grpo_loss.json");
    let inputs = &fixture["inputs"];
    let masks = mask(&inputs["mask"]);
    let [new, old, reference] =
        ["per_token_logps", "old_per_token_logps", "ref_per_token_logps"].map(|key| actions(&inputs[key], &masks));
    let advantages = vector(&inputs["advantages"]);
    let mut compared = 0;
    for case in cases(&fixture) {
        let (params, expected) = (&case["params"], &case["expected"]);
        let sequence = params["importance_sampling_level"] == "sequence";
        let (kind, mode) = match (params["loss_type"].as_str().unwrap(), sequence) {
            ("cispo", true) => continue,
            ("cispo", false) => (PolicyLossKind::Cispo, "token-mean"),
            ("grpo", _) => (PolicyLossKind::Clip, "seq-mean-token-mean"),
            ("bnpo" | "dapo", _) => (PolicyLossKind::Clip, "token-mean"),
            ("dr_grpo", _) => (PolicyLossKind::Clip, "seq-mean-token-sum-norm"),
            (_, _) => (PolicyLossKind::Clip, "seq-mean-token-sum"),
        };
        let objective = ObjectiveSection {
            policy_loss: if sequence { PolicyLossKind::Gspo } else { kind },
            clip_low: number(&params["epsilon_low"]),
            clip_high: number(&params["epsilon_high"]),
            dual_clip: params["delta"].as_f64().unwrap_or(0.0),
            cispo_bounds: CispoBounds::Trl,
            kl: KlUse::Loss,
            kl_estimator: KlEstimator::K3,
            kl_clamp: KlClamp::None,
            kl_coef: number(&params["beta"]),
            ..plain()
        };
        let weights = weights(mode, &masks, params["max_completion_length"].as_u64().unwrap() as usize);
        let rows: Vec<Row> = (0..masks.len())
            .filter(|r| !new[*r].is_empty())
            .map(|r| Row {
                new: narrow(&new[r]),
                old: narrow(&old[r]),
                sampled: narrow(&old[r]),
                reference: narrow(&reference[r]),
                advantage: vec![advantages[r]; new[r].len()],
                weight: weights[r],
            })
            .collect();
        let grad = actions(&expected["grad_logps"], &masks).concat();
        compare(&rows, &objective, number(&expected["loss"]), &grad, name(case));
        compared += 1;
    }
    assert_eq!(compared, 29);
}

#[test]
fn golden_value_loss_on_tensors() {
    let fixture = fixture("ppo_value_loss.json");
    for case in cases(&fixture) {
        let (inputs, params, expected) = (&case["inputs"], &case["params"], &case["expected"]);
        let masks = mask(&inputs["response_mask"]);
        let [values, old, returns] =
            ["vpreds", "values", "returns"].map(|key| narrow(&actions(&inputs[key], &masks).concat()));
        let by_row = weights(params["loss_agg_mode"].as_str().unwrap(), &masks, masks[0].len());
        let weight: Vec<f32> = (masks.iter().zip(&by_row))
            .flat_map(|(mask, w)| std::iter::repeat_n(*w as f32, mask.iter().filter(|m| **m).count()))
            .collect();
        let values = tracked(&values);
        let clip = number(&params["cliprange_value"]) as f32;
        let out =
            value_loss(values.clone(), constant(&old), constant(&returns), constant(&weight), Some(clip)).unwrap();
        let loss: f32 = out.loss.clone().inner().into_scalar();
        close(f64::from(loss), number(&expected["vf_loss"]), name(case));
        let grads: Vec<f32> = values.grad(&out.loss.backward()).unwrap().into_data().try_into_vec().unwrap();
        for (ours, theirs) in grads.iter().zip(actions(&expected["grad_vpreds"], &masks).concat()) {
            close(f64::from(*ours), theirs, name(case));
        }
    }
    assert_eq!(cases(&fixture).len(), 45);
}

/// Rows of three, one and six tokens whose policies are close or far apart.
pub(super) fn some_rows() -> Vec<Row> {
    let mut state = 17u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f64) / f64::from(1u32 << 31)
    };
    let weights = rlver::objective::token_weights(
        Aggregation::SeqMeanTokenMean,
        &[3, 1, 6].map(|n| rlver::objective::RowShape { dialogue: n as u64, action_tokens: n }),
        1.0,
    )
    .unwrap();
    let mut row = |n: usize, weight: f64| {
        let mut around =
            |base: f64, by: f64| (0..n).map(|_| (base + by * (uniform() - 0.5)) as f32).collect::<Vec<f32>>();
        let (new, old, sampled, reference) =
            (around(-2.0, 1.0), around(-2.0, 1.0), around(-2.0, 1.5), around(-2.0, 2.0));
        let advantage = around(0.0, 4.0).into_iter().map(f64::from).collect();
        Row { new, old, sampled, reference, advantage, weight }
    };
    vec![row(3, weights[0]), row(1, weights[1]), row(6, weights[2])]
}

/// Value and gradient by the definitions alone.
fn defined(rows: &[Row], entropy: &[f32], o: &ObjectiveSection) -> (f64, Vec<f64>) {
    let wide = |list: &[f32]| list.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let correction = match o.rollout_is {
        RolloutIs::None => None,
        RolloutIs::Token => Some(CorrectionLevel::Token),
        RolloutIs::Sequence => Some(CorrectionLevel::Sequence),
    };
    let (mut loss, mut grad) = (0.0, Vec::new());
    let mut entropy = entropy.iter();
    for row in rows {
        let (new, old, reference) = (wide(&row.new), wide(&row.old), wide(&row.reference));
        let weights = correction.map(|level| {
            let settings = RolloutCorrection {
                level,
                mode: o.rollout_is_mode,
                cap: o.rollout_is_threshold,
                floor: o.rollout_is_threshold_lower,
            };
            settings.weights(&old, &wide(&row.sampled)).unwrap().weights
        });
        let policy = policy_loss(
            &loss_config(o),
            &[PolicyRow {
                logprob: &new,
                old_logprob: &old,
                advantage: &row.advantage,
                weight: row.weight,
                rollout_weight: weights.as_deref(),
            }],
        )
        .unwrap();
        loss += policy.loss;
        let mut own = policy.grad;
        if o.kl == KlUse::Loss {
            let rows = [KlRow { logprob: &new, ref_logprob: &reference, weight: row.weight }];
            let kl = kl_loss(o.kl_estimator, o.kl_clamp, &rows).unwrap();
            loss += o.kl_coef * kl.loss;
            own.iter_mut().zip(kl.grad).for_each(|(a, b)| *a += o.kl_coef * b);
        }
        let h: f64 = entropy.by_ref().take(row.new.len()).map(|h| f64::from(*h)).sum();
        loss -= o.entropy_coef * row.weight * h;
        grad.extend(own);
    }
    (loss, grad)
}

#[test]
fn every_setting_runs_as_it_is_defined() {
    let rows = some_rows();
    let entropy: Vec<f32> = (0..10).map(|i| 0.3 + 0.1 * i as f32).collect();
    let mut compared = 0;
    let kinds = [PolicyLossKind::Clip, PolicyLossKind::Gspo, PolicyLossKind::Cispo];
    let estimators = [
        KlEstimator::K1,
        KlEstimator::K2,
        KlEstimator::K3,
        KlEstimator::Abs,
        KlEstimator::K1StraightThrough,
        KlEstimator::K3StraightThrough,
    ];
    for policy_loss in kinds {
        for (kl, kl_estimator) in
            [(KlUse::None, KlEstimator::K3)].into_iter().chain(estimators.map(|e| (KlUse::Loss, e)))
        {
            for kl_clamp in [KlClamp::Verl, KlClamp::None] {
                for rollout_is in [RolloutIs::None, RolloutIs::Token, RolloutIs::Sequence] {
                    for rollout_is_mode in [CorrectionMode::Truncate, CorrectionMode::Mask] {
                        let o = ObjectiveSection {
                            policy_loss,
                            kl,
                            kl_estimator,
                            kl_clamp,
                            kl_coef: 0.4,
                            rollout_is,
                            rollout_is_mode,
                            rollout_is_threshold: 1.2,
                            rollout_is_threshold_lower: 0.8,
                            entropy_coef: 0.03,
                            dual_clip: 1.3,
                            ..Recipe::default().objective
                        };
                        let what = format!("{policy_loss:?} {kl:?} {kl_estimator:?} {kl_clamp:?} {rollout_is:?}");
                        let (loss, grad) = defined(&rows, &entropy, &o);
                        let (ours, of_logprob, of_entropy) = term(&rows, &entropy, &o);
                        close(ours.value, loss, &what);
                        of_logprob.iter().zip(&grad).for_each(|(a, b)| close(*a, *b, &what));
                        let weights = rows.iter().flat_map(|r| std::iter::repeat_n(r.weight, r.new.len()));
                        of_entropy.iter().zip(weights).for_each(|(a, w)| close(*a, -0.03 * w, &what));
                        assert_eq!(ours.bounded > 0, rollout_is != RolloutIs::None, "{what}");
                        compared += 1;
                    }
                }
            }
        }
    }
    assert_eq!(compared, 3 * 7 * 2 * 3 * 2);
}
