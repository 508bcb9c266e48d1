//! The CubeCL kernels of the losses: one pass over the tokens, sums per cube in shared memory, one small merge.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{KlPenalty, PPO_SUMS, PpoLossConfig, VALUE_SUMS};
use crate::cube::{Limits, arg, dims, empty, zeros};

/// Cubes of the pass; each strides over the tokens and leaves one row of partial sums.
const CUBES: usize = 128;

/// What the policy kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    pub(crate) dual_clip: bool,
    pub(crate) entropy: bool,
    pub(crate) kl: Option<KlPenalty>,
    pub(crate) importance: bool,
    pub(crate) units: usize,
}

pub(crate) mod kernels {
    use super::*;

    /// Sums column `column` of `[units, width]` in shared memory into `out`; the last column of `width` is a maximum
    /// when `has_max`.
    #[cube]
    fn reduce(
        shared: &Shared<[f32]>,
        out: &mut [f32],
        from: usize,
        #[comptime] units: usize,
        #[comptime] width: usize,
        #[comptime] has_max: bool,
    ) {
        sync_cube();
        let mut column = UNIT_POS as usize;
        while column < width {
            let mut value = f32::new(0.0);
            for u in 0..units {
                let v = shared[u * width + column];
                if has_max && column == width - 1 {
                    value = value.max(v);
                } else {
                    value += v;
                }
            }
            out[from + column] = value;
            column += CUBE_DIM as usize;
        }
    }

    /// Per-token losses and their derivatives; formulas in the module's documentation.
    #[cube(launch)]
    pub(crate) fn policy_loss(
        logprob: &[f32],
        entropy: &[f32],
        old: &[f32],
        advantage: &[f32],
        weight: &[f32],
        reference: &[f32],
        importance: &[f32],
        slopes: &mut [f32],
        partial: &mut [f32],
        low: f32,
        high: f32,
        ceiling: f32,
        entropy_coef: f32,
        kl_coef: f32,
        #[comptime] terms: Terms,
    ) {
        let n = logprob.len();
        let mut loss_sum = f32::new(0.0);
        let mut clipped_sum = f32::new(0.0);
        let mut lower_sum = f32::new(0.0);
        let mut k1_sum = f32::new(0.0);
        let mut k3_sum = f32::new(0.0);
        let mut largest = f32::new(0.0);
        let mut t = ABSOLUTE_POS;
        while t < n {
            let w = weight[t];
            let mut slope = f32::new(0.0);
            if w != 0.0 {
                let lp = logprob[t];
                let raw = lp - old[t];
                let log_ratio = raw.max(f32::new(-20.0)).min(f32::new(20.0));
                let ratio = log_ratio.exp();
                let a = f32::new(0.0) - advantage[t];
                let free = a * ratio;
                let held = a * ratio.max(low).min(high);
                let is_clipped = held > free;
                let mut surrogate = select(is_clipped, held, free);
                let inside = raw >= f32::new(-20.0) && raw <= f32::new(20.0);
                slope = select(is_clipped || !inside, f32::new(0.0), free);
                if comptime!(terms.dual_clip) {
                    let is_lower = a > 0.0 && surrogate > a * ceiling;
                    surrogate = select(is_lower, a * ceiling, surrogate);
                    slope = select(is_lower, f32::new(0.0), slope);
                    lower_sum += select(is_lower, f32::new(1.0), f32::new(0.0));
                }
                if comptime!(terms.importance) {
                    surrogate *= importance[t];
                    slope *= importance[t];
                }
                let mut loss = surrogate;
                if comptime!(terms.entropy) {
                    loss -= entropy_coef * entropy[t];
                }
                if comptime!(terms.kl.is_some()) {
                    let d = reference[t] - lp;
                    if comptime!(terms.kl == Some(KlPenalty::K1)) {
                        loss -= kl_coef * d;
                        slope += kl_coef;
                    } else if comptime!(terms.kl == Some(KlPenalty::K2)) {
                        loss += kl_coef * 0.5 * d * d;
                        slope -= kl_coef * d;
                    } else if comptime!(terms.kl == Some(KlPenalty::K3)) {
                        let e = d.exp();
                        loss += kl_coef * (e - d - 1.0);
                        slope += kl_coef * (1.0 - e);
                    } else {
                        let c = d.max(f32::new(-20.0)).min(f32::new(20.0));
                        let e = c.exp();
                        let value = e - c - 1.0;
                        let bounded = d < f32::new(-20.0) || d > f32::new(20.0) || value > 10.0;
                        loss += kl_coef * value.min(f32::new(10.0));
                        slope += select(bounded, f32::new(0.0), kl_coef * (1.0 - e));
                    }
                }
                slope *= w;
                loss_sum += w * loss;
                clipped_sum += select(is_clipped, f32::new(1.0), f32::new(0.0));
                k1_sum -= log_ratio;
                k3_sum += ratio - 1.0 - log_ratio;
                largest = largest.max(ratio);
            }
            slopes[t] = slope;
            t += CUBE_COUNT * CUBE_DIM as usize;
        }
        let mut shared = Shared::<[f32]>::new_slice(comptime!(PPO_SUMS * terms.units));
        let at = UNIT_POS as usize * PPO_SUMS;
        shared[at] = loss_sum;
        shared[at + 1] = clipped_sum;
        shared[at + 2] = lower_sum;
        shared[at + 3] = k1_sum;
        shared[at + 4] = k3_sum;
        shared[at + 5] = largest;
        reduce(&shared, partial, CUBE_POS * PPO_SUMS, comptime!(terms.units), PPO_SUMS, true);
    }

    /// Per-token value losses and their derivatives.
    #[cube(launch)]
    pub(crate) fn value_loss(
        values: &[f32],
        old: &[f32],
        returns: &[f32],
        weight: &[f32],
        slopes: &mut [f32],
        partial: &mut [f32],
        clip: f32,
        #[comptime] clips: bool,
        #[comptime] units: usize,
    ) {
        let n = values.len();
        let mut loss_sum = f32::new(0.0);
        let mut clipped_sum = f32::new(0.0);
        let mut t = ABSOLUTE_POS;
        while t < n {
            let w = weight[t];
            let mut slope = f32::new(0.0);
            if w != 0.0 {
                let mut error = values[t] - returns[t];
                slope = w * error;
                if comptime!(clips) {
                    let change = values[t] - old[t];
                    let held = change.max(f32::new(0.0) - clip).min(clip);
                    let moved = old[t] + held - returns[t];
                    // Only where the bound holds: rounding must not count as clipping.
                    let is_clipped = held != change && moved * moved > error * error;
                    error = select(is_clipped, moved, error);
                    slope = select(is_clipped, f32::new(0.0), w * error);
                    clipped_sum += select(is_clipped, f32::new(1.0), f32::new(0.0));
                }
                loss_sum += 0.5 * w * error * error;
            }
            slopes[t] = slope;
            t += CUBE_COUNT * CUBE_DIM as usize;
        }
        let mut shared = Shared::<[f32]>::new_slice(comptime!(VALUE_SUMS * units));
        let at = UNIT_POS as usize * VALUE_SUMS;
        shared[at] = loss_sum;
        shared[at + 1] = clipped_sum;
        reduce(&shared, partial, CUBE_POS * VALUE_SUMS, units, VALUE_SUMS, false);
    }

    /// Sums the rows of `partial` `[rows, width]`. One unit per column.
    #[cube(launch)]
    pub(crate) fn merge_sums(partial: &[f32], out: &mut [f32], #[comptime] width: usize, #[comptime] has_max: bool) {
        let mut column = UNIT_POS as usize;
        while column < width {
            let mut value = f32::new(0.0);
            for row in 0..partial.len() / width {
                let v = partial[row * width + column];
                if has_max && column == width - 1 {
                    value = value.max(v);
                } else {
                    value += v;
                }
            }
            out[column] = value;
            column += CUBE_DIM as usize;
        }
    }
}

fn shape(like: &CubeTensor, n: usize) -> (CubeDim, usize, usize) {
    let limits = Limits::of(&like.client);
    let units = if limits.wide() { limits.units.min(256) } else { limits.narrow_units() };
    (CubeDim::new_1d(units as u32), units, n.div_ceil(units).clamp(1, CUBES))
}

fn merge(partial: &CubeTensor, width: usize, has_max: bool) -> CubeTensor {
    let out = empty(partial, [width], DType::F32);
    let units = Limits::of(&partial.client).units.min(8) as u32;
    kernels::merge_sums::launch(
        &partial.client,
        CubeCount::Static(1, 1, 1),
        CubeDim::new_1d(units),
        arg(partial),
        arg(&out),
        width,
        has_max,
    );
    out
}

/// Loss and metrics `[6]`, and d loss/d logprob `[n]`. Inputs: logprob, entropy, old, advantage, weight, reference,
/// importance; the last two are read only if `has`.
pub(crate) fn policy(inputs: [CubeTensor; 7], config: PpoLossConfig, has: [bool; 2]) -> (CubeTensor, CubeTensor) {
    let [logprob, entropy, old, advantage, weight, reference, importance] = &inputs;
    let [n] = dims(logprob);
    if n == 0 {
        return (zeros(logprob, [PPO_SUMS], DType::F32), empty(logprob, [0], DType::F32));
    }
    let (cube_dim, units, cubes) = shape(logprob, n);
    let slopes = empty(logprob, [n], DType::F32);
    let partial = empty(logprob, [cubes, PPO_SUMS], DType::F32);
    let terms = Terms {
        dual_clip: config.dual_clip.is_some(),
        entropy: config.entropy_coef != 0.0,
        kl: has[0].then_some(config.kl),
        importance: has[1],
        units,
    };
    kernels::policy_loss::launch(
        &logprob.client,
        CubeCount::Static(cubes as u32, 1, 1),
        cube_dim,
        arg(logprob),
        arg(entropy),
        arg(old),
        arg(advantage),
        arg(weight),
        arg(reference),
        arg(importance),
        arg(&slopes),
        arg(&partial),
        1.0 - config.clip_low,
        1.0 + config.clip_high,
        config.dual_clip.unwrap_or(0.0),
        config.entropy_coef,
        config.kl_coef,
        terms,
    );
    (merge(&partial, PPO_SUMS, true), slopes)
}

/// Loss and clipped tokens `[2]`, and d loss/d values `[n]`. Inputs: values, old, returns, weight.
pub(crate) fn value(inputs: [CubeTensor; 4], clip: Option<f32>) -> (CubeTensor, CubeTensor) {
    let [values, old, returns, weight] = &inputs;
    let [n] = dims(values);
    if n == 0 {
        return (zeros(values, [VALUE_SUMS], DType::F32), empty(values, [0], DType::F32));
    }
    let (cube_dim, units, cubes) = shape(values, n);
    let slopes = empty(values, [n], DType::F32);
    let partial = empty(values, [cubes, VALUE_SUMS], DType::F32);
    kernels::value_loss::launch(
        &values.client,
        CubeCount::Static(cubes as u32, 1, 1),
        cube_dim,
        arg(values),
        arg(old),
        arg(returns),
        arg(weight),
        arg(&slopes),
        arg(&partial),
        clip.unwrap_or(0.0),
        clip.is_some(),
        units,
    );
    (merge(&partial, VALUE_SUMS, false), slopes)
}
