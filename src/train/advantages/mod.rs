//! From the rewards of a step to one advantage per action token.

mod rewards;

use rewards::{over_tokens, token_rewards, turn_rewards};

use crate::Error;
use crate::objective::{
    AdvantageEstimator, Gae, MaskedRow, TurnRewards, gae_actions, gae_rlver, group_advantages, informative_groups,
    reinforce_plus_plus, turn_rloo, whiten,
};
use crate::recipe::{ObjectiveSection, TurnBaseline};
use crate::rollout::Episode;

use super::batch::TrainRow;

/// What advantages are computed from; every list has one entry per row, one value per action token.
pub struct AdvantageInputs<'a> {
    /// The episodes of the step.
    pub episodes: &'a [Episode],
    /// The rows to train on.
    pub rows: &'a [TrainRow],
    /// Log-probabilities before the update.
    pub old_logprobs: &'a [Vec<f32>],
    /// Log-probabilities of the reference policy.
    pub reference_logprobs: Option<&'a [Vec<f32>]>,
    /// The critic's values.
    pub values: Option<&'a [Vec<f32>]>,
    /// Coefficient of a KL penalty in the reward.
    pub kl_coef: f64,
}

/// Advantages and returns of every row's action tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Advantages {
    /// What the policy is updated with.
    pub advantages: Vec<Vec<f64>>,
    /// What the critic is fitted to.
    pub returns: Vec<Vec<f64>>,
    /// Groups whose rewards are equal, or that have one member only.
    pub uninformative_groups: usize,
}

/// Computes advantages over action tokens only: user tokens never enter.
///
/// # Errors
/// When a reward or value is not finite.
pub fn compute(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Result<Advantages, Error> {
    match objective.advantage {
        AdvantageEstimator::Gae | AdvantageEstimator::GaeRlver => with_critic(inputs, objective),
        AdvantageEstimator::ReinforcePlusPlus => reinforce(inputs, objective),
        AdvantageEstimator::TurnRloo => by_turns(inputs, objective),
        _ => with_groups(inputs, objective),
    }
}

fn with_critic(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Result<Advantages, Error> {
    let values = inputs.values.expect("a critic's estimator is only allowed with a critic");
    let mut out = Advantages::default();
    for ((rewards, values), row) in token_rewards(inputs, objective).iter().zip(values).zip(inputs.rows) {
        let values: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        let gae = match objective.advantage {
            // On a row of action tokens the release's plain recursion and ours are the same sum; they differ when user
            // tokens lie between, which our rows do not hand to it.
            AdvantageEstimator::GaeRlver => gae_rlver(rewards, &values, objective.gamma, objective.lambda)?,
            _ if objective.turn_gamma < 1.0 => gae_by_turns(rewards, &values, row, objective),
            _ => gae_actions(rewards, &values, objective.gamma, objective.lambda)?,
        };
        out.advantages.push(gae.advantages);
        out.returns.push(gae.returns);
    }
    if objective.whiten {
        out.advantages = whitened(&out.advantages, |_| true)?;
    }
    Ok(out)
}

/// GAE whose discount is smaller where one turn ends and the next begins. Within a turn every token is discounted
/// alike, so that ending a reply is not judged differently from beginning it.
fn gae_by_turns(rewards: &[f64], values: &[f64], row: &TrainRow, objective: &ObjectiveSection) -> Gae {
    let mut advantages = vec![0.0; rewards.len()];
    let (mut next_value, mut next_advantage) = (0.0, 0.0);
    for t in (0..rewards.len()).rev() {
        let ends = row.turn_ends.iter().any(|(at, _)| *at == t);
        let gamma = objective.gamma * if ends { objective.turn_gamma } else { 1.0 };
        advantages[t] = rewards[t] + gamma * next_value - values[t] + gamma * objective.lambda * next_advantage;
        (next_value, next_advantage) = (values[t], advantages[t]);
    }
    let returns = advantages.iter().zip(values).map(|(a, v)| a + v).collect();
    Gae { advantages, returns }
}

fn with_groups(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Result<Advantages, Error> {
    let scored: Vec<&Episode> = inputs.episodes.iter().filter(|e| e.reward.is_some()).collect();
    let scores: Vec<f64> = scored.iter().map(|e| e.reward.expect("filtered above")).collect();
    let groups: Vec<u64> = scored.iter().map(|e| e.group).collect();
    let grouped = group_advantages(objective.advantage, &scores, &groups, objective.std_convention)?;
    let by_dialogue: std::collections::HashMap<u64, f64> =
        scored.iter().map(|e| e.dialogue).zip(grouped.advantages.iter().copied()).collect();
    let mut advantages: Vec<Vec<f64>> = inputs
        .rows
        .iter()
        .map(|row| vec![by_dialogue[&inputs.episodes[row.episode].dialogue]; row.actions.len()])
        .collect();
    if objective.advantage.whitens() {
        // Groups that compare nothing stay at 0: they neither shift the others nor are shifted.
        let informative = informative_groups(&scores, &groups)?;
        let by_dialogue: std::collections::HashMap<u64, bool> =
            scored.iter().map(|e| e.dialogue).zip(informative).collect();
        let kept = |row: &TrainRow| by_dialogue[&inputs.episodes[row.episode].dialogue];
        advantages = whitened(&advantages, |r| kept(&inputs.rows[r]))?;
    }
    Ok(Advantages {
        returns: advantages.clone(),
        advantages,
        uninformative_groups: grouped.stats.zero_variance + grouped.stats.singletons,
    })
}

/// Every token of a turn gets the turn's credit.
fn by_turns(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Result<Advantages, Error> {
    let scored: Vec<(usize, &Episode)> =
        inputs.episodes.iter().enumerate().filter(|(_, e)| e.reward.is_some()).collect();
    let rewards: Vec<Vec<f64>> = scored.iter().map(|(_, e)| turn_rewards(e)).collect();
    let mut kinds = std::collections::BTreeMap::new();
    let dialogues: Vec<TurnRewards<'_>> = scored
        .iter()
        .zip(&rewards)
        .map(|((_, episode), rewards)| {
            let scope = match objective.turn_baseline {
                TurnBaseline::Step => 0,
                TurnBaseline::Group => episode.group,
                TurnBaseline::Intention => {
                    let next = kinds.len() as u64;
                    *kinds.entry((episode.intention, episode.language)).or_insert(next)
                }
            };
            TurnRewards { scope, rewards }
        })
        .collect();
    let credit = turn_rloo(objective.turn_gamma, objective.whiten, &dialogues)?;
    let by_episode: std::collections::HashMap<usize, &Vec<f64>> =
        scored.iter().map(|(index, _)| *index).zip(&credit.advantages).collect();
    let advantages: Vec<Vec<f64>> =
        inputs.rows.iter().map(|row| over_tokens(row, |turn| by_episode[&row.episode][turn])).collect();
    Ok(Advantages { returns: advantages.clone(), advantages, uninformative_groups: 0 })
}

fn reinforce(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Result<Advantages, Error> {
    let rewards = token_rewards(inputs, objective);
    let masks: Vec<Vec<bool>> = rewards.iter().map(|r| vec![true; r.len()]).collect();
    let rows: Vec<MaskedRow<'_>> =
        rewards.iter().zip(&masks).map(|(values, mask)| MaskedRow { values, mask }).collect();
    let result = reinforce_plus_plus(&rows, objective.gamma)?;
    Ok(Advantages { advantages: result.advantages, returns: result.returns, uninformative_groups: 0 })
}

/// Whitens the rows that `keep` names, over their tokens; the others become 0.
fn whitened(rows: &[Vec<f64>], keep: impl Fn(usize) -> bool) -> Result<Vec<Vec<f64>>, Error> {
    let masks: Vec<Vec<bool>> = rows.iter().enumerate().map(|(r, row)| vec![keep(r); row.len()]).collect();
    let rows: Vec<MaskedRow<'_>> = rows.iter().zip(&masks).map(|(values, mask)| MaskedRow { values, mask }).collect();
    Ok(whiten(&rows, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TrainRow {
        TrainRow {
            episode: 0,
            ids: vec![0; 7],
            actions: vec![1, 2, 4, 5, 6],
            turn_ends: vec![(1, 0), (4, 1)],
            rollout_logprobs: vec![0.0; 5],
        }
    }

    #[test]
    fn discounting_turns_leaves_tokens_within_a_turn_alike() {
        let rewards = [0.0, 0.1, 0.0, 0.0, -0.05];
        let settings = |turn_gamma| ObjectiveSection { turn_gamma, ..ObjectiveSection::default() };
        let gae = gae_by_turns(&rewards, &[0.0; 5], &row(), &settings(0.5));
        // The first turn earns 0.1 and half of what the second one loses.
        for (advantage, expected) in gae.advantages.iter().zip([0.075, 0.075, -0.05, -0.05, -0.05]) {
            assert!((advantage - expected).abs() < 1e-12, "{:?}", gae.advantages);
        }
        let values = [0.3, -0.2, 0.1, 0.0, 0.4];
        let plain = gae_actions(&rewards, &values, 1.0, 1.0).unwrap();
        let ours = gae_by_turns(&rewards, &values, &row(), &settings(1.0));
        assert!(ours.advantages.iter().zip(&plain.advantages).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
