//! Rollout importance correction: weights for tokens sampled by a policy that was slightly off.
//!
//! The sampler's logprobs `u` differ from the trainer's old logprobs `o` when the rollout is stale or computed
//! differently. The policy loss of a token is multiplied by `w = exp(o − u)`, bounded. Never use it when `o` *is* the
//! rollout logprob: the ratio already holds it then.
//!
//! Source: Yao et al. 2025 (truncated importance sampling); verl `rollout_is`; TRL `vllm_importance_sampling_mode`.

use serde::{Deserialize, Serialize};

use super::error::{ObjectiveError, in_range, same_length};

/// Whether every token has its own weight.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CorrectionLevel {
    /// `exp(o − u)` per token.
    #[default]
    Token,
    /// `exp(Σ (o − u))` for all tokens of the row.
    Sequence,
}

/// What happens to a weight outside the bounds.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CorrectionMode {
    /// It becomes the bound.
    #[default]
    Truncate,
    /// It becomes 0: the token or row is left out of the gradient, not out of the normaliser.
    Mask,
}

/// Recipe table `rollout_correction`.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct RolloutCorrection {
    /// Token or sequence.
    pub level: CorrectionLevel,
    /// Truncate or mask.
    pub mode: CorrectionMode,
    /// Upper bound.
    pub cap: f64,
    /// Lower bound; 0 for none.
    pub floor: f64,
}

impl Default for RolloutCorrection {
    fn default() -> Self {
        Self { level: CorrectionLevel::Token, mode: CorrectionMode::Truncate, cap: 2.0, floor: 0.0 }
    }
}

/// One row's weights and what they looked like before they were bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutWeights {
    /// `[action_tokens]`, for [`PolicyRow::rollout_weight`](super::PolicyRow::rollout_weight).
    pub weights: Vec<f64>,
    /// Tokens whose weight was outside the bounds.
    pub bounded: usize,
    /// Largest weight before bounding; 0 for an empty row.
    pub raw_max: f64,
    /// Sum of the weights before bounding.
    pub raw_sum: f64,
}

impl RolloutCorrection {
    /// The weights of one row's action tokens. Log-ratios are clamped to ±20 before exponentiation.
    ///
    /// # Errors
    /// When the slices differ in length or the bounds are not `0 ≤ floor ≤ cap`, `cap > 0`.
    pub fn weights(&self, old_logprob: &[f64], rollout_logprob: &[f64]) -> Result<RolloutWeights, ObjectiveError> {
        same_length("rollout_logprob", rollout_logprob.len(), "old_logprob", old_logprob.len())?;
        in_range("cap", self.cap, self.cap > 0.0, "a positive number")?;
        in_range("floor", self.floor, (0.0..=self.cap).contains(&self.floor), "a number in [0, cap]")?;
        let gaps: Vec<f64> = old_logprob.iter().zip(rollout_logprob).map(|(old, rollout)| old - rollout).collect();
        let whole: f64 = gaps.iter().sum();
        let mut row = RolloutWeights { weights: Vec::new(), bounded: 0, raw_max: 0.0, raw_sum: 0.0 };
        for gap in gaps {
            let log_weight = if self.level == CorrectionLevel::Sequence { whole } else { gap };
            let raw = log_weight.clamp(-20.0, 20.0).exp();
            let outside = raw < self.floor || raw > self.cap;
            row.bounded += usize::from(outside);
            row.raw_max = row.raw_max.max(raw);
            row.raw_sum += raw;
            row.weights.push(match self.mode {
                CorrectionMode::Truncate => raw.clamp(self.floor, self.cap),
                CorrectionMode::Mask if outside => 0.0,
                CorrectionMode::Mask => raw,
            });
        }
        Ok(row)
    }
}
