//! Group estimators, REINFORCE++ and ReMax against verl, TRL and hand-computed numbers.

use rlver::objective::{
    AdvantageEstimator, GroupAdvantages, GroupScale, MaskedRow, ObjectiveError, StdConvention, group_advantages,
    reinforce_plus_plus, remax, reward_to_go, whiten,
};
use serde_json::Value;

use super::{GOLDEN, all_close, case, close, fixture, mask, matrix, number, vector};

const SCORES: [f64; 4] = [0.10, 0.55, 0.80, 0.35];

fn run(estimator: AdvantageEstimator, scores: &[f64], groups: &[u64], convention: StdConvention) -> GroupAdvantages {
    group_advantages(estimator, scores, groups, convention).unwrap()
}

fn one_group(estimator: AdvantageEstimator, scores: &[f64], convention: StdConvention) -> Vec<f64> {
    run(estimator, scores, &vec![7; scores.len()], convention).advantages
}

fn batch(case: &Value) -> (Vec<f64>, Vec<u64>) {
    let letters = case["inputs"]["index"].as_array().unwrap();
    let groups = letters.iter().map(|letter| u64::from(letter.as_str().unwrap().as_bytes()[0])).collect();
    (vector(&case["inputs"]["scores"]), groups)
}

/// verl broadcasts a dialogue's advantage over its action tokens; ours is per dialogue, 0 for the singletons `c`, `d`.
#[test]
fn golden_group_estimators() {
    let fixture = fixture("ppo_group_advantage.json");
    let table = [
        ("compute_grpo_outcome_advantage/norm_std=True", AdvantageEstimator::Grpo),
        ("rlver_legacy/grpo", AdvantageEstimator::Grpo),
        ("compute_grpo_outcome_advantage/norm_std=False", AdvantageEstimator::DrGrpo),
        ("compute_grpo_vectorized_outcome_advantage/norm_std=False", AdvantageEstimator::DrGrpo),
        ("rloo", AdvantageEstimator::Rloo),
    ];
    for (name, estimator) in table {
        let case = case(&fixture, name);
        let (scores, groups) = batch(case);
        let masks = mask(&case["inputs"]["response_mask"]);
        let ours = run(estimator, &scores, &groups, StdConvention::Verl);
        for (dialogue, row) in matrix(&case["expected"]["advantages"]).iter().enumerate() {
            let singleton = groups.iter().filter(|group| **group == groups[dialogue]).count() == 1;
            for (theirs, action) in row.iter().zip(&masks[dialogue]) {
                match (*action, singleton) {
                    (false, _) => assert_eq!(*theirs, 0.0),
                    (true, true) => assert_eq!(ours.advantages[dialogue], 0.0),
                    (true, false) => close(ours.advantages[dialogue], *theirs, GOLDEN, name),
                }
            }
        }
        assert_eq!((ours.stats.groups, ours.stats.singletons, ours.stats.zero_variance), (4, 2, 1));
    }
}

#[test]
fn golden_trl_scale_rewards() {
    let fixture = fixture("ppo_group_advantage.json");
    let table = [
        ("trl/scale_rewards=group", AdvantageEstimator::Grpo, StdConvention::Trl),
        ("trl/scale_rewards=batch", AdvantageEstimator::Grpo, StdConvention::TrlBatch),
        ("trl/scale_rewards=none", AdvantageEstimator::DrGrpo, StdConvention::Trl),
    ];
    for (name, estimator, convention) in table {
        let case = case(&fixture, name);
        let size = case["inputs"]["num_generations"].as_u64().unwrap();
        let scores = vector(&case["inputs"]["rewards"]);
        let groups: Vec<u64> = (0..scores.len() as u64).map(|dialogue| dialogue / size).collect();
        let ours = run(estimator, &scores, &groups, convention);
        all_close(&ours.advantages, &vector(&case["expected"]["advantages"]), GOLDEN, name);
    }
}

/// verl keeps the raw score of a singleton before it whitens, so the singletons are put back to compare the rest.
#[test]
fn golden_reinforce_plus_plus_baseline() {
    let fixture = fixture("ppo_group_advantage.json");
    let case = case(&fixture, "reinforce_plus_plus_baseline");
    let (scores, groups) = batch(case);
    let masks = mask(&case["inputs"]["response_mask"]);
    let mut centred =
        run(AdvantageEstimator::ReinforcePlusPlusBaseline, &scores, &groups, StdConvention::Verl).advantages;
    for dialogue in 0..scores.len() {
        if groups.iter().filter(|group| **group == groups[dialogue]).count() == 1 {
            assert_eq!(centred[dialogue], 0.0);
            centred[dialogue] = scores[dialogue];
        }
    }
    let tokens: Vec<Vec<f64>> = centred.iter().zip(&masks).map(|(a, mask)| vec![*a; mask.len()]).collect();
    let rows: Vec<_> = tokens.iter().zip(&masks).map(|(values, mask)| MaskedRow { values, mask }).collect();
    for (ours, theirs) in whiten(&rows, true).unwrap().iter().zip(matrix(&case["expected"]["advantages"])) {
        all_close(ours, &theirs, GOLDEN, "reinforce_plus_plus_baseline");
    }
}

#[test]
fn golden_reinforce_plus_plus() {
    let fixture = fixture("ppo_group_advantage.json");
    let case = case(&fixture, "reinforce_plus_plus");
    let (rewards, masks) = (matrix(&case["inputs"]["token_level_rewards"]), mask(&case["inputs"]["response_mask"]));
    let rows: Vec<_> = rewards.iter().zip(&masks).map(|(values, mask)| MaskedRow { values, mask }).collect();
    let ours = reinforce_plus_plus(&rows, number(&case["params"]["gamma"])).unwrap();
    for (key, ours) in [("advantages", ours.advantages), ("returns", ours.returns)] {
        for (ours, theirs) in ours.iter().zip(matrix(&case["expected"][key])) {
            all_close(ours, &theirs, GOLDEN, key);
        }
    }
}

#[test]
fn hand_computed_group() {
    let table = [
        (AdvantageEstimator::Grpo, StdConvention::Verl, [-1.177618, 0.336462, 1.177618, -0.336462]),
        (AdvantageEstimator::Grpo, StdConvention::Trl, [-1.177225, 0.33635, 1.177225, -0.33635]),
        (AdvantageEstimator::DrGrpo, StdConvention::Verl, [-0.35, 0.10, 0.35, -0.10]),
        (AdvantageEstimator::Rloo, StdConvention::Verl, [-0.466667, 0.133333, 0.466667, -0.133333]),
    ];
    for (estimator, convention, expected) in table {
        all_close(&one_group(estimator, &SCORES, convention), &expected, 5e-7, &format!("{estimator:?}"));
    }
}

#[test]
fn judge_noise_is_not_scaled_up() {
    let jitter = [0.3, 0.3, 0.3, 0.3 + 1e-7];
    for estimator in [AdvantageEstimator::Grpo, AdvantageEstimator::DrGrpo, AdvantageEstimator::Rloo] {
        assert_eq!(one_group(estimator, &jitter, StdConvention::Verl), [0.0; 4]);
    }
}

#[test]
fn unscored_dialogues_are_refused_and_an_empty_batch_is_fine() {
    let refused = group_advantages(AdvantageEstimator::Grpo, &[0.1, f64::NAN], &[0, 0], StdConvention::Verl);
    assert!(matches!(refused, Err(ObjectiveError::NotFinite { index: 1, .. })));
    let refused = group_advantages(AdvantageEstimator::Grpo, &[0.1], &[0, 0], StdConvention::Verl);
    assert!(matches!(refused, Err(ObjectiveError::LengthMismatch { .. })));
    assert!(run(AdvantageEstimator::Grpo, &[], &[], StdConvention::Verl).advantages.is_empty());
}

#[test]
fn reward_to_go_reaches_the_first_turn() {
    let mask = [true, false, true, true, false];
    assert_eq!(reward_to_go(&[0.0, f64::NAN, 0.0, 1.0, f64::NAN], &mask, 0.5).unwrap(), [0.25, 0.0, 0.5, 1.0, 0.0]);
    assert_eq!(remax(&[0.0, 9.0, 0.0, 1.0, 9.0], &mask, 0.25).unwrap(), [0.75, 0.0, 0.75, 0.75, 0.0]);
}

#[test]
fn recipe_names() {
    let names = [
        ("gae", AdvantageEstimator::Gae),
        ("gae-rlver", AdvantageEstimator::GaeRlver),
        ("grpo", AdvantageEstimator::Grpo),
        ("dr_grpo", AdvantageEstimator::DrGrpo),
        ("rloo", AdvantageEstimator::Rloo),
        ("reinforce_plus_plus", AdvantageEstimator::ReinforcePlusPlus),
        ("reinforce_plus_plus_baseline", AdvantageEstimator::ReinforcePlusPlusBaseline),
        ("remax", AdvantageEstimator::Remax),
    ];
    for (name, estimator) in names {
        assert_eq!(serde_json::to_value(estimator).unwrap(), name);
        assert_eq!(serde_json::from_value::<AdvantageEstimator>(name.into()).unwrap(), estimator);
    }
}

#[test]
fn a_floor_keeps_small_differences_small() {
    let scale = |floor| GroupScale { convention: StdConvention::Verl, floor };
    let scores = [0.50, 0.52, 0.10, 0.90];
    let groups = [0, 0, 1, 1];
    let run = |floor| group_advantages(AdvantageEstimator::Grpo, &scores, &groups, scale(floor)).unwrap().advantages;
    // σ of (0.50, 0.52) is 0.02/√2, of (0.10, 0.90) 0.8/√2.
    let half = 0.5f64.sqrt();
    all_close(&run(0.0), &[-half, half, -half, half], 1e-4, "no floor");
    all_close(&run(0.1), &[-0.1, 0.1, -half, half], 1e-5, "a floor of 0.1");
    let refused = group_advantages(AdvantageEstimator::Grpo, &scores, &groups, scale(-1.0));
    assert!(matches!(refused, Err(ObjectiveError::OutOfRange { .. })));
}
