//! The losses of proximal policy optimisation (Schulman et al., arXiv 1707.06347) over a flat list of action tokens.
//!
//! Every term carries a per-token `weight` in which mask, aggregation mode and the normaliser of the whole optimizer
//! mini-batch are already folded, so that losses of micro-batches simply add up.

mod reference;

pub use reference::{ppo_loss, value_loss};

use burn::tensor::Tensor;

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
    /// Coefficient of the KL penalty k3 = exp(ref − lp) − (ref − lp) − 1 to the reference policy.
    pub kl_coef: f32,
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
}

/// The result of [`value_loss`].
#[derive(Debug, Clone)]
pub struct ValueLoss {
    /// `[1]`, differentiable.
    pub loss: Tensor<1>,
    /// `[n]`, 1 where the clipped value gave the larger error, without gradient.
    pub clipped: Tensor<1>,
}

/// Loss and what is worth knowing about it. All sums are weighted as the loss is.
#[derive(Debug, Clone)]
pub struct PpoLoss {
    /// `[1]`, differentiable.
    pub loss: Tensor<1>,
    /// `[4, n]` per-token diagnostics without gradient: surrogate loss, clipped (0/1), lower-clipped (0/1), old − new.
    pub diagnostics: Tensor<2>,
}
