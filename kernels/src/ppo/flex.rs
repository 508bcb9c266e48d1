use pulp::NullaryFnOnce;
use rayon::prelude::*;

use super::{KlPenalty, PPO_SUMS, PpoLossConfig, VALUE_SUMS};
use crate::simd::{exp, run};

/// Tokens per task. Sums are taken per task and then in order, so they do not depend on the number of threads.
const CHUNK: usize = 1 << 14;
/// Tokens that are computed side by side. Several vectors long, so that the compiler vectorises the loop over them
/// instead of unrolling it.
const LANES: usize = 64;

/// Per-token inputs of the policy loss, each of length n; the last two may be absent.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    pub(crate) logprob: &'a [f32],
    pub(crate) entropy: &'a [f32],
    pub(crate) old: &'a [f32],
    pub(crate) advantage: &'a [f32],
    pub(crate) weight: &'a [f32],
    pub(crate) reference: Option<&'a [f32]>,
    pub(crate) importance: Option<&'a [f32]>,
}

/// Inputs of a task, in blocks of [`LANES`].
struct Blocks<'a, const K: usize> {
    whole: [&'a [[f32; LANES]]; K],
    /// What is left, filled up with zeros: a weight of 0 makes a masked token.
    rest: [[f32; LANES]; K],
}

impl<'a, const K: usize> Blocks<'a, K> {
    #[inline(always)]
    fn new(inputs: [&'a [f32]; K], from: usize, n: usize) -> Blocks<'a, K> {
        let cut = inputs.map(|input| input[from..from + n].as_chunks());
        let rest = cut.map(|(_, rest)| {
            let mut lanes = [0.0; LANES];
            lanes[..rest.len()].copy_from_slice(rest);
            lanes
        });
        Blocks { whole: cut.map(|(whole, _)| whole), rest }
    }

    #[inline(always)]
    fn get(&self, i: usize) -> [&[f32; LANES]; K] {
        if i < self.whole[0].len() { self.whole.map(|w| &w[i]) } else { self.rest.each_ref() }
    }
}

/// Adds up partial sums in their order; column `max` is a maximum instead.
fn merge<const K: usize>(parts: &[[f32; K]], max: Option<usize>) -> Vec<f32> {
    (0..K)
        .map(|k| {
            let column = parts.iter().map(|p| p[k]);
            if Some(k) == max { column.fold(0.0, f32::max) } else { column.map(f64::from).sum::<f64>() as f32 }
        })
        .collect()
}

/// Loss and metrics `[6]`, and d loss/d logprob `[n]`.
pub(crate) fn policy(tokens: Tokens<'_>, config: PpoLossConfig) -> (Vec<f32>, Vec<f32>) {
    let c = config.kl_coef;
    let has_reference = tokens.reference.is_some();
    // One compiled loop per estimator: no test inside.
    match config.kl {
        _ if !has_reference => policy_with(tokens, config, |_| (0.0, 0.0)),
        KlPenalty::K1 => policy_with(tokens, config, |d| (-c * d, c)),
        KlPenalty::K2 => policy_with(tokens, config, |d| (0.5 * c * d * d, -c * d)),
        KlPenalty::K3 => policy_with(tokens, config, |d| {
            let e = exp(d);
            (c * (e - d - 1.0), c * (1.0 - e))
        }),
        KlPenalty::K3Bounded => policy_with(tokens, config, |d| {
            let held = d.clamp(-20.0, 20.0);
            let e = exp(held);
            let value = e - held - 1.0;
            let bounded = held != d || value > 10.0;
            (c * value.min(10.0), if bounded { 0.0 } else { c * (1.0 - e) })
        }),
    }
}

/// `penalty` gives the weighted divergence and its derivative from ref − lp.
fn policy_with(
    tokens: Tokens<'_>,
    config: PpoLossConfig,
    penalty: impl Fn(f32) -> (f32, f32) + Sync,
) -> (Vec<f32>, Vec<f32>) {
    let mut slopes = vec![0.0; tokens.logprob.len()];
    let parts: Vec<[f32; PPO_SUMS]> = slopes
        .par_chunks_mut(CHUNK)
        .enumerate()
        .map(|(i, slopes)| run(PolicyChunk { tokens, config, penalty: &penalty, from: i * CHUNK, slopes }))
        .collect();
    (merge(&parts, Some(PPO_SUMS - 1)), slopes)
}

/// Tokens `from..` of the policy loss, as many as there are `slopes`.
struct PolicyChunk<'a, P> {
    tokens: Tokens<'a>,
    config: PpoLossConfig,
    penalty: &'a P,
    from: usize,
    slopes: &'a mut [f32],
}

impl<P: Fn(f32) -> (f32, f32)> NullaryFnOnce for PolicyChunk<'_, P> {
    type Output = [f32; PPO_SUMS];

    #[inline(always)]
    fn call(self) -> [f32; PPO_SUMS] {
        let PolicyChunk { tokens, config, penalty, from, slopes } = self;
        let (low, high) = (1.0 - config.clip_low, 1.0 + config.clip_high);
        let ceiling = config.dual_clip.unwrap_or(f32::INFINITY);
        let mut sums = [[0f32; LANES]; PPO_SUMS];
        let Tokens { logprob, entropy, old, advantage, weight, reference, importance } = tokens;
        let weighted = importance.is_some();
        // Absent inputs are replaced by another and not looked at.
        let inputs =
            [logprob, entropy, old, advantage, weight, reference.unwrap_or(logprob), importance.unwrap_or(weight)];
        let blocks = Blocks::new(inputs, from, slopes.len());
        for (i, slopes) in slopes.chunks_mut(LANES).enumerate() {
            let [logprob, entropy, old, advantage, weight, reference, importance] = blocks.get(i);
            let mut out = [[0f32; LANES]; PPO_SUMS + 1];
            for l in 0..LANES {
                // Selections, not products, decide what a masked token contributes: it may hold NaN.
                let masked = weight[l] == 0.0;
                let keep = |v: f32| if masked { 0.0 } else { v };
                let raw = logprob[l] - old[l];
                let log_ratio = raw.clamp(-20.0, 20.0);
                let ratio = exp(log_ratio);
                let a = -advantage[l];
                let (free, held) = (a * ratio, a * ratio.max(low).min(high));
                let is_clipped = held > free;
                let surrogate = if is_clipped { held } else { free };
                let bound = a * ceiling;
                let is_lower = (a > 0.0) & (surrogate > bound);
                let surrogate = if is_lower { bound } else { surrogate };
                let flat = is_clipped | is_lower | (raw != log_ratio);
                let slope = if flat { 0.0 } else { free };
                let (kl, kl_slope) = penalty(reference[l] - logprob[l]);
                let bonus = config.entropy_coef * entropy[l];
                let importance = if weighted { importance[l] } else { 1.0 };
                out[0][l] = keep(weight[l] * (importance * surrogate - bonus + kl));
                out[1][l] = keep(if is_clipped { 1.0 } else { 0.0 });
                out[2][l] = keep(if is_lower { 1.0 } else { 0.0 });
                out[3][l] = keep(-log_ratio);
                out[4][l] = keep(ratio - 1.0 - log_ratio);
                out[5][l] = keep(ratio);
                out[6][l] = keep(weight[l] * (importance * slope + kl_slope));
            }
            for (sums, out) in sums.iter_mut().zip(&out).take(PPO_SUMS - 1) {
                for l in 0..LANES {
                    sums[l] += out[l];
                }
            }
            for l in 0..LANES {
                let (top, ratio) = (&mut sums[PPO_SUMS - 1][l], out[PPO_SUMS - 1][l]);
                *top = if ratio > *top { ratio } else { *top };
            }
            slopes.copy_from_slice(&out[PPO_SUMS][..slopes.len()]);
        }
        let mut total = sums.map(|s| s.iter().sum());
        total[PPO_SUMS - 1] = sums[PPO_SUMS - 1].iter().fold(0.0, |m, v| v.max(m));
        total
    }
}

/// Loss and clipped tokens `[2]`, and d loss/d values `[n]`.
pub(crate) fn value(inputs: [&[f32]; 4], clip: Option<f32>) -> (Vec<f32>, Vec<f32>) {
    let mut slopes = vec![0.0; inputs[0].len()];
    let clip = clip.unwrap_or(f32::INFINITY);
    let parts: Vec<[f32; VALUE_SUMS]> = slopes
        .par_chunks_mut(CHUNK)
        .enumerate()
        .map(|(i, slopes)| run(ValueChunk { inputs, clip, from: i * CHUNK, slopes }))
        .collect();
    (merge(&parts, None), slopes)
}

/// Tokens `from..` of the value loss, as many as there are `slopes`.
struct ValueChunk<'a> {
    inputs: [&'a [f32]; 4],
    clip: f32,
    from: usize,
    slopes: &'a mut [f32],
}

impl NullaryFnOnce for ValueChunk<'_> {
    type Output = [f32; VALUE_SUMS];

    #[inline(always)]
    fn call(self) -> [f32; VALUE_SUMS] {
        let ValueChunk { inputs, clip, from, slopes } = self;
        let mut sums = [[0f32; LANES]; VALUE_SUMS];
        let blocks = Blocks::new(inputs, from, slopes.len());
        for (i, slopes) in slopes.chunks_mut(LANES).enumerate() {
            let [values, old, returns, weight] = blocks.get(i);
            let mut out = [0f32; LANES];
            for l in 0..LANES {
                let masked = weight[l] == 0.0;
                let keep = |v: f32| if masked { 0.0 } else { v };
                let change = values[l] - old[l];
                let held = change.max(-clip).min(clip);
                let (free, moved) = (values[l] - returns[l], old[l] + held - returns[l]);
                // Only where the bound holds: rounding must not count as clipping.
                let is_clipped = (held != change) & (moved * moved > free * free);
                let error = if is_clipped { moved } else { free };
                sums[0][l] += keep(0.5 * weight[l] * error * error);
                sums[1][l] += keep(if is_clipped { 1.0 } else { 0.0 });
                out[l] = keep(if is_clipped { 0.0 } else { weight[l] * error });
            }
            slopes.copy_from_slice(&out[..slopes.len()]);
        }
        sums.map(|s| s.iter().sum())
    }
}
