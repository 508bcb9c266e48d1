//! Policy losses with their gradient and metrics: clipped surrogate with dual clip, GSPO and CISPO.
//!
//! Per action token, with `l` the logprob, `o` the old logprob, `A` the advantage and `ρ = exp(clamp(l − o, ±20))`:
//!
//! - `clip`: `L = max(−A·ρ, −A·clip(ρ, 1 − ε_low, 1 + ε_high))` (Schulman et al. 2017, eq. 7; separate bounds: DAPO
//!   section 3.1). With dual clip `c` and `A < 0`: `L = min(L, −c·A)` (Ye et al. 2020).
//! - `gspo`: the same with `ρ` replaced by `s = exp(min(k, 10))`, `k` the row's mean of `l − o`; each token carries the
//!   gradient `s` (GSPO section 4.3, token form, as in verl).
//! - `cispo`: `L = −sg[clip(ρ)]·A·l`: clipped tokens keep a gradient (MiniMax-M1 section 3.1).
//!
//! Rollout weights multiply `L` after clipping. Rows hold action tokens only.

use serde::{Deserialize, Serialize};

use super::error::{ObjectiveError, in_range, same_length};

/// Bound on `|l − o|` before exponentiation (verl, OpenRLHF).
const LOG_RATIO_LIMIT: f64 = 20.0;
/// Upper bound on GSPO's mean log-ratio (verl).
const SEQUENCE_LOG_RATIO_LIMIT: f64 = 10.0;

/// Recipe key `policy_loss`: which surrogate.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyLossKind {
    /// PPO's clipped surrogate.
    #[default]
    Clip,
    /// Group sequence policy optimization: one ratio per row.
    Gspo,
    /// Clipped importance weight times log-likelihood.
    Cispo,
}

/// Recipe key `cispo_bounds`: what the clip range means to CISPO.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CispoBounds {
    /// `[1 − ε_low, 1 + ε_high]` (verl, slime).
    #[default]
    Verl,
    /// `[0, ε_high]`: an absolute upper bound and no lower one (TRL, Liger).
    Trl,
}

/// Settings of the policy loss.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyLossConfig {
    /// Which surrogate.
    pub kind: PolicyLossKind,
    /// `ε_low`: how far the ratio may fall below 1.
    pub clip_low: f64,
    /// `ε_high`: how far the ratio may rise above 1.
    pub clip_high: f64,
    /// `c > 1`: bound on the loss of tokens with negative advantage (TRL calls it `delta`). verl uses 3; off elsewhere.
    pub dual_clip: Option<f64>,
    /// What the clip range means to CISPO.
    pub cispo_bounds: CispoBounds,
}

impl Default for PolicyLossConfig {
    fn default() -> Self {
        Self {
            kind: PolicyLossKind::Clip,
            clip_low: 0.2,
            clip_high: 0.2,
            dual_clip: None,
            cispo_bounds: CispoBounds::Verl,
        }
    }
}

/// One row's action tokens, `[action_tokens]` each.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRow<'a> {
    /// `l`: logprobs under the policy being updated.
    pub logprob: &'a [f64],
    /// `o`: logprobs under the policy at the start of the update.
    pub old_logprob: &'a [f64],
    /// `A`.
    pub advantage: &'a [f64],
    /// The row's weight from [`token_weights`](super::token_weights).
    pub weight: f64,
    /// Rollout importance weights, or none.
    pub rollout_weight: Option<&'a [f64]>,
}

/// Loss, gradient and metrics of some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyLoss {
    /// `Σ w·L`.
    pub loss: f64,
    /// `L` per action token, rows one after another; rollout weights included, row weights not.
    pub token_loss: Vec<f64>,
    /// `∂(Σ w·L)/∂l` per action token, rows one after another.
    pub grad: Vec<f64>,
    /// Sums for the metrics.
    pub metrics: PolicyMetrics,
}

/// Sums over action tokens; [`merge`](Self::merge) those of the micro-batches, then read the means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicyMetrics {
    /// Action tokens seen.
    pub tokens: usize,
    /// Tokens whose loss was decided by the clip range.
    pub clipped: usize,
    /// Tokens whose loss was decided by dual clip.
    pub clipped_lower: usize,
    /// `Σ (o − l)`.
    pub kl_k1_sum: f64,
    /// `Σ (ρ − 1 − log ρ)`.
    pub kl_k3_sum: f64,
    /// Largest `ρ`; GSPO's `s`.
    pub ratio_max: f64,
}

impl PolicyMetrics {
    /// Adds the sums of another micro-batch.
    pub fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.clipped_lower += other.clipped_lower;
        self.kl_k1_sum += other.kl_k1_sum;
        self.kl_k3_sum += other.kl_k3_sum;
        self.ratio_max = self.ratio_max.max(other.ratio_max);
    }

    /// Share of tokens clipped: verl `pg_clipfrac`; TRL `clip_ratio/region_mean` for token ratios.
    #[must_use]
    pub fn clip_fraction(&self) -> f64 {
        self.mean(self.clipped as f64)
    }

    /// Share of tokens held by dual clip: verl `pg_clipfrac_lower`.
    #[must_use]
    pub fn clip_fraction_lower(&self) -> f64 {
        self.mean(self.clipped_lower as f64)
    }

    /// Mean of `o − l`, which may be negative: verl `ppo_kl`.
    #[must_use]
    pub fn approx_kl(&self) -> f64 {
        self.mean(self.kl_k1_sum)
    }

    /// Mean of `ρ − 1 − log ρ`, never negative (Schulman 2020, k3).
    #[must_use]
    pub fn approx_kl_k3(&self) -> f64 {
        self.mean(self.kl_k3_sum)
    }

    fn mean(&self, sum: f64) -> f64 {
        if self.tokens == 0 { 0.0 } else { sum / self.tokens as f64 }
    }
}

/// The policy loss of whole rows; formulas in the module's documentation.
///
/// # Errors
/// When the slices of a row differ in length or the clip range makes no sense.
pub fn policy_loss(config: &PolicyLossConfig, rows: &[PolicyRow<'_>]) -> Result<PolicyLoss, ObjectiveError> {
    let PolicyLossConfig { clip_low, clip_high, .. } = *config;
    in_range("clip_low", clip_low, (0.0..=1.0).contains(&clip_low), "a number in [0, 1]")?;
    in_range("clip_high", clip_high, clip_high.is_finite() && clip_high >= 0.0, "a number from 0 up")?;
    if let Some(bound) = config.dual_clip {
        in_range("dual_clip", bound, bound > 1.0, "a number above 1")?;
    }
    let mut total = PolicyLoss::default();
    for row in rows {
        same_length("old_logprob", row.old_logprob.len(), "logprob", row.logprob.len())?;
        same_length("advantage", row.advantage.len(), "logprob", row.logprob.len())?;
        if let Some(weights) = row.rollout_weight {
            same_length("rollout_weight", weights.len(), "logprob", row.logprob.len())?;
        }
        let sequence = SequenceRatio::of(row);
        for t in 0..row.logprob.len() {
            let raw = row.logprob[t] - row.old_logprob[t];
            let log_ratio = raw.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
            let ratio = log_ratio.exp();
            let slope = if log_ratio == raw { ratio } else { 0.0 };
            let token = match config.kind {
                PolicyLossKind::Clip => Token::clipped(config, row.advantage[t], ratio, slope),
                PolicyLossKind::Gspo => Token::clipped(config, row.advantage[t], sequence.ratio, sequence.slope),
                PolicyLossKind::Cispo => Token::cispo(config, row.advantage[t], ratio, row.logprob[t]),
            };
            let correction = row.rollout_weight.map_or(1.0, |weights| weights[t]);
            total.loss += row.weight * correction * token.loss;
            total.token_loss.push(correction * token.loss);
            total.grad.push(row.weight * correction * token.grad);
            total.metrics.merge(&PolicyMetrics {
                tokens: 1,
                clipped: usize::from(token.clipped),
                clipped_lower: usize::from(token.clipped_lower),
                kl_k1_sum: -log_ratio,
                kl_k3_sum: ratio - 1.0 - log_ratio,
                ratio_max: if config.kind == PolicyLossKind::Gspo { sequence.ratio } else { ratio },
            });
        }
    }
    Ok(total)
}

struct SequenceRatio {
    ratio: f64,
    slope: f64,
}

impl SequenceRatio {
    fn of(row: &PolicyRow<'_>) -> Self {
        let sum: f64 = row.logprob.iter().zip(row.old_logprob).map(|(new, old)| new - old).sum();
        let mean = sum / row.logprob.len().max(1) as f64;
        let ratio = mean.min(SEQUENCE_LOG_RATIO_LIMIT).exp();
        Self { ratio, slope: if mean <= SEQUENCE_LOG_RATIO_LIMIT { ratio } else { 0.0 } }
    }
}

struct Token {
    loss: f64,
    grad: f64,
    clipped: bool,
    clipped_lower: bool,
}

impl Token {
    fn clipped(config: &PolicyLossConfig, advantage: f64, ratio: f64, slope: f64) -> Self {
        let free = -advantage * ratio;
        let held = -advantage * ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high);
        let clipped = held > free;
        let grad = if clipped { 0.0 } else { -advantage * slope };
        let loss = free.max(held);
        match config.dual_clip.map(|bound| -advantage * bound) {
            Some(ceiling) if advantage < 0.0 && loss > ceiling => {
                Self { loss: ceiling, grad: 0.0, clipped, clipped_lower: true }
            }
            _ => Self { loss, grad, clipped, clipped_lower: false },
        }
    }

    fn cispo(config: &PolicyLossConfig, advantage: f64, ratio: f64, logprob: f64) -> Self {
        let (low, high) = match config.cispo_bounds {
            CispoBounds::Verl => (1.0 - config.clip_low, 1.0 + config.clip_high),
            CispoBounds::Trl => (0.0, config.clip_high),
        };
        let held = ratio.clamp(low, high);
        let grad = -held * advantage;
        Self { loss: grad * logprob, grad, clipped: held != ratio, clipped_lower: false }
    }
}
