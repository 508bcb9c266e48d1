//! Divergence from the reference policy: estimators, as a loss, as a penalty on rewards, and the controllers of its
//! coefficient.
//!
//! With `l` the logprob and `f` the reference's: `k1 = l − f`, `k2 = (l − f)²/2`, `k3 = exp(f − l) − (f − l) − 1`.
//! Source: Schulman 2020, "Approximating KL divergence". As a loss, the gradient of `k1` has mean 0 and that of `k3` is
//! biased; the straight-through forms keep the value and take the gradient of `k2`, which is right on average.

use serde::{Deserialize, Serialize};

use super::error::{ObjectiveError, same_length};
use super::masked::VERL_COUNT_EPS;

/// Recipe key `kl_estimator`.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KlEstimator {
    /// `l − f` (verl `kl`).
    #[default]
    #[serde(rename = "k1")]
    K1,
    /// `(l − f)²/2` (verl `mse`).
    #[serde(rename = "k2")]
    K2,
    /// `exp(f − l) − (f − l) − 1` (verl `low_var_kl`; GRPO's KL loss, DeepSeekMath eq. 4).
    #[serde(rename = "k3")]
    K3,
    /// `|l − f|` (verl `abs`).
    #[serde(rename = "abs")]
    Abs,
    /// Value of `k1`, gradient of `k2` (verl `k1+`).
    #[serde(rename = "k1+")]
    K1StraightThrough,
    /// Value of `k3`, gradient of `k2` (verl `k3+`).
    #[serde(rename = "k3+")]
    K3StraightThrough,
}

/// Recipe key `kl_clamp`: whether `k3` is bounded.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum KlClamp {
    /// `f − l` clamped to ±20, then `k3` to ±10; no gradient where a bound holds (verl).
    #[default]
    Verl,
    /// No bound (TRL).
    None,
}

impl KlEstimator {
    /// The estimate for one token.
    #[must_use]
    pub fn value(self, logprob: f64, ref_logprob: f64, clamp: KlClamp) -> f64 {
        let gap = logprob - ref_logprob;
        match self {
            Self::K1 | Self::K1StraightThrough => gap,
            Self::K2 => 0.5 * gap * gap,
            Self::Abs => gap.abs(),
            Self::K3 | Self::K3StraightThrough => k3(-gap, clamp).0,
        }
    }

    /// Its derivative with respect to `l`.
    #[must_use]
    pub fn grad(self, logprob: f64, ref_logprob: f64, clamp: KlClamp) -> f64 {
        let gap = logprob - ref_logprob;
        match self {
            Self::K1 => 1.0,
            Self::K2 | Self::K1StraightThrough | Self::K3StraightThrough => gap,
            Self::Abs if gap == 0.0 => 0.0,
            Self::Abs => gap.signum(),
            Self::K3 => k3(-gap, clamp).1,
        }
    }
}

/// `k3` and its derivative with respect to `l`, from `f − l`.
fn k3(gap: f64, clamp: KlClamp) -> (f64, f64) {
    match clamp {
        KlClamp::None => (gap.exp() - gap - 1.0, 1.0 - gap.exp()),
        KlClamp::Verl => {
            let held = gap.clamp(-20.0, 20.0);
            let value = held.exp() - held - 1.0;
            let bounded = held != gap || value.abs() > 10.0;
            (value.clamp(-10.0, 10.0), if bounded { 0.0 } else { 1.0 - gap.exp() })
        }
    }
}

/// One row's action tokens, `[action_tokens]` each.
#[derive(Clone, Copy, Debug)]
pub struct KlRow<'a> {
    /// `l`.
    pub logprob: &'a [f64],
    /// `f`.
    pub ref_logprob: &'a [f64],
    /// The row's weight from [`token_weights`](super::token_weights).
    pub weight: f64,
}

/// The KL loss of some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KlLoss {
    /// `Σ w·kl`, without the coefficient.
    pub loss: f64,
    /// `∂(Σ w·kl)/∂l` per action token, rows one after another.
    pub grad: Vec<f64>,
    /// `Σ kl` over action tokens, unweighted.
    pub kl_sum: f64,
    /// Action tokens seen.
    pub tokens: usize,
}

/// KL as a loss term, to be multiplied by its coefficient and added to the policy loss.
///
/// # Errors
/// When the slices of a row differ in length.
pub fn kl_loss(estimator: KlEstimator, clamp: KlClamp, rows: &[KlRow<'_>]) -> Result<KlLoss, ObjectiveError> {
    let mut total = KlLoss::default();
    for row in rows {
        same_length("ref_logprob", row.ref_logprob.len(), "logprob", row.logprob.len())?;
        for (logprob, reference) in row.logprob.iter().zip(row.ref_logprob) {
            let value = estimator.value(*logprob, *reference, clamp);
            total.loss += row.weight * value;
            total.grad.push(row.weight * estimator.grad(*logprob, *reference, clamp));
            total.kl_sum += value;
            total.tokens += 1;
        }
    }
    Ok(total)
}

/// Rewards with the KL penalty taken off, and what the controller needs.
#[derive(Clone, Debug, PartialEq)]
pub struct PenalizedRewards {
    /// `r_t − β·kl_t` per action token.
    pub rewards: Vec<Vec<f64>>,
    /// Mean over rows with actions of the row's mean KL (verl `current_kl`, there over all rows).
    pub mean_kl: f64,
}

/// KL in the reward: `r_t − β·kl_t` on action tokens, with `l` the old policy's logprob.
///
/// `rewards[i]` and `rows[i]` hold row `i`'s action tokens; the rows' weights are not used. Read `β` before
/// [`KlController::update`], as verl's `apply_kl_penalty` does.
///
/// # Errors
/// When rows or slices differ in length.
pub fn penalize_rewards(
    estimator: KlEstimator,
    clamp: KlClamp,
    beta: f64,
    rewards: &[&[f64]],
    rows: &[KlRow<'_>],
) -> Result<PenalizedRewards, ObjectiveError> {
    same_length("rewards", rewards.len(), "rows", rows.len())?;
    let mut penalized = PenalizedRewards { rewards: Vec::with_capacity(rows.len()), mean_kl: 0.0 };
    let mut filled = 0.0;
    for (scores, row) in rewards.iter().zip(rows) {
        same_length("rewards", scores.len(), "logprob", row.logprob.len())?;
        same_length("ref_logprob", row.ref_logprob.len(), "logprob", row.logprob.len())?;
        let kl: Vec<f64> =
            row.logprob.iter().zip(row.ref_logprob).map(|(l, f)| estimator.value(*l, *f, clamp)).collect();
        if !kl.is_empty() {
            filled += 1.0;
            penalized.mean_kl += kl.iter().sum::<f64>() / (kl.len() as f64 + VERL_COUNT_EPS);
        }
        penalized.rewards.push(scores.iter().zip(&kl).map(|(score, kl)| score - beta * kl).collect());
    }
    if filled > 0.0 {
        penalized.mean_kl /= filled;
    }
    Ok(penalized)
}

/// Recipe key `kl_ctrl`: the coefficient of the KL term over time.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum KlController {
    /// A constant coefficient.
    Fixed {
        /// `β`.
        coef: f64,
    },
    /// `β ← β·(1 + clip(KL/target − 1, ±0.2)·n/horizon)`. Source: Ziegler et al. 2019, section 2.2.
    Adaptive {
        /// `β`, changed by every update.
        coef: f64,
        /// The divergence to hold.
        target: f64,
        /// Rows over which the coefficient may change by its own size.
        horizon: f64,
    },
}

impl KlController {
    /// `β` for the coming step.
    #[must_use]
    pub fn coef(&self) -> f64 {
        match self {
            Self::Fixed { coef } | Self::Adaptive { coef, .. } => *coef,
        }
    }

    /// Takes in the mean KL of a batch of `rows` rows. A KL that is NaN changes nothing.
    pub fn update(&mut self, mean_kl: f64, rows: usize) {
        if let Self::Adaptive { coef, target, horizon } = self {
            let error = (mean_kl / *target - 1.0).clamp(-0.2, 0.2);
            let factor = 1.0 + error * rows as f64 / *horizon;
            if factor.is_finite() {
                *coef *= factor;
            }
        }
    }
}
