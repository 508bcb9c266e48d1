//! Batch rules of DAPO (Yu et al. 2025): a soft penalty near the length limit, and dynamic sampling.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::advantage::{REWARD_TOLERANCE, spread};
use super::error::{ObjectiveError, all_finite, in_range, same_length};

/// Recipe table `overlong`: added to the reward of a response that comes close to the limit.
///
/// `penalty = −factor · clamp((n − (L − b))/b, 0, 1)`. Source: DAPO eq. 13. (verl does not cap it at `−factor`; there
/// no response is longer than `L`.)
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OverlongPenalty {
    /// `L`: the longest allowed response in tokens.
    pub max_length: usize,
    /// `b`: the last tokens before the limit, over which the penalty grows.
    pub buffer: usize,
    /// The penalty at the limit.
    pub factor: f64,
}

impl OverlongPenalty {
    /// What to add to the reward of a response of `tokens` tokens; 0 or negative.
    ///
    /// # Errors
    /// When the buffer is 0 or longer than the limit.
    pub fn penalty(&self, tokens: usize) -> Result<f64, ObjectiveError> {
        let accepted = self.buffer > 0 && self.buffer <= self.max_length;
        in_range("overlong.buffer", self.buffer as f64, accepted, "at least 1 and at most max_length")?;
        let over = tokens as f64 - (self.max_length - self.buffer) as f64;
        Ok(0.0 - self.factor * (over / self.buffer as f64).clamp(0.0, 1.0))
    }
}

/// Whether a group's scores differ by more than [`REWARD_TOLERANCE`], so that it has a gradient.
#[must_use]
pub fn group_is_informative(scores: &[f64]) -> bool {
    spread(scores) > REWARD_TOLERANCE
}

/// One flag per dialogue: whether its group carries a gradient. Source: DAPO section 3.2.
///
/// # Errors
/// When the slices differ in length or a score is not finite.
pub fn informative_groups(scores: &[f64], groups: &[u64]) -> Result<Vec<bool>, ObjectiveError> {
    same_length("groups", groups.len(), "scores", scores.len())?;
    all_finite("scores", scores)?;
    let mut members: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (score, group) in scores.iter().zip(groups) {
        members.entry(*group).or_default().push(*score);
    }
    Ok(groups.iter().map(|group| group_is_informative(&members[group])).collect())
}

/// Recipe table `dynamic_sampling`: how often to sample again for groups that carry a gradient.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct SampleBudget {
    /// Informative groups a step wants.
    pub groups: usize,
    /// Rounds of sampling it may spend, the first included.
    pub max_rounds: usize,
}

/// What to do after a round of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchDecision {
    /// Enough groups: train on the first `groups` of them.
    Train,
    /// Sample another round.
    SampleMore,
    /// The rounds are spent: train on the `found` groups there are, and say so.
    TrainShort {
        /// Informative groups found.
        found: usize,
    },
    /// The rounds are spent and no group carries a gradient: skip the step, and say so.
    Skip,
}

impl SampleBudget {
    /// Decides after `rounds` rounds that found `informative` groups in all.
    #[must_use]
    pub fn decide(&self, informative: usize, rounds: usize) -> BatchDecision {
        if informative >= self.groups && informative > 0 {
            BatchDecision::Train
        } else if rounds < self.max_rounds {
            BatchDecision::SampleMore
        } else if informative > 0 {
            BatchDecision::TrainShort { found: informative }
        } else {
            BatchDecision::Skip
        }
    }
}
