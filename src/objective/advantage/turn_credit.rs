//! Credit per turn of a multi-turn dialogue, from the emotion the user reports after every reply.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::group::{REWARD_TOLERANCE, mean, spread, standard_deviation};
use crate::objective::error::{ObjectiveError, all_finite, in_range};

/// Recipe key `turn_credit`: how a dialogue's advantage from a group estimator is spread over its turns.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum TurnCredit {
    /// Every turn gets the dialogue's advantage.
    #[default]
    None,
    /// [`turn_centred`].
    TurnCentred,
}

/// `A_turn = A_dialogue + α·(r_turn − r̄)` with `r̄` the mean of the dialogue's turn rewards.
///
/// The turn terms sum to 0, so the dialogue's mean advantage over turns is unchanged. No turn, no advantage.
///
/// Source: EIBench / CTC-GRPO (arXiv 2606.15532).
///
/// # Errors
/// When a turn reward is not finite.
pub fn turn_centred(dialogue_advantage: f64, turn_rewards: &[f64], alpha: f64) -> Result<Vec<f64>, ObjectiveError> {
    all_finite("turn_rewards", turn_rewards)?;
    let centre = mean(turn_rewards);
    Ok(turn_rewards.iter().map(|reward| dialogue_advantage + alpha * (reward - centre)).collect())
}

/// One dialogue as distances to the target emotion.
#[derive(Clone, Copy, Debug)]
pub struct TurnTrace<'a> {
    /// Dialogues with the same group started from the same profile.
    pub group: u64,
    /// `[turns + 1]`: the distance before the first reply, then after every reply.
    pub distances: &'a [f64],
}

/// Settings of [`distance_potential`].
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct DistancePotential {
    /// Discount per turn of the Monte-Carlo return.
    pub gamma: f64,
    /// Share of the immediate decrease; `1 − immediate` goes to the return.
    pub immediate: f64,
}

impl Default for DistancePotential {
    fn default() -> Self {
        Self { gamma: 1.0, immediate: 0.5 }
    }
}

/// One advantage per turn from how much closer each reply brought the user to the target emotion.
///
/// Per turn `k`: decrease `r_k = d_{k−1} − d_k` and return `G_k = r_k + γ·G_{k+1}`. `r` is normalised among the turns
/// `k` of its group, `G` among all turns of the batch, each `(x − x̄)/(σ + 1e-6)` with Bessel's correction, 0 where
/// there is nothing to compare; the advantage is `β·r̂ + (1 − β)·Ĝ`.
///
/// Source: MICA (arXiv 2603.06194): distance reward, Monte-Carlo return and scope-specific normalisation; the mixing
/// share and the epsilon are ours.
///
/// # Errors
/// When a distance is not finite or a setting is outside `[0, 1]`.
pub fn distance_potential(
    settings: DistancePotential,
    dialogues: &[TurnTrace<'_>],
) -> Result<Vec<Vec<f64>>, ObjectiveError> {
    let DistancePotential { gamma, immediate } = settings;
    in_range("gamma", gamma, (0.0..=1.0).contains(&gamma), "a number in [0, 1]")?;
    in_range("immediate", immediate, (0.0..=1.0).contains(&immediate), "a number in [0, 1]")?;
    let mut decreases = Vec::new();
    let mut returns = Vec::new();
    let mut scopes: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
    for dialogue in dialogues {
        all_finite("distances", dialogue.distances)?;
        let start = decreases.len();
        for (turn, pair) in dialogue.distances.windows(2).enumerate() {
            scopes.entry((dialogue.group, turn)).or_default().push(decreases.len());
            decreases.push(pair[0] - pair[1]);
        }
        returns.extend(discounted(&decreases[start..], gamma));
    }
    let long_term = normalised(&returns);
    let mut advantages: Vec<f64> = long_term.iter().map(|value| (1.0 - immediate) * value).collect();
    for turns in scopes.values() {
        let own: Vec<f64> = turns.iter().map(|turn| decreases[*turn]).collect();
        for (turn, value) in turns.iter().zip(normalised(&own)) {
            advantages[*turn] += immediate * value;
        }
    }
    let mut rest = advantages.into_iter();
    Ok(dialogues
        .iter()
        .map(|dialogue| rest.by_ref().take(dialogue.distances.len().saturating_sub(1)).collect())
        .collect())
}

/// One dialogue as rewards per turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnRewards<'a> {
    /// Dialogues with the same scope are each other's baseline.
    pub scope: u64,
    /// `[turns]`: what each reply earned.
    pub rewards: &'a [f64],
}

/// Advantages per turn without a critic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnAdvantages {
    /// `[dialogues][turns]`.
    pub advantages: Vec<Vec<f64>>,
    /// Turns that no other dialogue got as far as; their advantage is 0.
    pub alone: usize,
}

/// One advantage per turn from the rewards that follow it, against the same turn of the other dialogues.
///
/// Return `G_k = r_k + γ·G_{k+1}`, `γ` per turn; `A_k = G_k − b_k` with the baseline `b_k` the mean of `G_k` over the
/// *other* dialogues of the scope that have a turn `k`, and where there is none over all other dialogues that do. With
/// `whiten` the advantages are normalised over the turns of the step, `(A − Ā)/(σ + 1e-6)` with Bessel's correction.
///
/// RLOO's leave-one-out baseline (Ahmadian et al. 2024, section 3) with the turn as the unit of credit and the position
/// in the dialogue as the group; the combination is ours. The baseline does not depend on the turn it judges, so the
/// gradient keeps its expectation.
///
/// # Errors
/// When a reward is not finite or `gamma` is outside `[0, 1]`.
pub fn turn_rloo(gamma: f64, whiten: bool, dialogues: &[TurnRewards<'_>]) -> Result<TurnAdvantages, ObjectiveError> {
    in_range("turn_gamma", gamma, (0.0..=1.0).contains(&gamma), "a number in [0, 1]")?;
    let mut returns: Vec<Vec<f64>> = Vec::with_capacity(dialogues.len());
    // Sum and number of the returns of turn k, of a scope and of the whole step.
    let mut scopes: BTreeMap<(u64, usize), (f64, usize)> = BTreeMap::new();
    let mut step: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for dialogue in dialogues {
        all_finite("turn rewards", dialogue.rewards)?;
        let own = discounted(dialogue.rewards, gamma);
        for (turn, value) in own.iter().enumerate() {
            for (sum, count) in [scopes.entry((dialogue.scope, turn)).or_default(), step.entry(turn).or_default()] {
                *sum += value;
                *count += 1;
            }
        }
        returns.push(own);
    }
    let mut out = TurnAdvantages::default();
    let mut flat = Vec::new();
    for (dialogue, own) in dialogues.iter().zip(&returns) {
        for (turn, value) in own.iter().enumerate() {
            let candidates = [scopes[&(dialogue.scope, turn)], step[&turn]];
            let peers = candidates.into_iter().find(|(_, count)| *count > 1);
            out.alone += usize::from(peers.is_none());
            flat.push(peers.map_or(0.0, |(sum, count)| value - (sum - value) / (count as f64 - 1.0)));
        }
    }
    let mut rest = if whiten { normalised(&flat) } else { flat }.into_iter();
    out.advantages = returns.iter().map(|own| rest.by_ref().take(own.len()).collect()).collect();
    Ok(out)
}

/// `G_k = r_k + γ·G_{k+1}`.
fn discounted(rewards: &[f64], gamma: f64) -> Vec<f64> {
    let mut returns = rewards.to_vec();
    let mut running = 0.0;
    for value in returns.iter_mut().rev() {
        running = *value + gamma * running;
        *value = running;
    }
    returns
}

fn normalised(values: &[f64]) -> Vec<f64> {
    if spread(values) <= REWARD_TOLERANCE {
        return vec![0.0; values.len()];
    }
    let (centre, std) = (mean(values), standard_deviation(values));
    values.iter().map(|value| (value - centre) / (std + 1e-6)).collect()
}
