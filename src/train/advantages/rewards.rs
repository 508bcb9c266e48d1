//! What a dialogue earned, and where it goes: on tokens, on turns, or on the dialogue as a whole.

use super::AdvantageInputs;
use crate::Error;
use crate::objective::{KlRow, OverlongPenalty, penalize_rewards, place_terminal_reward};
use crate::recipe::{KlUse, ObjectiveSection, RewardPlacement};
use crate::rollout::Episode;
use crate::train::TrainRow;

/// Rewards of a step beside the user's: penalties on tokens.
pub(super) struct Shaping {
    /// Per row and action token; 0 or negative but for the KL, whose estimate may be either.
    tokens: Vec<Vec<f64>>,
    /// Mean KL to the reference per token, mean over rows, where there is a reference.
    pub(super) mean_kl: Option<f64>,
}

impl Shaping {
    /// The KL penalty and the penalty for long replies.
    pub(super) fn new(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Result<Shaping, Error> {
        let mut tokens: Vec<Vec<f64>> = inputs.rows.iter().map(|row| vec![0.0; row.actions.len()]).collect();
        let mut mean_kl = None;
        if let Some(reference) = inputs.reference_logprobs {
            let wide = |lists: &[Vec<f32>]| -> Vec<Vec<f64>> {
                lists.iter().map(|list| list.iter().map(|v| f64::from(*v)).collect()).collect()
            };
            let (old, reference) = (wide(inputs.old_logprobs), wide(reference));
            let rows: Vec<KlRow<'_>> = old
                .iter()
                .zip(&reference)
                .map(|(logprob, ref_logprob)| KlRow { logprob, ref_logprob, weight: 0.0 })
                .collect();
            let nothing: Vec<&[f64]> = tokens.iter().map(Vec::as_slice).collect();
            let beta = if objective.kl == KlUse::Reward { inputs.kl_coef } else { 0.0 };
            let penalized = penalize_rewards(objective.kl_estimator, objective.kl_clamp, beta, &nothing, &rows)?;
            mean_kl = Some(penalized.mean_kl);
            tokens = penalized.rewards;
        }
        if objective.overlong_buffer > 0 {
            let overlong = OverlongPenalty {
                max_length: inputs.reply_limit,
                buffer: objective.overlong_buffer,
                factor: objective.overlong_factor,
            };
            let mut replies = vec![0usize; inputs.episodes.len()];
            for row in inputs.rows {
                replies[row.episode] += row.turn_ends.len();
            }
            for (row, tokens) in inputs.rows.iter().zip(&mut tokens) {
                let mut start = 0;
                for (end, _) in &row.turn_ends {
                    tokens[*end] += overlong.penalty(end + 1 - start)? / replies[row.episode] as f64;
                    start = end + 1;
                }
            }
        }
        Ok(Shaping { tokens, mean_kl })
    }

    /// Per row and action token: the user's reward where the recipe puts it, and the penalties.
    pub(super) fn token_rewards(&self, inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Vec<Vec<f64>> {
        let of_row = |(row, penalties): (&TrainRow, &Vec<f64>)| {
            let episode = &inputs.episodes[row.episode];
            let rewards = match objective.reward {
                RewardPlacement::Terminal => place_terminal_reward(&vec![true; row.actions.len()], reward(episode)),
                RewardPlacement::EmotionPotential => emotion_changes(episode, row),
            };
            rewards.iter().zip(penalties).map(|(r, p)| r + p).collect()
        };
        inputs.rows.iter().zip(&self.tokens).map(of_row).collect()
    }

    /// One score per episode, penalties included; `None` for an unscored one.
    pub(super) fn scores(&self, inputs: &AdvantageInputs<'_>) -> Vec<Option<f64>> {
        let mut scores: Vec<Option<f64>> = inputs.episodes.iter().map(|e| e.reward).collect();
        for (row, penalties) in inputs.rows.iter().zip(&self.tokens) {
            if let Some(score) = &mut scores[row.episode] {
                *score += penalties.iter().sum::<f64>();
            }
        }
        scores
    }

    /// What each reply earned, penalties included, per episode; nothing for an unscored one. Without penalties the
    /// replies of a dialogue sum to its reward minus the emotion it started with.
    pub(super) fn turn_rewards(&self, inputs: &AdvantageInputs<'_>) -> Vec<Vec<f64>> {
        let mut rewards: Vec<Vec<f64>> = inputs.episodes.iter().map(turn_rewards).collect();
        for (row, penalties) in inputs.rows.iter().zip(&self.tokens) {
            let mut start = 0;
            for (end, turn) in &row.turn_ends {
                rewards[row.episode][*turn] += penalties[start..=*end].iter().sum::<f64>();
                start = end + 1;
            }
        }
        rewards
    }
}

/// A value per turn, given to each of a row's action tokens.
pub(super) fn over_tokens(row: &TrainRow, of_turn: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut values = Vec::with_capacity(row.actions.len());
    for (end, turn) in &row.turn_ends {
        values.resize(end + 1, of_turn(*turn));
    }
    values
}

fn reward(episode: &Episode) -> f64 {
    episode.reward.expect("only scored episodes become rows")
}

/// On the last action token of each turn of a row, the emotion's change by it; on the row's last one also what is
/// left to the dialogue's reward. From any turn on they sum to the reward minus the emotion before that turn.
fn emotion_changes(episode: &Episode, row: &TrainRow) -> Vec<f64> {
    let mut rewards = vec![0.0; row.actions.len()];
    for ends in row.turn_ends.windows(2) {
        let [(at, _), (_, next)] = ends else { unreachable!("windows of two") };
        rewards[*at] = before(episode, *next) - before(episode, next - 1);
    }
    if let Some((at, turn)) = row.turn_ends.last() {
        rewards[*at] = reward(episode) - before(episode, *turn);
    }
    rewards
}

/// The reward a dialogue would have had if it had ended before `turn`.
fn before(episode: &Episode, turn: usize) -> f64 {
    match turn {
        0 => episode.start_emotion.reward(),
        _ => episode.turns[turn - 1].user.as_ref().map_or_else(|| reward(episode), |user| user.after.reward()),
    }
}

/// The emotion's change by each reply, and on the last one what is left to the dialogue's reward.
fn turn_rewards(episode: &Episode) -> Vec<f64> {
    let Some(reward) = episode.reward else { return Vec::new() };
    let turns = episode.turns.len();
    let after = |turn: usize| if turn + 1 == turns { reward } else { before(episode, turn + 1) };
    (0..turns).map(|turn| after(turn) - before(episode, turn)).collect()
}
