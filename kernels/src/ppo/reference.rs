use burn::tensor::Tensor;

use super::{ActionTokens, PpoLoss, PpoLossConfig, ValueLoss};

/// Σ w·[max(−A·ρ, −A·clip(ρ)) with dual clip − c_H·H + c_KL·k3], ρ = exp(clamp(lp − old, ±20)).
///
/// # Shapes
/// - `logprob`, `entropy` and everything in `tokens`: `[n]`
pub fn ppo_loss(logprob: Tensor<1>, entropy: Tensor<1>, tokens: &ActionTokens, config: PpoLossConfig) -> PpoLoss {
    let [n] = logprob.dims();
    let log_ratio = logprob.clone() - tokens.old_logprob.clone();
    let ratio = log_ratio.clone().clamp(-20.0, 20.0).exp();
    let advantage = tokens.advantage.clone();
    let free = advantage.clone().neg() * ratio.clone();
    let clipped = advantage.clone().neg() * ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high);
    let is_clipped = clipped.clone().greater(free.clone());
    let mut surrogate = free.clone().mask_where(is_clipped.clone(), clipped);
    let mut is_lower = is_clipped.clone().float().zeros_like();
    if let Some(bound) = config.dual_clip {
        let ceiling = advantage.clone().neg() * bound;
        let over = surrogate.clone().greater(ceiling.clone()).bool_and(advantage.lower_elem(0.0));
        surrogate = surrogate.mask_where(over.clone(), ceiling);
        is_lower = over.float();
    }
    let diagnostics = Tensor::stack(vec![surrogate.clone(), is_clipped.float(), is_lower, log_ratio.neg()], 0).detach();
    let mut total = surrogate;
    if config.entropy_coef != 0.0 {
        total = total - entropy * config.entropy_coef;
    }
    if let Some(reference) = tokens.reference_logprob.clone().filter(|_| config.kl_coef != 0.0) {
        let d = reference - logprob;
        total = total + (d.clone().exp() - d - 1.0) * config.kl_coef;
    }
    // Tokens of weight 0 are masked: whatever they hold, NaN included, must not be read.
    let masked = tokens.weight.clone().equal_elem(0.0);
    let loss = (total.mask_fill(masked, 0.0) * tokens.weight.clone()).sum();
    debug_assert_eq!(diagnostics.dims(), [4, n]);
    PpoLoss { loss, diagnostics }
}

/// Σ w·½·max((V − R)², (V_c − R)²), V_c = clip(V, V_old ± clip).
///
/// # Shapes
/// - all `[n]`
pub fn value_loss(
    values: Tensor<1>,
    old_values: Tensor<1>,
    returns: Tensor<1>,
    weight: Tensor<1>,
    clip: Option<f32>,
) -> ValueLoss {
    let free = (values.clone() - returns.clone()).square();
    let (worse, clipped) = match clip {
        Some(clip) => {
            let delta = (values - old_values.clone()).clamp(-clip, clip);
            let moved = (old_values + delta - returns).square();
            let is_clipped = moved.clone().greater(free.clone());
            (free.mask_where(is_clipped.clone(), moved), is_clipped.float())
        }
        None => {
            let none = free.zeros_like();
            (free, none)
        }
    };
    let masked = weight.clone().equal_elem(0.0);
    let loss = (worse.mask_fill(masked.clone(), 0.0) * weight * 0.5).sum();
    ValueLoss { loss, clipped: clipped.mask_fill(masked, 0.0).detach() }
}
