//! The operations as plain loops in f64, with their gradients: what every device is compared with. The gradients here
//! are themselves checked by finite differences.

use rlver_kernels::Segments;

use crate::common::numeric_gradient;

/// Layout of an attention problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
}

/// One query row: probabilities over `keys` and the output.
fn attend(h: Heads, q: &[f64], k: &[f64], row: usize, head: usize, keys: std::ops::Range<usize>) -> Vec<f64> {
    let (d, kv) = (h.head_dim, head / (h.heads / h.kv_heads));
    let query = &q[(row * h.heads + head) * d..][..d];
    let scores: Vec<f64> = keys
        .map(|j| {
            let key = &k[(j * h.kv_heads + kv) * d..][..d];
            query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() / (d as f64).sqrt()
        })
        .collect();
    let top = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s));
    let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
    scores.iter().map(|s| (s - top).exp() / total).collect()
}

/// Output of packed causal attention.
pub(crate) fn attention(h: Heads, q: &[f64], k: &[f64], v: &[f64], segments: &Segments) -> Vec<f64> {
    let d = h.head_dim;
    let mut out = vec![0.0; q.len()];
    for range in segments.ranges() {
        for i in range.clone() {
            for head in 0..h.heads {
                let kv = head / (h.heads / h.kv_heads);
                let p = attend(h, q, k, i, head, range.start..i + 1);
                for (j, p) in (range.start..=i).zip(p) {
                    for c in 0..d {
                        out[(i * h.heads + head) * d + c] += p * v[(j * h.kv_heads + kv) * d + c];
                    }
                }
            }
        }
    }
    out
}

/// Gradients of q, k and v.
pub(crate) fn attention_backward(h: Heads, [q, k, v]: [&[f64]; 3], grad: &[f64], segments: &Segments) -> [Vec<f64>; 3] {
    let d = h.head_dim;
    let scale = 1.0 / (d as f64).sqrt();
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    for range in segments.ranges() {
        for i in range.clone() {
            for head in 0..h.heads {
                let kv = head / (h.heads / h.kv_heads);
                let p = attend(h, q, k, i, head, range.start..i + 1);
                let at = (i * h.heads + head) * d;
                let key = |j: usize| ((range.start + j) * h.kv_heads + kv) * d;
                let dp: Vec<f64> = (0..p.len()).map(|j| (0..d).map(|c| grad[at + c] * v[key(j) + c]).sum()).collect();
                let delta: f64 = p.iter().zip(&dp).map(|(p, dp)| p * dp).sum();
                for j in 0..p.len() {
                    let ds = p[j] * (dp[j] - delta) * scale;
                    for c in 0..d {
                        dq[at + c] += ds * k[key(j) + c];
                        dk[key(j) + c] += ds * q[at + c];
                        dv[key(j) + c] += p[j] * grad[at + c];
                    }
                }
            }
        }
    }
    [dq, dk, dv]
}

/// A vocabulary projection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Projection<'a> {
    pub(crate) width: usize,
    pub(crate) vocabulary: usize,
    pub(crate) temperature: f64,
    pub(crate) targets: &'a [usize],
}

impl Projection<'_> {
    fn logp(&self, hidden: &[f64], weight: &[f64], i: usize) -> Vec<f64> {
        let x = &hidden[i * self.width..][..self.width];
        let z: Vec<f64> = weight
            .chunks_exact(self.width)
            .take(self.vocabulary)
            .map(|w| w.iter().zip(x).map(|(a, b)| a * b).sum::<f64>() / self.temperature)
            .collect();
        let top = z.iter().fold(f64::NEG_INFINITY, |m, v| m.max(*v));
        let log_sum = top + z.iter().map(|v| (v - top).exp()).sum::<f64>().ln();
        z.iter().map(|z| z - log_sum).collect()
    }

    /// Log-probabilities and entropies.
    pub(crate) fn forward(&self, hidden: &[f64], weight: &[f64]) -> (Vec<f64>, Vec<f64>) {
        (0..self.targets.len())
            .map(|i| {
                let logp = self.logp(hidden, weight, i);
                (logp[self.targets[i]], -logp.iter().map(|l| l.exp() * l).sum::<f64>())
            })
            .unzip()
    }

    /// Gradients of hidden and weight.
    pub(crate) fn backward(&self, hidden: &[f64], weight: &[f64], g: &[f64], e: &[f64]) -> [Vec<f64>; 2] {
        let (mut dh, mut dw) = (vec![0.0; hidden.len()], vec![0.0; weight.len()]);
        for i in 0..self.targets.len() {
            let logp = self.logp(hidden, weight, i);
            let entropy = -logp.iter().map(|l| l.exp() * l).sum::<f64>();
            for (v, l) in logp.iter().enumerate() {
                let hit = if v == self.targets[i] { 1.0 } else { 0.0 };
                let dz = (g[i] * (hit - l.exp()) - e[i] * l.exp() * (l + entropy)) / self.temperature;
                for c in 0..self.width {
                    dh[i * self.width + c] += dz * weight[v * self.width + c];
                    dw[v * self.width + c] += dz * hidden[i * self.width + c];
                }
            }
        }
        [dh, dw]
    }
}

fn numbers(n: usize, seed: u64) -> Vec<f64> {
    crate::common::wide(&crate::common::values(n, seed, 0.8))
}

fn agree(what: &str, ours: &[f64], numeric: &[f64]) {
    for (i, (a, b)) in ours.iter().zip(numeric).enumerate() {
        assert!((a - b).abs() < 1e-7, "{what}[{i}]: {a} analytically, {b} numerically");
    }
}

#[test]
fn the_gradients_of_attention_are_those_of_finite_differences() {
    let h = Heads { heads: 4, kv_heads: 2, head_dim: 8 };
    let segments = Segments::from_lengths([5, 0, 1, 3]);
    let (q, k, v) = (numbers(9 * 32, 1), numbers(9 * 16, 2), numbers(9 * 16, 3));
    let grad = numbers(9 * 32, 4);
    let [dq, dk, dv] = attention_backward(h, [&q, &k, &v], &grad, &segments);
    let value = |q: &[f64], k: &[f64], v: &[f64]| -> f64 {
        attention(h, q, k, v, &segments).iter().zip(&grad).map(|(o, g)| o * g).sum()
    };
    agree("dq", &dq, &numeric_gradient(&q, |q| value(q, &k, &v)));
    agree("dk", &dk, &numeric_gradient(&k, |k| value(&q, k, &v)));
    agree("dv", &dv, &numeric_gradient(&v, |v| value(&q, &k, v)));
}

#[test]
fn the_gradients_of_the_projection_are_those_of_finite_differences() {
    let p = Projection { width: 8, vocabulary: 11, temperature: 0.7, targets: &[3, 0, 10] };
    let (hidden, weight) = (numbers(3 * 8, 1), numbers(13 * 8, 2));
    let (g, e) = (numbers(3, 3), numbers(3, 4));
    let [dh, dw] = p.backward(&hidden, &weight, &g, &e);
    let value = |hidden: &[f64], weight: &[f64]| -> f64 {
        let (logp, entropy) = p.forward(hidden, weight);
        (0..3).map(|i| g[i] * logp[i] + e[i] * entropy[i]).sum()
    };
    agree("dhidden", &dh, &numeric_gradient(&hidden, |h| value(h, &weight)));
    agree("dweight", &dw, &numeric_gradient(&weight, |w| value(&hidden, w)));
}
