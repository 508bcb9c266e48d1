//! KL estimators, the penalty on rewards and the controllers against verl and RLVER's release.

use rlver::objective::{KlClamp, KlController, KlEstimator, KlRow, kl_loss, penalize_rewards};

use super::{GOLDEN, actions, all_close, case, cases, close, fixture, mask, matrix, name, number, numeric_grad};

fn estimator(verl: &str) -> KlEstimator {
    match verl {
        "k1" | "kl" => KlEstimator::K1,
        "k2" | "mse" => KlEstimator::K2,
        "k3" | "low_var_kl" => KlEstimator::K3,
        "abs" => KlEstimator::Abs,
        "k1+" => KlEstimator::K1StraightThrough,
        "k3+" => KlEstimator::K3StraightThrough,
        other => panic!("unknown estimator {other}"),
    }
}

#[test]
fn golden_estimators() {
    let fixture = fixture("ppo_kl.json");
    let mut compared = 0;
    for case in cases(&fixture).iter().filter(|case| case["expected"].get("kl").is_some()) {
        let estimator = estimator(case["params"]["kl_penalty"].as_str().unwrap());
        let (l, f) = (matrix(&case["inputs"]["logprob"]).concat(), matrix(&case["inputs"]["ref_logprob"]).concat());
        let values: Vec<f64> = l.iter().zip(&f).map(|(l, f)| estimator.value(*l, *f, KlClamp::Verl)).collect();
        all_close(&values, &matrix(&case["expected"]["kl"]).concat(), GOLDEN, name(case));
        let ours = kl_loss(estimator, KlClamp::Verl, &[KlRow { logprob: &l, ref_logprob: &f, weight: 1.0 }]).unwrap();
        close(ours.kl_sum, values.iter().sum(), 1e-12, name(case));
        if let Some(grad) = case["expected"].get("grad_logprob_of_sum") {
            all_close(&ours.grad, &matrix(grad).concat(), GOLDEN, name(case));
        }
        compared += 1;
    }
    assert_eq!(compared, 13);
}

#[test]
fn golden_kl_in_reward() {
    let fixture = fixture("ppo_kl.json");
    for name in ["kl_in_reward/kl", "kl_in_reward/low_var_kl"] {
        let case = case(&fixture, name);
        let inputs = &case["inputs"];
        let masks = mask(&inputs["response_mask"]);
        let [old, reference, scores] =
            ["old_log_probs", "ref_log_prob", "token_level_scores"].map(|key| actions(&inputs[key], &masks));
        let rows: Vec<_> =
            old.iter().zip(&reference).map(|(l, f)| KlRow { logprob: l, ref_logprob: f, weight: 1.0 }).collect();
        let scores: Vec<&[f64]> = scores.iter().map(Vec::as_slice).collect();
        let estimator = estimator(case["params"]["kl_penalty"].as_str().unwrap());
        let beta = number(&case["params"]["beta"]);
        let ours = penalize_rewards(estimator, KlClamp::Verl, beta, &scores, &rows).unwrap();
        let expected = actions(&case["expected"]["token_level_rewards"], &masks).concat();
        all_close(&ours.rewards.concat(), &expected, GOLDEN, name);
        close(ours.mean_kl, number(&case["expected"]["current_kl"]), GOLDEN, name);
    }
}

#[test]
fn golden_adaptive_controller() {
    let fixture = fixture("ppo_kl.json");
    let case = case(&fixture, "adaptive_kl_controller");
    let params = &case["params"];
    let mut controller = KlController::Adaptive {
        coef: number(&params["init_kl_coef"]),
        target: number(&params["target_kl"]),
        horizon: number(&params["horizon"]),
    };
    for step in case["expected"]["steps"].as_array().unwrap() {
        controller.update(number(&step["current_kl"]), step["n_steps"].as_u64().unwrap() as usize);
        close(controller.coef(), number(&step["value_after"]), GOLDEN, "adaptive");
    }
}

#[test]
fn hand_computed_kl() {
    let table = [
        (-1.0, -1.3, [0.3, 0.045, 0.040818]),
        (-2.0, -1.1, [-0.9, 0.405, 0.559603]),
        (-0.2, -30.0, [29.8, 444.02, 10.0]),
    ];
    for (l, f, expected) in table {
        let ours = [KlEstimator::K1, KlEstimator::K2, KlEstimator::K3].map(|k| k.value(l, f, KlClamp::Verl));
        all_close(&ours, &expected, 5e-7, "kl");
    }
    let mut controller = KlController::Adaptive { coef: 0.2, target: 6.0, horizon: 10_000.0 };
    controller.update(4.0, 256);
    close(controller.coef(), 0.198976, 5e-7, "below target");
    controller.update(20.0, 256);
    close(controller.coef(), 0.19999476, 1e-8, "above target");
    controller.update(f64::NAN, 256);
    assert!(controller.coef().is_finite());
    let mut fixed = KlController::Fixed { coef: 0.001 };
    fixed.update(9.0, 256);
    assert_eq!(fixed.coef(), 0.001);
}

#[test]
fn gradients_equal_differences() {
    let (l, f) = ([-0.7, -2.4, -0.5, -3.1], [-1.0, -1.9, -0.51, -0.4]);
    for estimator in [KlEstimator::K1, KlEstimator::K2, KlEstimator::K3, KlEstimator::Abs] {
        for clamp in [KlClamp::Verl, KlClamp::None] {
            let loss =
                |l: &[f64]| kl_loss(estimator, clamp, &[KlRow { logprob: l, ref_logprob: &f, weight: 0.3 }]).unwrap();
            all_close(&loss(&l).grad, &numeric_grad(&l, |l| loss(l).loss), 1e-8, &format!("{estimator:?}"));
        }
    }
}

#[test]
fn empty_rows_have_no_kl() {
    let empty = KlRow { logprob: &[], ref_logprob: &[], weight: 0.0 };
    assert_eq!(penalize_rewards(KlEstimator::K1, KlClamp::Verl, 0.1, &[&[]], &[empty]).unwrap().mean_kl, 0.0);
    assert_eq!(kl_loss(KlEstimator::K3, KlClamp::Verl, &[empty]).unwrap().loss, 0.0);
}
