//! Where a dialogue's reward goes: on tokens, or on turns.

use super::AdvantageInputs;
use crate::objective::{KlClamp, place_terminal_reward};
use crate::recipe::{KlUse, ObjectiveSection, RewardPlacement};
use crate::rollout::Episode;
use crate::train::TrainRow;

/// Per action token: the penalty for leaving the reference, and where the recipe puts it the dialogue's reward.
pub(super) fn token_rewards(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Vec<Vec<f64>> {
    inputs
        .rows
        .iter()
        .enumerate()
        .map(|(r, row)| {
            let episode = &inputs.episodes[row.episode];
            let mut rewards = match objective.reward {
                RewardPlacement::Terminal => {
                    let reward = episode.reward.expect("only scored episodes become rows");
                    place_terminal_reward(&vec![true; row.actions.len()], reward)
                }
                RewardPlacement::EmotionPotential => emotion_changes(episode, row),
            };
            if let (KlUse::Reward, Some(reference)) = (objective.kl, inputs.reference_logprobs) {
                for ((reward, l), f) in rewards.iter_mut().zip(&inputs.old_logprobs[r]).zip(&reference[r]) {
                    let kl = objective.kl_estimator.value(f64::from(*l), f64::from(*f), KlClamp::Verl);
                    *reward -= inputs.kl_coef * kl;
                }
            }
            rewards
        })
        .collect()
}

/// On the last action token of each turn of a row, the emotion's change by it; on the row's last one also what is
/// left to the dialogue's reward. From any turn on they sum to the reward minus the emotion before that turn.
fn emotion_changes(episode: &Episode, row: &TrainRow) -> Vec<f64> {
    let reward = episode.reward.expect("only scored episodes become rows");
    let mut rewards = vec![0.0; row.actions.len()];
    for ends in row.turn_ends.windows(2) {
        let [(at, _), (_, next)] = ends else { unreachable!("windows of two") };
        rewards[*at] = before(episode, *next, reward) - before(episode, next - 1, reward);
    }
    if let Some((at, turn)) = row.turn_ends.last() {
        rewards[*at] = reward - before(episode, *turn, reward);
    }
    rewards
}

/// The reward a dialogue would have had if it had ended before `turn`.
fn before(episode: &Episode, turn: usize, reward: f64) -> f64 {
    match turn {
        0 => episode.start_emotion.reward(),
        _ => episode.turns[turn - 1].user.as_ref().map_or(reward, |user| user.after.reward()),
    }
}

/// What each reply of a scored dialogue earned: the emotion's change by it, and on the last one what is left to the
/// dialogue's reward. They sum to the reward minus the emotion at the start.
pub(super) fn turn_rewards(episode: &Episode) -> Vec<f64> {
    let reward = episode.reward.expect("only scored episodes have rewards");
    let turns = episode.turns.len();
    (0..turns)
        .map(|turn| {
            let after = if turn + 1 == turns { reward } else { before(episode, turn + 1, reward) };
            after - before(episode, turn, reward)
        })
        .collect()
}

/// A value per turn, given to each of a row's action tokens.
pub(super) fn over_tokens(row: &TrainRow, of_turn: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut values = Vec::with_capacity(row.actions.len());
    for (end, turn) in &row.turn_ends {
        values.resize(end + 1, of_turn(*turn));
    }
    values
}
