//! What is taken off rewards, and where: KL to the reference and overlong replies, for every kind of estimator; and
//! the estimators that need more than rewards.

use std::collections::HashMap;

use rlver::dialogue::Role;
use rlver::objective::{AdvantageEstimator, KlEstimator};
use rlver::recipe::{KlUse, ObjectiveSection, Recipe};
use rlver::rollout::Episode;
use rlver::train::{AdvantageInputs, Advantages, TrainRow, compute_advantages};

use super::advantages::{episode, segment};

/// Dialogues of one group; `turns` are the lengths of their replies, each in a row of its own when `think`.
fn dialogues(rewards: &[f64], turns: &[&[usize]], think: bool) -> Vec<Episode> {
    let one = |(d, (reward, turns)): (usize, (&f64, &&[usize]))| {
        let pieces = turns.iter().enumerate().map(|(turn, n)| {
            let mut said = segment(Role::User, 3);
            let mut sampled = segment(Role::Assistant, *n);
            (said.turn, sampled.turn) = (turn, turn);
            vec![said, sampled]
        });
        let rows = if think { pieces.collect() } else { vec![pieces.flatten().collect()] };
        episode(d as u64, 0, Some(*reward), rows)
    };
    rewards.iter().zip(turns).enumerate().map(one).collect()
}

fn objective(advantage: AdvantageEstimator) -> ObjectiveSection {
    ObjectiveSection { advantage, whiten: false, ..Recipe::default().objective }
}

fn compute(inputs: AdvantageInputs<'_>, objective: &ObjectiveSection) -> Advantages {
    let rows = TrainRow::from_episodes(inputs.episodes);
    let old: Vec<Vec<f32>> = rows.iter().map(|r| r.rollout_logprobs.clone()).collect();
    let rest = AdvantageInputs { rows: &rows, old_logprobs: &old, reply_limit: 10, ..inputs };
    // A reference that is further away with every token: k1 is 0.1, 0.2 … (the old log-probabilities are −1).
    let reference: Vec<Vec<f32>> =
        rows.iter().map(|r| (0..r.actions.len()).map(|t| -1.0 - 0.1 * (t as f32 + 1.0)).collect()).collect();
    let with_reference = AdvantageInputs { reference_logprobs: Some(&reference), kl_coef: 0.5, ..rest };
    compute_advantages(if objective.kl == KlUse::None { &rest } else { &with_reference }, objective).unwrap()
}

#[track_caller]
fn all_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} is not {expected:?}");
}

#[test]
fn a_kl_penalty_is_paid_where_it_arises() {
    let k1 = |advantage| ObjectiveSection { kl: KlUse::Reward, kl_estimator: KlEstimator::K1, ..objective(advantage) };
    let (two, zeros) = (dialogues(&[0.8, 0.2], &[&[1, 2], &[2]], false), [vec![0.0; 3], vec![0.0; 2]]);
    let inputs = AdvantageInputs { episodes: &two, values: Some(&zeros), ..AdvantageInputs::default() };
    // Penalties −0.05, −0.1, −0.15 and −0.05, −0.1; the reward is on the last token.
    let gae = compute(inputs, &k1(AdvantageEstimator::Gae));
    all_close(&gae.advantages[0], &[0.8 - 0.3, 0.8 - 0.25, 0.8 - 0.15]);
    all_close(&gae.advantages[1], &[0.2 - 0.15, 0.2 - 0.1]);
    assert!((gae.mean_kl.unwrap() - (0.2 + 0.15) / 2.0).abs() < 1e-6, "mean over rows of the row's mean");
    // A group estimator compares whole dialogues: 0.5 and 0.05.
    let grouped = compute(inputs, &k1(AdvantageEstimator::DrGrpo));
    all_close(&grouped.advantages.concat(), &[0.225, 0.225, 0.225, -0.225, -0.225]);
    // As a loss it leaves rewards alone and is still measured.
    let as_loss = ObjectiveSection { kl: KlUse::Loss, ..k1(AdvantageEstimator::DrGrpo) };
    let grouped = compute(inputs, &as_loss);
    all_close(&grouped.advantages.concat(), &[0.3, 0.3, 0.3, -0.3, -0.3]);
    assert!(grouped.mean_kl.is_some() && compute(inputs, &objective(AdvantageEstimator::DrGrpo)).mean_kl.is_none());
}

#[test]
fn long_replies_cost_their_dialogue_and_their_turn() {
    let shaped = |advantage| ObjectiveSection { overlong_buffer: 4, overlong_factor: 0.8, ..objective(advantage) };
    for think in [false, true] {
        // Limit 10, buffer 4: replies of 6 or less are free, 8 costs half, 10 all of 0.8; per dialogue divided by its replies.
        let episodes = dialogues(&[0.5, 0.5], &[&[6, 10], &[8, 2]], think);
        let inputs = AdvantageInputs { episodes: &episodes, ..AdvantageInputs::default() };
        let grouped = compute(inputs, &shaped(AdvantageEstimator::DrGrpo)).advantages.concat();
        all_close(&grouped, &[vec![-0.1; 16], vec![0.1; 10]].concat());
        let plain = compute(inputs, &objective(AdvantageEstimator::DrGrpo));
        assert_eq!((plain.uninformative_groups, plain.singletons), (1, 0));
    }
    let episodes = dialogues(&[0.5], &[&[6, 10]], false);
    let inputs = AdvantageInputs { episodes: &episodes, values: Some(&[vec![0.0; 16]]), ..AdvantageInputs::default() };
    let gae = compute(inputs, &shaped(AdvantageEstimator::Gae)).advantages.concat();
    all_close(&gae, &[0.5 - 0.4; 16]);
}

#[test]
fn remax_compares_with_the_greedy_dialogue_of_the_group() {
    let episodes = dialogues(&[0.8, 0.2], &[&[2], &[1, 1]], false);
    let greedy = HashMap::from([(0u64, 0.3)]);
    let inputs = AdvantageInputs { episodes: &episodes, greedy_rewards: Some(&greedy), ..AdvantageInputs::default() };
    let found = compute(inputs, &objective(AdvantageEstimator::Remax));
    all_close(&found.advantages.concat(), &[0.5, 0.5, -0.1, -0.1]);
    let nothing = HashMap::new();
    let inputs = AdvantageInputs { greedy_rewards: Some(&nothing), ..inputs };
    assert_eq!(compute(inputs, &objective(AdvantageEstimator::Remax)).advantages.concat(), [0.0; 4]);
}

#[test]
fn the_releases_recursion_runs_through_user_tokens() {
    // Two turns of two and one token with three user tokens between: values of all six.
    let episodes = dialogues(&[1.0], &[&[2, 1]], false);
    let all = [vec![0.1f32, 0.2, 0.3, 0.4, 0.5, 0.6]];
    let of_actions = [vec![0.1f32, 0.2, 0.6]];
    let inputs = AdvantageInputs {
        episodes: &episodes,
        values: Some(&of_actions),
        response_values: Some(&all),
        ..AdvantageInputs::default()
    };
    let o = ObjectiveSection { lambda: 0.5, ..objective(AdvantageEstimator::GaeRlver) };
    let found = compute(inputs, &o).advantages.concat();
    // Last to first: δ = 1 − 0.6, then 0.1 each plus half of what follows.
    let mut expected = vec![0.4];
    for _ in 0..5 {
        expected.insert(0, 0.1 + 0.5 * expected[0]);
    }
    all_close(&found, &[expected[0], expected[1], expected[5]]);
    // The masked recursion skips them: one decay from token 1 to the last.
    let ours = compute(inputs, &ObjectiveSection { advantage: AdvantageEstimator::Gae, ..o }).advantages.concat();
    all_close(&ours, &[0.1 + 0.5 * 0.6, 0.4 + 0.5 * 0.4, 0.4]);
    // Without decay they agree.
    let flat = |advantage| ObjectiveSection { lambda: 1.0, ..objective(advantage) };
    let release = compute(inputs, &flat(AdvantageEstimator::GaeRlver)).advantages.concat();
    all_close(&release, &compute(inputs, &flat(AdvantageEstimator::Gae)).advantages.concat());
}
