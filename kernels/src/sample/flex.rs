use rayon::prelude::*;

use super::random::{threefry, uniform};
use super::{SampleConfig, Stream};
use crate::simd::{exp, max, sum, vectorised};

/// Ids and log-probabilities; `logits` has rows of `columns`.
pub(crate) fn sample(logits: &[f32], columns: usize, config: SampleConfig, streams: &[Stream]) -> (Vec<i32>, Vec<f32>) {
    logits
        .par_chunks_exact(columns)
        .zip(streams)
        .map(|(row, stream)| draw(&row[..config.vocabulary], config, *stream))
        .unzip()
}

fn draw(logits: &[f32], config: SampleConfig, stream: Stream) -> (i32, f32) {
    let scale = config.inverse_temperature();
    let z: Vec<f32> = logits.iter().map(|l| l * scale).collect();
    let (top, total) = vectorised!({
        let top = max(&z);
        (top, sum([&z], |[z]| exp(z - top)))
    });
    let threshold = threshold(&z, top, total, config);
    let key = [stream.seed as u32, (stream.seed >> 32) as u32];
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &value) in z.iter().enumerate() {
        if value < threshold {
            continue;
        }
        let score = if config.temperature == 0.0 {
            value
        } else {
            value - (-uniform(threefry(key, [stream.draw, id as u32])[0]).ln()).ln()
        };
        if score > best.1 {
            best = (id, score);
        }
    }
    (best.0 as i32, z[best.0] - top - total.ln())
}

/// The smallest z that is kept.
fn threshold(z: &[f32], top: f32, total: f32, config: SampleConfig) -> f32 {
    let (top_k, top_p, min_p) = config.filters();
    let mut threshold = f32::NEG_INFINITY;
    if top_k {
        let mut copy = z.to_vec();
        let (_, kth, _) = copy.select_nth_unstable_by(config.top_k - 1, |a, b| b.total_cmp(a));
        threshold = threshold.max(*kth);
    }
    if min_p {
        threshold = threshold.max(top + config.min_p.ln());
    }
    if top_p {
        // Only what the other filters keep can matter, and mass below it cannot raise the threshold.
        let mut kept: Vec<f32> = z.iter().copied().filter(|v| *v >= threshold).collect();
        kept.sort_unstable_by(|a, b| b.total_cmp(a));
        let goal = f64::from(config.top_p) * f64::from(total);
        let mut mass = 0.0;
        let last = kept.iter().find(|v| {
            mass += f64::from(exp(**v - top));
            mass >= goal
        });
        threshold = threshold.max(last.copied().unwrap_or(f32::NEG_INFINITY));
    }
    threshold
}
