use rayon::prelude::*;

use crate::simd::{ALL, Store, View, exp, matmul, max, sum, vectorised};

/// Vocabulary rows per chunk and hidden rows per block: the logits held at once are at most their product.
const CHUNK: usize = 2048;
const BLOCK: usize = 1024;

/// The vocabulary projection.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) weight: &'a [f32],
    pub(crate) width: usize,
    pub(crate) vocabulary: usize,
    pub(crate) temperature: f32,
}

impl Head<'_> {
    /// Logits of the vocabulary rows `from..from + count` for `rows` hidden rows.
    fn logits(&self, hidden: View<'_>, rows: usize, from: usize, count: usize, out: &mut Vec<f32>) {
        out.resize(rows * count, 0.0);
        let weight = View::rows(&self.weight[from * self.width..], self.width);
        let shape = [rows, count, self.width];
        matmul(shape, out, count, Store::Set, hidden, weight.t(), 1.0 / self.temperature, ALL);
    }

    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let vocabulary = self.vocabulary;
        (0..vocabulary).step_by(CHUNK).map(move |from| (from, CHUNK.min(vocabulary - from)))
    }
}

/// Running softmax statistics of one row.
#[derive(Clone, Copy)]
struct Online {
    max: f32,
    /// Σ exp(z − max).
    sum: f32,
    /// Σ exp(z − max)·z.
    weighted: f32,
    target: f32,
}

impl Online {
    const START: Online = Online { max: f32::NEG_INFINITY, sum: 0.0, weighted: 0.0, target: 0.0 };

    #[inline(always)]
    fn absorb(&mut self, z: &[f32]) {
        let top = max(z).max(self.max);
        let old = if self.sum == 0.0 { 0.0 } else { exp(self.max - top) };
        self.sum = self.sum * old + sum([z], |[z]| exp(z - top));
        self.weighted = self.weighted * old + sum([z], |[z]| exp(z - top) * z);
        self.max = top;
    }

    fn logprob(&self) -> f32 {
        (self.target - self.max) - self.sum.ln()
    }
}

/// One row's log-probability of `target`: what [`forward`] computes for it, to the bit.
pub(crate) fn logprob_of(logits: &[f32], temperature: f32, target: usize) -> f32 {
    let scale = 1.0 / temperature;
    let mut state = Online::START;
    let mut scaled = Vec::with_capacity(CHUNK.min(logits.len()));
    for chunk in logits.chunks(CHUNK) {
        scaled.clear();
        scaled.extend(chunk.iter().map(|z| z * scale));
        vectorised!(state.absorb(&scaled));
    }
    state.target = logits[target] * scale;
    state.logprob()
}

/// Rows `[logprob; entropy; log-sum-exp]`, each of length n.
pub(crate) fn forward(hidden: &[f32], head: Head<'_>, targets: &[usize]) -> Vec<f32> {
    let n = targets.len();
    let mut out = vec![0.0; 3 * n];
    let mut logits = Vec::new();
    for start in (0..n).step_by(BLOCK) {
        let rows = BLOCK.min(n - start);
        let block = View::rows(hidden, head.width).skip_rows(start);
        let mut state = vec![Online::START; rows];
        for (from, count) in head.chunks() {
            head.logits(block, rows, from, count, &mut logits);
            state.par_iter_mut().zip(logits.par_chunks_exact(count)).enumerate().with_min_len(16).for_each(
                |(r, (state, z))| {
                    vectorised!(state.absorb(z));
                    if let Some(&z) = targets[start + r].checked_sub(from).and_then(|t| z.get(t)) {
                        state.target = z;
                    }
                },
            );
        }
        for (r, s) in state.iter().enumerate() {
            let lse = s.max + s.sum.ln();
            out[start + r] = s.logprob();
            out[n + start + r] = lse - s.weighted / s.sum;
            out[2 * n + start + r] = lse;
        }
    }
    out
}

/// Gradients of hidden `[n, width]` and weight `[weight_rows, width]`.
pub(crate) fn backward(
    hidden: &[f32],
    head: Head<'_>,
    targets: &[usize],
    out: &[f32],
    grad: &[f32],
    weight_rows: usize,
    [need_hidden, need_weight]: [bool; 2],
) -> (Vec<f32>, Vec<f32>) {
    let (n, width) = (targets.len(), head.width);
    let mut dhidden = vec![0.0; if need_hidden { n * width } else { 0 }];
    let mut dweight = vec![0.0; if need_weight { weight_rows * width } else { 0 }];
    let (entropy, lse) = (&out[n..2 * n], &out[2 * n..]);
    let (dlogprob, dentropy) = (&grad[..n], &grad[n..2 * n]);
    let scale = 1.0 / head.temperature;
    let mut logits = Vec::new();
    for start in (0..n).step_by(BLOCK) {
        let rows = BLOCK.min(n - start);
        let block = View::rows(hidden, width).skip_rows(start);
        for (from, count) in head.chunks() {
            head.logits(block, rows, from, count, &mut logits);
            logits.par_chunks_exact_mut(count).enumerate().with_min_len(16).for_each(|(r, z)| {
                let i = start + r;
                let (g, e, entropy, lse) = (dlogprob[i], dentropy[i], entropy[i], lse[i]);
                vectorised!({
                    for z in z.iter_mut() {
                        let logp = *z - lse;
                        *z = -exp(logp) * (g + e * (logp + entropy));
                    }
                });
                if let Some(z) = targets[i].checked_sub(from).and_then(|t| z.get_mut(t)) {
                    *z += g;
                }
            });
            let dz = View::rows(&logits, count);
            if need_hidden {
                let weight = View::rows(&head.weight[from * width..], width);
                let dst = &mut dhidden[start * width..];
                matmul([rows, width, count], dst, width, Store::Add, dz, weight, scale, ALL);
            }
            if need_weight {
                let dst = &mut dweight[from * width..];
                matmul([count, width, rows], dst, width, Store::Add, dz.t(), block, scale, ALL);
            }
        }
    }
    (dhidden, dweight)
}
