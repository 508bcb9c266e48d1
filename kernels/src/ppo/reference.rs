use burn::tensor::Tensor;

use crate::ordered_sum;

use super::{ActionTokens, KlPenalty, PpoLoss, PpoLossConfig, ValueLoss};

/// [`super::ppo_loss`] in plain Burn operations.
pub fn ppo_loss(logprob: Tensor<1>, entropy: Tensor<1>, tokens: &ActionTokens, config: PpoLossConfig) -> PpoLoss {
    // Tokens of weight 0 are masked: whatever they hold, NaN included, must not be read.
    let masked = tokens.weight.clone().equal_elem(0.0);
    let seen = |t: &Tensor<1>| t.clone().mask_fill(masked.clone(), 0.0);
    let (logprob, old) = (seen(&logprob), seen(&tokens.old_logprob));
    let log_ratio = (logprob.clone() - old).clamp(-20.0, 20.0);
    let ratio = log_ratio.clone().exp();
    let advantage = seen(&tokens.advantage);
    let free = advantage.clone().neg() * ratio.clone();
    let clipped = advantage.clone().neg() * ratio.clone().clamp(1.0 - config.clip_low, 1.0 + config.clip_high);
    let is_clipped = clipped.clone().greater(free.clone());
    let mut surrogate = free.mask_where(is_clipped.clone(), clipped);
    let mut is_lower = is_clipped.clone().float().zeros_like();
    if let Some(bound) = config.dual_clip {
        let ceiling = advantage.clone().neg() * bound;
        let over = surrogate.clone().greater(ceiling.clone()).bool_and(advantage.lower_elem(0.0));
        surrogate = surrogate.mask_where(over.clone(), ceiling);
        is_lower = over.float();
    }
    if let Some(importance) = &tokens.importance_weight {
        surrogate = surrogate * seen(importance);
    }
    let mut total = surrogate;
    if config.entropy_coef != 0.0 {
        total = total - seen(&entropy) * config.entropy_coef;
    }
    if let Some(reference) = tokens.reference_logprob.as_ref().filter(|_| config.kl_coef != 0.0) {
        let d = seen(reference) - logprob;
        let kl = match config.kl {
            KlPenalty::K1 => d.neg(),
            KlPenalty::K2 => d.square() * 0.5,
            KlPenalty::K3 => d.clone().exp() - d - 1.0,
            KlPenalty::K3Bounded => {
                let d = d.clamp(-20.0, 20.0);
                (d.clone().exp() - d - 1.0).clamp(-10.0, 10.0)
            }
        };
        total = total + kl * config.kl_coef;
    }
    let loss = ordered_sum(total.mask_fill(masked.clone(), 0.0) * tokens.weight.clone());
    let k3 = ratio.clone() - 1.0 - log_ratio.clone();
    let largest = if masked.dims()[0] == 0 { ordered_sum(ratio.clone()) } else { ratio.mask_fill(masked, 0.0).max() };
    let [clipped, lower, kl, k3] = [is_clipped.float(), is_lower, log_ratio.neg(), k3].map(ordered_sum);
    let sums = [clipped, lower, kl, k3, largest];
    PpoLoss { loss, sums: Tensor::cat(sums.to_vec(), 0).detach() }
}

/// [`super::value_loss`] in plain Burn operations.
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
            let change = values - old_values.clone();
            let held = change.clone().clamp(-clip, clip);
            let moved = (old_values + held.clone() - returns).square();
            // Only where the bound holds: rounding must not count as clipping.
            let is_clipped = moved.clone().greater(free.clone()).bool_and(held.not_equal(change));
            (free.mask_where(is_clipped.clone(), moved), is_clipped.float())
        }
        None => {
            let none = free.zeros_like();
            (free, none)
        }
    };
    let masked = weight.clone().equal_elem(0.0);
    let loss = ordered_sum(worse.mask_fill(masked.clone(), 0.0) * weight * 0.5);
    ValueLoss { loss, clipped: ordered_sum(clipped.mask_fill(masked, 0.0)).detach() }
}
