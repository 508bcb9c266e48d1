use burn::tensor::{Int, Tensor, TensorData};

use super::random::{threefry, uniform};
use super::{SampleConfig, Sampled, Stream};

/// [`super::sample`] on the host in f64, with sorting.
pub fn sample(logits: Tensor<2>, config: SampleConfig, streams: &[Stream]) -> Sampled {
    let (device, [batch, columns]) = (logits.device(), logits.dims());
    let host: Vec<f64> = logits.into_data().convert::<f64>().try_to_vec().unwrap_or_default();
    let (mut ids, mut logprobs) = (Vec::with_capacity(batch), Vec::with_capacity(batch));
    for (row, stream) in host.chunks_exact(columns.max(1)).zip(streams) {
        let (id, logprob) = draw(&row[..config.vocabulary], config, *stream);
        ids.push(id as i32);
        logprobs.push(logprob as f32);
    }
    Sampled {
        ids: Tensor::<1, Int>::from_data(TensorData::new(ids, [batch]), &device),
        logprob: Tensor::from_data(TensorData::new(logprobs, [batch]), &device),
    }
}

fn draw(logits: &[f64], config: SampleConfig, stream: Stream) -> (usize, f64) {
    let temperature = if config.temperature == 0.0 { 1.0 } else { f64::from(config.temperature) };
    let z: Vec<f64> = logits.iter().map(|l| l / temperature).collect();
    let top = z.iter().fold(f64::NEG_INFINITY, |m, v| m.max(*v));
    let log_sum = top + z.iter().map(|v| (v - top).exp()).sum::<f64>().ln();
    let mut order: Vec<usize> = (0..z.len()).collect();
    order.sort_by(|a, b| z[*b].total_cmp(&z[*a]).then(a.cmp(b)));
    let (top_k, top_p, min_p) = config.filters();
    let mut threshold = f64::NEG_INFINITY;
    if top_k {
        threshold = threshold.max(z[order[config.top_k - 1]]);
    }
    if top_p {
        let mut mass = 0.0;
        let last = order.iter().find(|&&i| {
            mass += (z[i] - log_sum).exp();
            mass >= f64::from(config.top_p)
        });
        threshold = threshold.max(last.map_or(f64::NEG_INFINITY, |i| z[*i]));
    }
    if min_p {
        threshold = threshold.max(top + f64::from(config.min_p).ln());
    }
    let key = [stream.seed as u32, (stream.seed >> 32) as u32];
    let score = |id: usize| {
        if config.temperature == 0.0 {
            return z[id];
        }
        let u = f64::from(uniform(threefry(key, [stream.draw, id as u32])[0]));
        z[id] - (-u.ln()).ln()
    };
    let mut best = (order[0], f64::NEG_INFINITY);
    for id in (0..z.len()).filter(|&id| z[id] >= threshold) {
        let s = score(id);
        if s > best.1 {
            best = (id, s);
        }
    }
    (best.0, z[best.0] - log_sum)
}
