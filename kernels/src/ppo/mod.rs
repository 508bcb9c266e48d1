//! The losses of proximal policy optimisation (Schulman et al., arXiv 1707.06347) over a flat list of action tokens.
//!
//! Every term carries a per-token `weight` in which mask, aggregation mode and the normaliser of the whole optimizer
//! mini-batch are already folded, so that losses of micro-batches simply add up. A weight of 0 masks a token: none of
//! its numbers is looked at.
//!
//! With ρ = exp(clamp(lp − old, ±20)): loss = Σ w·(ι·s − c_H·H + c_KL·kl), where s = max(−A·ρ, −A·clip(ρ, 1 − ε_low,
//! 1 + ε_high)), held at −A·c for A < 0 by the dual clip, ι is the rollout importance weight and kl one of
//! [`KlPenalty`]. The fused code makes one pass that leaves the sums and each token's derivative; the backward only
//! scales it.

#[cfg(feature = "cubecl")]
pub(crate) mod cube;
pub(crate) mod flex;
mod problem;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ShapeError;
use crate::ops::KernelOps;

pub use reference::{ppo_loss as reference_ppo_loss, value_loss as reference_value_loss};

/// Estimator of the divergence from the reference policy, with d = ref − lp (Schulman 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KlPenalty {
    /// −d.
    K1,
    /// d²/2.
    K2,
    /// exp(d) − d − 1.
    K3,
    /// As `K3` with d clamped to ±20 and the value to ±10, no gradient where a bound holds.
    K3Bounded,
}

/// Settings of [`ppo_loss`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PpoLossConfig {
    /// The ratio is clipped below at 1 − this.
    pub clip_low: f32,
    /// The ratio is clipped above at 1 + this.
    pub clip_high: f32,
    /// Upper bound of the loss for negative advantages, as a multiple of −A (dual clip, arXiv 1912.09729).
    pub dual_clip: Option<f32>,
    /// Coefficient of the entropy bonus.
    pub entropy_coef: f32,
    /// Coefficient of the KL penalty to the reference policy.
    pub kl_coef: f32,
    /// Which estimator the penalty uses.
    pub kl: KlPenalty,
}

/// Constants of a batch of action tokens, each `[n]`.
#[derive(Debug, Clone)]
pub struct ActionTokens {
    /// log π_old, from before the update.
    pub old_logprob: Tensor<1>,
    /// Advantages.
    pub advantage: Tensor<1>,
    /// Weights; their sum over the mini-batch is the normalisation.
    pub weight: Tensor<1>,
    /// log π_ref, needed when `kl_coef` is not 0.
    pub reference_logprob: Option<Tensor<1>>,
    /// π_old/π_rollout where the rollout ran on other numerics, multiplied into the surrogate.
    pub importance_weight: Option<Tensor<1>>,
}

/// The result of [`ppo_loss`].
#[derive(Debug, Clone)]
pub struct PpoLoss {
    /// `[1]`, differentiable.
    pub loss: Tensor<1>,
    /// `[5]`, without gradient; see [`PpoLoss::metrics`].
    pub sums: Tensor<1>,
}

/// Sums over the tokens that are not masked, unweighted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PpoMetrics {
    /// Tokens whose loss the clip range decided.
    pub clipped: f64,
    /// Tokens whose loss the dual clip decided.
    pub clipped_lower: f64,
    /// Σ (old − lp), clamped to ±20 each.
    pub kl_k1: f64,
    /// Σ (ρ − 1 − log ρ).
    pub kl_k3: f64,
    /// Largest ρ; 0 without tokens.
    pub ratio_max: f64,
}

impl PpoLoss {
    /// Reads the metrics from the device, in one transfer.
    pub fn metrics(&self) -> PpoMetrics {
        let v: Vec<f32> = self.sums.clone().into_data().convert::<f32>().try_to_vec().unwrap_or_default();
        let at = |i: usize| v.get(i).copied().map_or(f64::NAN, f64::from);
        PpoMetrics { clipped: at(0), clipped_lower: at(1), kl_k1: at(2), kl_k3: at(3), ratio_max: at(4) }
    }
}

/// The result of [`value_loss`].
#[derive(Debug, Clone)]
pub struct ValueLoss {
    /// `[1]`, differentiable.
    pub loss: Tensor<1>,
    /// `[1]`, how many tokens' clipped value gave the larger error, without gradient.
    pub clipped: Tensor<1>,
}

/// Numbers in the output of the fused policy loss: the loss, then the metrics in their order.
pub(crate) const PPO_SUMS: usize = 6;
/// Numbers in the output of the fused value loss: the loss and the clipped tokens.
pub(crate) const VALUE_SUMS: usize = 2;

/// The clipped policy loss of a batch of action tokens; formula in the module's documentation.
///
/// # Shapes
/// - `logprob`, `entropy` and everything in `tokens`: `[n]`
///
/// # Errors
/// When the lengths differ, a coefficient makes no sense, or a KL penalty comes without reference log-probabilities.
pub fn ppo_loss(
    logprob: Tensor<1>,
    entropy: Tensor<1>,
    tokens: &ActionTokens,
    config: PpoLossConfig,
) -> Result<PpoLoss, ShapeError> {
    problem::check_policy(&logprob, &entropy, tokens, config)?;
    if !crate::fused_f32("ppo_loss", &logprob)? {
        return Ok(reference::ppo_loss(logprob, entropy, tokens, config));
    }
    let absent = || Tensor::<1>::zeros([1], &logprob.device());
    let reference = tokens.reference_logprob.clone().filter(|_| config.kl_coef != 0.0);
    let has = [reference.is_some(), tokens.importance_weight.is_some()];
    let reference = reference.unwrap_or_else(absent);
    let importance = tokens.importance_weight.clone().unwrap_or_else(absent);
    let out = Tensor::<1>::from_dispatch(<Dispatch as KernelOps>::ppo_loss(
        logprob.into_dispatch(),
        entropy.into_dispatch(),
        tokens.old_logprob.clone().into_dispatch(),
        tokens.advantage.clone().into_dispatch(),
        tokens.weight.clone().into_dispatch(),
        reference.into_dispatch(),
        importance.into_dispatch(),
        config,
        has,
    ));
    Ok(PpoLoss { loss: out.clone().narrow(0, 0, 1), sums: out.narrow(0, 1, PPO_SUMS - 1).detach() })
}

/// Σ w·½·max((V − R)², (V_c − R)²), V_c = clip(V, V_old ± clip).
///
/// # Shapes
/// - all `[n]`
///
/// # Errors
/// When the lengths differ or the clip range is negative.
pub fn value_loss(
    values: Tensor<1>,
    old_values: Tensor<1>,
    returns: Tensor<1>,
    weight: Tensor<1>,
    clip: Option<f32>,
) -> Result<ValueLoss, ShapeError> {
    problem::check_value(&values, &old_values, &returns, &weight, clip)?;
    if !crate::fused_f32("value_loss", &values)? {
        return Ok(reference::value_loss(values, old_values, returns, weight, clip));
    }
    let out = Tensor::<1>::from_dispatch(<Dispatch as KernelOps>::value_loss(
        values.into_dispatch(),
        old_values.into_dispatch(),
        returns.into_dispatch(),
        weight.into_dispatch(),
        clip,
    ));
    Ok(ValueLoss { loss: out.clone().narrow(0, 0, 1), clipped: out.narrow(0, 1, 1).detach() })
}
