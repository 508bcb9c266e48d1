//! A block of consecutive query rows of one head against the keys it may see: shared by packed and cached attention.

use crate::simd::{LARGEST_UNPLANNED, ONE, Store, View, exp, matmul, max, sum, vectorised};

/// Query rows per block.
pub(crate) const ROWS: usize = 64;

/// Replaces scores by exp(score − largest); the largest and the sum.
#[inline(always)]
pub(crate) fn softmax(scores: &mut [f32]) -> (f32, f32) {
    let top = max(scores);
    for s in scores.iter_mut() {
        *s = exp(*s - top);
    }
    (top, sum([&*scores], |[p]| p))
}

/// Query rows that share keys and values: consecutive queries of one head, or the heads of a group at one position.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    /// `[rows, head_dim]`.
    pub(crate) q: View<'a>,
    /// Number of query rows.
    pub(crate) rows: usize,
    /// `[≥ first_visible + rows − 1, head_dim]`.
    pub(crate) k: View<'a>,
    /// As `k`.
    pub(crate) v: View<'a>,
    /// How many keys the first row sees.
    pub(crate) first_visible: usize,
    /// How many more keys each following row sees: 1 for consecutive queries, 0 for heads at one position.
    pub(crate) step: usize,
    /// Width of a head.
    pub(crate) head_dim: usize,
}

impl Block<'_> {
    /// Keys row `r` sees.
    #[inline(always)]
    pub(crate) fn seen(&self, r: usize) -> usize {
        self.first_visible + self.step * r
    }

    /// Keys the last row sees.
    pub(crate) fn visible(&self) -> usize {
        self.seen(self.rows - 1)
    }

    /// Writes outputs (rows `out_stride` apart) and, when wanted, log-sum-exps. `scores` is scratch.
    pub(crate) fn forward(&self, out: &mut [f32], out_stride: usize, lse: Option<&mut [f32]>, scores: &mut Vec<f32>) {
        let keys = self.visible();
        scores.resize(self.rows * keys, 0.0);
        matmul([self.rows, keys, self.head_dim], scores, keys, Store::Set, self.q, self.k.t(), self.scale(), ONE);
        let mut inverse = [0f32; ROWS];
        let mut log_sums = [0f32; ROWS];
        vectorised!({
            for (r, row) in scores.chunks_exact_mut(keys).enumerate() {
                let (seen, unseen) = row.split_at_mut(self.seen(r));
                let (top, total) = softmax(seen);
                unseen.fill(0.0);
                inverse[r] = 1.0 / total;
                log_sums[r] = top + total.ln();
            }
        });
        let probabilities = View::rows(scores, keys);
        // So many columns at once that the sum is cut at the same keys however many there are.
        for from in (0..self.head_dim).step_by(LARGEST_UNPLANNED) {
            let columns = LARGEST_UNPLANNED.min(self.head_dim - from);
            let v = View { data: &self.v.data[from * self.v.col_stride..], ..self.v };
            matmul([self.rows, columns, keys], &mut out[from..], out_stride, Store::Set, probabilities, v, 1.0, ONE);
        }
        for (r, row) in out.chunks_mut(out_stride).take(self.rows).enumerate() {
            row[..self.head_dim].iter_mut().for_each(|o| *o *= inverse[r]);
        }
        if let Some(lse) = lse {
            lse[..self.rows].copy_from_slice(&log_sums[..self.rows]);
        }
    }

    /// Recomputes the probabilities from the saved log-sum-exps.
    pub(crate) fn probabilities(&self, lse: impl Fn(usize) -> f32, scores: &mut Vec<f32>) {
        let keys = self.visible();
        scores.resize(self.rows * keys, 0.0);
        matmul([self.rows, keys, self.head_dim], scores, keys, Store::Set, self.q, self.k.t(), self.scale(), ONE);
        vectorised!({
            for (r, row) in scores.chunks_exact_mut(keys).enumerate() {
                let (seen, unseen) = row.split_at_mut(self.seen(r));
                let l = lse(r);
                for s in seen.iter_mut() {
                    *s = exp(*s - l);
                }
                unseen.fill(0.0);
            }
        });
    }

    pub(crate) fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }
}
