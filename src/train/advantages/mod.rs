//! From the rewards of a step to one advantage per action token.

mod rewards;

use std::collections::{BTreeMap, HashMap};

use rewards::{Shaping, over_tokens};

use crate::Error;
use crate::objective::{
    AdvantageEstimator, DistancePotential, Gae, GroupScale, MaskedRow, TurnCredit, TurnRewards, TurnTrace,
    distance_potential, gae_actions, gae_rlver, group_advantages, informative_groups, reinforce_plus_plus, remax,
    turn_centred, turn_rloo, whiten,
};
use crate::recipe::{ObjectiveSection, TurnBaseline};
use crate::rollout::Episode;

use super::batch::TrainRow;

/// What advantages are computed from; lists of lists have one entry per row, one value per action token.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdvantageInputs<'a> {
    /// The episodes of the step.
    pub episodes: &'a [Episode],
    /// The rows to train on.
    pub rows: &'a [TrainRow],
    /// Log-probabilities before the update; read only where there is a reference.
    pub old_logprobs: &'a [Vec<f32>],
    /// Log-probabilities of the reference policy.
    pub reference_logprobs: Option<&'a [Vec<f32>]>,
    /// The critic's values.
    pub values: Option<&'a [Vec<f32>]>,
    /// The critic's values at every token of [`TrainRow::response`], for `gae-rlver`.
    pub response_values: Option<&'a [Vec<f32>]>,
    /// Rewards of the groups' greedy dialogues, for `remax`.
    pub greedy_rewards: Option<&'a HashMap<u64, f64>>,
    /// Coefficient of a KL penalty in the reward.
    pub kl_coef: f64,
    /// Longest reply in tokens, for the overlong penalty.
    pub reply_limit: usize,
}

/// Advantages and returns of every row's action tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Advantages {
    /// What the policy is updated with.
    pub advantages: Vec<Vec<f64>>,
    /// What the critic is fitted to; empty without one.
    pub returns: Vec<Vec<f64>>,
    /// Groups whose rewards are equal, or that have one member only.
    pub uninformative_groups: usize,
    /// Of these, groups of one scored dialogue.
    pub singletons: usize,
    /// Mean KL to the reference per token, mean over rows, where there is a reference.
    pub mean_kl: Option<f64>,
}

/// Computes advantages over action tokens only: user tokens never enter (but for `gae-rlver`, whose point they are).
///
/// # Errors
/// When a reward or value is not finite.
///
/// # Panics
/// When `objective` needs a list that `inputs` lacks: values, or the greedy dialogues' rewards.
pub fn compute(inputs: &AdvantageInputs<'_>, objective: &ObjectiveSection) -> Result<Advantages, Error> {
    let shaping = Shaping::new(inputs, objective)?;
    let mut out = match objective.advantage {
        AdvantageEstimator::Gae | AdvantageEstimator::GaeRlver => with_critic(inputs, objective, &shaping),
        AdvantageEstimator::ReinforcePlusPlus => reinforce(inputs, objective, &shaping),
        AdvantageEstimator::Remax => against_greedy(inputs, objective, &shaping),
        AdvantageEstimator::TurnRloo | AdvantageEstimator::DistancePotential => by_turns(inputs, objective, &shaping),
        AdvantageEstimator::Grpo
        | AdvantageEstimator::DrGrpo
        | AdvantageEstimator::Rloo
        | AdvantageEstimator::ReinforcePlusPlusBaseline => with_groups(inputs, objective, &shaping),
    }?;
    out.mean_kl = shaping.mean_kl;
    Ok(out)
}

fn with_critic(
    inputs: &AdvantageInputs<'_>,
    objective: &ObjectiveSection,
    shaping: &Shaping,
) -> Result<Advantages, Error> {
    let mut out = Advantages::default();
    for (r, rewards) in shaping.token_rewards(inputs, objective).iter().enumerate() {
        let row = &inputs.rows[r];
        let gae = if objective.advantage == AdvantageEstimator::GaeRlver {
            let values = inputs.response_values.expect("gae-rlver reads values of the whole response");
            gae_over_response(rewards, &wide(&values[r]), row, objective)?
        } else {
            let values = wide(&inputs.values.expect("a critic's estimator is only allowed with a critic")[r]);
            if objective.turn_gamma < 1.0 {
                gae_by_turns(rewards, &values, row, objective)
            } else {
                gae_actions(rewards, &values, objective.gamma, objective.lambda)?
            }
        };
        out.advantages.push(gae.advantages);
        out.returns.push(gae.returns);
    }
    if objective.whiten {
        out.advantages = whitened(&out.advantages, |_| true)?;
    }
    Ok(out)
}

/// The release's recursion over every token from the first action on; what it gives the actions.
fn gae_over_response(
    rewards: &[f64],
    values: &[f64],
    row: &TrainRow,
    objective: &ObjectiveSection,
) -> Result<Gae, Error> {
    let first = row.response().start;
    let mut spread = vec![0.0; values.len()];
    for (at, reward) in row.actions.iter().zip(rewards) {
        spread[at - first] = *reward;
    }
    let all = gae_rlver(&spread, values, objective.gamma, objective.lambda)?;
    let pick = |list: &[f64]| row.actions.iter().map(|at| list[at - first]).collect();
    Ok(Gae { advantages: pick(&all.advantages), returns: pick(&all.returns) })
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

fn with_groups(
    inputs: &AdvantageInputs<'_>,
    objective: &ObjectiveSection,
    shaping: &Shaping,
) -> Result<Advantages, Error> {
    let scored: Vec<(usize, f64)> =
        shaping.scores(inputs).iter().enumerate().filter_map(|(e, score)| Some((e, (*score)?))).collect();
    let scores: Vec<f64> = scored.iter().map(|(_, score)| *score).collect();
    let groups: Vec<u64> = scored.iter().map(|(e, _)| inputs.episodes[*e].group).collect();
    let scale = GroupScale { convention: objective.std_convention, floor: objective.std_floor };
    let grouped = group_advantages(objective.advantage, &scores, &groups, scale)?;
    let of_episode: HashMap<usize, f64> =
        scored.iter().map(|(e, _)| *e).zip(grouped.advantages.iter().copied()).collect();
    let turns: Option<Vec<Vec<f64>>> = match objective.turn_credit {
        TurnCredit::None => None,
        TurnCredit::TurnCentred => Some(
            (shaping.turn_rewards(inputs).iter().enumerate())
                .map(|(e, rewards)| {
                    let advantage = of_episode.get(&e).copied().unwrap_or(0.0);
                    turn_centred(advantage, rewards, objective.turn_alpha)
                })
                .collect::<Result<_, _>>()?,
        ),
    };
    let mut advantages: Vec<Vec<f64>> = inputs
        .rows
        .iter()
        .map(|row| match &turns {
            Some(turns) => over_tokens(row, |turn| turns[row.episode][turn]),
            None => vec![of_episode[&row.episode]; row.actions.len()],
        })
        .collect();
    if objective.advantage.whitens() {
        // Groups that compare nothing stay at 0: they neither shift the others nor are shifted.
        let kept: HashMap<usize, bool> =
            scored.iter().map(|(e, _)| *e).zip(informative_groups(&scores, &groups)?).collect();
        let centred = objective.turn_credit != TurnCredit::None;
        advantages = whitened(&advantages, |r| centred || kept[&inputs.rows[r].episode])?;
    }
    Ok(Advantages {
        advantages,
        uninformative_groups: grouped.stats.zero_variance + grouped.stats.singletons,
        singletons: grouped.stats.singletons,
        ..Advantages::default()
    })
}

/// Every token of a turn gets the turn's credit.
fn by_turns(
    inputs: &AdvantageInputs<'_>,
    objective: &ObjectiveSection,
    shaping: &Shaping,
) -> Result<Advantages, Error> {
    let rewards = shaping.turn_rewards(inputs);
    let episodes = || inputs.episodes.iter().zip(&rewards);
    let credit = if objective.advantage == AdvantageEstimator::DistancePotential {
        // Distances to a content user; a penalty counts as distance that was not covered.
        let distances: Vec<Vec<f64>> = episodes()
            .map(|(episode, rewards)| {
                let mut left = 1.0 - episode.start_emotion.reward();
                let after = rewards.iter().map(|reward| {
                    left -= reward;
                    left
                });
                std::iter::once(1.0 - episode.start_emotion.reward()).chain(after).collect()
            })
            .collect();
        let traces: Vec<TurnTrace<'_>> = (inputs.episodes.iter().zip(&distances))
            .map(|(episode, distances)| TurnTrace { group: episode.group, distances })
            .collect();
        let settings = DistancePotential { gamma: objective.turn_gamma, immediate: objective.immediate };
        distance_potential(settings, &traces)?
    } else {
        let mut kinds = BTreeMap::new();
        let dialogues: Vec<TurnRewards<'_>> = episodes()
            .map(|(episode, rewards)| {
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
        turn_rloo(objective.turn_gamma, objective.whiten, &dialogues)?.advantages
    };
    let advantages = inputs.rows.iter().map(|row| over_tokens(row, |turn| credit[row.episode][turn])).collect();
    Ok(Advantages { advantages, ..Advantages::default() })
}

fn reinforce(
    inputs: &AdvantageInputs<'_>,
    objective: &ObjectiveSection,
    shaping: &Shaping,
) -> Result<Advantages, Error> {
    let rewards = shaping.token_rewards(inputs, objective);
    let masks: Vec<Vec<bool>> = rewards.iter().map(|r| vec![true; r.len()]).collect();
    let rows: Vec<MaskedRow<'_>> =
        rewards.iter().zip(&masks).map(|(values, mask)| MaskedRow { values, mask }).collect();
    let result = reinforce_plus_plus(&rows, objective.gamma)?;
    Ok(Advantages { advantages: result.advantages, ..Advantages::default() })
}

/// ReMax. A group whose greedy dialogue has no score compares nothing.
fn against_greedy(
    inputs: &AdvantageInputs<'_>,
    objective: &ObjectiveSection,
    shaping: &Shaping,
) -> Result<Advantages, Error> {
    let greedy = inputs.greedy_rewards.expect("remax is only allowed with greedy dialogues");
    let rewards = shaping.token_rewards(inputs, objective);
    let mut out = Advantages::default();
    for (row, rewards) in inputs.rows.iter().zip(&rewards) {
        out.advantages.push(match greedy.get(&inputs.episodes[row.episode].group) {
            Some(greedy) => remax(rewards, &vec![true; rewards.len()], *greedy)?,
            None => vec![0.0; rewards.len()],
        });
    }
    Ok(out)
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
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
