//! Advantages from comparing the dialogues of one group (the same profile, several rollouts).
//!
//! Statistics are per *dialogue*: one score each, however many turns or tokens it has. A group of one, or one whose
//! scores spread by no more than [`REWARD_TOLERANCE`], carries no preference: its advantages are exactly 0. The
//! tolerance keeps float noise in a judge's scores from being scaled up to full-size advantages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::AdvantageEstimator;
use crate::objective::error::{ObjectiveError, all_finite, in_range, same_length};

/// Scores of a group that spread by no more than this count as equal.
pub const REWARD_TOLERANCE: f64 = 1e-6;

/// Recipe key `std_convention`: whose standard deviation `grpo` divides by. All use Bessel's correction.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum StdConvention {
    /// Group standard deviation `+ 1e-6` (verl).
    #[default]
    Verl,
    /// Group standard deviation `+ 1e-4` (TRL `scale_rewards="group"`).
    Trl,
    /// Standard deviation of the whole batch `+ 1e-4` (TRL `scale_rewards="batch"`).
    TrlBatch,
}

impl StdConvention {
    fn epsilon(self) -> f64 {
        match self {
            Self::Verl => 1e-6,
            Self::Trl | Self::TrlBatch => 1e-4,
        }
    }
}

/// How `grpo` scales.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupScale {
    /// Whose standard deviation.
    pub convention: StdConvention,
    /// Recipe key `std_floor`: a smaller standard deviation counts as this one, so that a group whose scores hardly differ
    /// does not weigh as much as one whose scores do (EIBench's release uses 0.1). 0 for none.
    pub floor: f64,
}

impl From<StdConvention> for GroupScale {
    fn from(convention: StdConvention) -> Self {
        Self { convention, floor: 0.0 }
    }
}

impl GroupScale {
    fn scale(self, group_std: f64, batch_std: f64) -> f64 {
        let std = if self.convention == StdConvention::TrlBatch { batch_std } else { group_std };
        1.0 / (std.max(self.floor) + self.convention.epsilon())
    }
}

/// What the groups of a batch looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupStats {
    /// Number of groups.
    pub groups: usize,
    /// Groups of one dialogue; advantage 0.
    pub singletons: usize,
    /// Groups of several dialogues with equal scores; advantage 0.
    pub zero_variance: usize,
    /// Mean score over dialogues.
    pub mean_score: f64,
    /// Mean over groups of several dialogues of the standard deviation.
    pub mean_std: f64,
}

/// One advantage per dialogue, and what the groups looked like.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupAdvantages {
    /// `[dialogues]`, in the order of the scores.
    pub advantages: Vec<f64>,
    /// Counts for the metrics.
    pub stats: GroupStats,
}

/// Advantages of dialogues against the other dialogues of their group.
///
/// With `s̄` the group mean, `σ` the standard deviation and `G` the group size: `grpo` `(s − s̄)/(σ + ε)`; `dr_grpo`
/// and `reinforce_plus_plus_baseline` `s − s̄`; `rloo` `(s − s̄)·G/(G − 1)`, which is `s` minus the mean of the others.
/// The estimators that compare nothing (`gae`, `reinforce_plus_plus`, `remax` …) get the score itself.
///
/// Sources: DeepSeekMath section 4.1; Liu et al. 2025 section 3.2; Ahmadian et al. 2024 section 3; Hu 2025. verl keeps
/// the raw score of a singleton; TRL and this function give 0.
///
/// # Errors
/// When the slices differ in length, a score is not finite or the floor is negative.
pub fn group_advantages(
    estimator: AdvantageEstimator,
    scores: &[f64],
    groups: &[u64],
    scale: impl Into<GroupScale>,
) -> Result<GroupAdvantages, ObjectiveError> {
    let group_scale: GroupScale = scale.into();
    let floor = group_scale.floor;
    in_range("std_floor", floor, floor.is_finite() && floor >= 0.0, "a number from 0 up")?;
    same_length("groups", groups.len(), "scores", scores.len())?;
    all_finite("scores", scores)?;
    let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (dialogue, group) in groups.iter().enumerate() {
        members.entry(*group).or_default().push(dialogue);
    }
    let batch_std = standard_deviation(scores);
    let mut stats =
        GroupStats { groups: members.len(), mean_score: mean(scores), mean_std: 0.0, ..GroupStats::default() };
    let mut advantages = if estimator.needs_groups() { vec![0.0; scores.len()] } else { scores.to_vec() };
    for dialogues in members.values() {
        if dialogues.len() == 1 {
            stats.singletons += 1;
            continue;
        }
        let own: Vec<f64> = dialogues.iter().map(|d| scores[*d]).collect();
        let std = standard_deviation(&own);
        stats.mean_std += std;
        if spread(&own) <= REWARD_TOLERANCE {
            stats.zero_variance += 1;
            continue;
        }
        let scale = match estimator {
            AdvantageEstimator::Grpo => group_scale.scale(std, batch_std),
            AdvantageEstimator::Rloo => own.len() as f64 / (own.len() as f64 - 1.0),
            AdvantageEstimator::DrGrpo | AdvantageEstimator::ReinforcePlusPlusBaseline => 1.0,
            _ => continue,
        };
        let centre = mean(&own);
        for dialogue in dialogues {
            advantages[*dialogue] = (scores[*dialogue] - centre) * scale;
        }
    }
    let compared = stats.groups - stats.singletons;
    if compared > 0 {
        stats.mean_std /= compared as f64;
    }
    Ok(GroupAdvantages { advantages, stats })
}

/// Largest minus smallest value; 0 for an empty slice.
pub(in crate::objective) fn spread(values: &[f64]) -> f64 {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() { 0.0 } else { high - low }
}

/// Plain mean; 0 for an empty slice.
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Standard deviation with Bessel's correction; 0 for fewer than two values.
pub(super) fn standard_deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    (values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}
