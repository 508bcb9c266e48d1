use rayon::prelude::*;

use super::{KlPenalty, PPO_SUMS, PpoLossConfig, VALUE_SUMS};
use crate::simd::{dispatch, exp};

/// Tokens per task. Sums are taken per task and then in order, so they do not depend on the number of threads.
const CHUNK: usize = 1 << 14;
/// Independent accumulators, so that the loop vectorises.
const LANES: usize = 16;

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

impl<'a> Tokens<'a> {
    fn cut(&self, from: usize, to: usize) -> Tokens<'a> {
        Tokens {
            logprob: &self.logprob[from..to],
            entropy: &self.entropy[from..to],
            old: &self.old[from..to],
            advantage: &self.advantage[from..to],
            weight: &self.weight[from..to],
            reference: self.reference.map(|r| &r[from..to]),
            importance: self.importance.map(|i| &i[from..to]),
        }
    }
}

/// `lanes` summed in order in f64; `combine` for the last, which may be a maximum.
fn total(parts: &[f32]) -> f64 {
    parts.iter().map(|v| f64::from(*v)).sum()
}

/// Loss and metrics `[6]`, and d loss/d logprob `[n]`.
pub(crate) fn policy(tokens: Tokens<'_>, config: PpoLossConfig) -> (Vec<f32>, Vec<f32>) {
    let n = tokens.logprob.len();
    let mut slopes = vec![0.0; n];
    let parts: Vec<[f64; PPO_SUMS]> = slopes
        .par_chunks_mut(CHUNK)
        .enumerate()
        .map(|(i, slopes)| {
            let cut = tokens.cut(i * CHUNK, i * CHUNK + slopes.len());
            // One compiled loop per combination of what is absent: no test inside.
            match (cut.reference, cut.importance) {
                (None, None) => chunk(cut, config, slopes, |_| 0.0, |_| 1.0),
                (Some(r), None) => chunk(cut, config, slopes, |t| r[t], |_| 1.0),
                (None, Some(i)) => chunk(cut, config, slopes, |_| 0.0, |t| i[t]),
                (Some(r), Some(i)) => chunk(cut, config, slopes, |t| r[t], |t| i[t]),
            }
        })
        .collect();
    let mut sums = [0.0; PPO_SUMS];
    for part in parts {
        for (sum, p) in sums[..PPO_SUMS - 1].iter_mut().zip(part) {
            *sum += p;
        }
        sums[PPO_SUMS - 1] = sums[PPO_SUMS - 1].max(part[PPO_SUMS - 1]);
    }
    (sums.iter().map(|s| *s as f32).collect(), slopes)
}

#[inline(always)]
fn chunk(
    tokens: Tokens<'_>,
    config: PpoLossConfig,
    slopes: &mut [f32],
    reference: impl Fn(usize) -> f32,
    importance: impl Fn(usize) -> f32,
) -> [f64; PPO_SUMS] {
    let n = slopes.len();
    let Tokens { logprob, entropy, old, advantage, weight, .. } = tokens;
    let (logprob, entropy, old) = (&logprob[..n], &entropy[..n], &old[..n]);
    let (advantage, weight) = (&advantage[..n], &weight[..n]);
    let (low, high) = (1.0 - config.clip_low, 1.0 + config.clip_high);
    let ceiling = config.dual_clip.unwrap_or(f32::INFINITY);
    let kl_coef = if tokens.reference.is_some() { config.kl_coef } else { 0.0 };
    let mut lanes = [[0f32; LANES]; PPO_SUMS];
    dispatch(|| {
        let mut token = |t: usize, lane: usize| {
            let masked = weight[t] == 0.0;
            let raw = logprob[t] - old[t];
            let log_ratio = raw.clamp(-20.0, 20.0);
            let ratio = exp(log_ratio);
            let a = -advantage[t];
            let (free, held) = (a * ratio, a * ratio.clamp(low, high));
            let is_clipped = held > free;
            let surrogate = if is_clipped { held } else { free };
            let bound = a * ceiling;
            let is_lower = a > 0.0 && surrogate > bound;
            let surrogate = if is_lower { bound } else { surrogate };
            let flat = is_clipped || is_lower || raw != log_ratio;
            let slope = if flat { 0.0 } else { free };
            let d = reference(t) - logprob[t];
            let (kl, kl_slope) = match config.kl {
                KlPenalty::K1 => (-d, 1.0),
                KlPenalty::K2 => (0.5 * d * d, -d),
                KlPenalty::K3 => {
                    let c = d.clamp(-20.0, 20.0);
                    let e = exp(c);
                    let value = e - c - 1.0;
                    let bounded = c != d || value > 10.0;
                    (value.min(10.0), if bounded { 0.0 } else { 1.0 - e })
                }
            };
            let (kl, kl_slope) = if kl_coef == 0.0 { (0.0, 0.0) } else { (kl_coef * kl, kl_coef * kl_slope) };
            let i = importance(t);
            let bonus = if config.entropy_coef == 0.0 { 0.0 } else { config.entropy_coef * entropy[t] };
            let loss = weight[t] * (i * surrogate - bonus + kl);
            // Selections, not products: a masked token may hold NaN.
            let keep = |v: f32| if masked { 0.0 } else { v };
            slopes[t] = keep(weight[t] * (i * slope + kl_slope));
            lanes[0][lane] += keep(loss);
            lanes[1][lane] += keep(f32::from(u8::from(is_clipped)));
            lanes[2][lane] += keep(f32::from(u8::from(is_lower)));
            lanes[3][lane] += keep(-log_ratio);
            lanes[4][lane] += keep(ratio - 1.0 - log_ratio);
            lanes[5][lane] = lanes[5][lane].max(keep(ratio));
        };
        let whole = n / LANES * LANES;
        for start in (0..whole).step_by(LANES) {
            for lane in 0..LANES {
                token(start + lane, lane);
            }
        }
        for t in whole..n {
            token(t, t - whole);
        }
    });
    let mut sums = [0.0; PPO_SUMS];
    for (sum, lanes) in sums.iter_mut().zip(&lanes).take(PPO_SUMS - 1) {
        *sum = total(lanes);
    }
    sums[PPO_SUMS - 1] = f64::from(lanes[PPO_SUMS - 1].iter().fold(0f32, |m, v| m.max(*v)));
    sums
}

/// Loss and clipped tokens `[2]`, and d loss/d values `[n]`.
pub(crate) fn value([values, old, returns, weight]: [&[f32]; 4], clip: Option<f32>) -> (Vec<f32>, Vec<f32>) {
    let mut slopes = vec![0.0; values.len()];
    let clip = clip.unwrap_or(f32::INFINITY);
    let parts: Vec<[f64; VALUE_SUMS]> = slopes
        .par_chunks_mut(CHUNK)
        .enumerate()
        .map(|(i, slopes)| {
            let from = i * CHUNK;
            let n = slopes.len();
            let [values, old, returns, weight] = [values, old, returns, weight].map(|s| &s[from..from + n]);
            let mut lanes = [[0f32; LANES]; VALUE_SUMS];
            dispatch(|| {
                let mut token = |t: usize, lane: usize| {
                    let masked = weight[t] == 0.0;
                    let change = values[t] - old[t];
                    let held = change.clamp(-clip, clip);
                    let (free, moved) = (values[t] - returns[t], old[t] + held - returns[t]);
                    // Only where the bound holds: rounding must not count as clipping.
                    let is_clipped = held != change && moved * moved > free * free;
                    let error = if is_clipped { moved } else { free };
                    let slope = if is_clipped { 0.0 } else { weight[t] * error };
                    let keep = |v: f32| if masked { 0.0 } else { v };
                    slopes[t] = keep(slope);
                    lanes[0][lane] += keep(0.5 * weight[t] * error * error);
                    lanes[1][lane] += keep(f32::from(u8::from(is_clipped)));
                };
                let whole = n / LANES * LANES;
                for start in (0..whole).step_by(LANES) {
                    for lane in 0..LANES {
                        token(start + lane, lane);
                    }
                }
                for t in whole..n {
                    token(t, t - whole);
                }
            });
            lanes.map(|l| total(&l))
        })
        .collect();
    let sums: Vec<f32> = (0..VALUE_SUMS).map(|k| parts.iter().map(|p| p[k]).sum::<f64>() as f32).collect();
    (sums, slopes)
}
