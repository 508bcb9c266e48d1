use std::ops::Range;

use rayon::prelude::*;

use super::block::{Block, ROWS};
use super::problem::Heads;
use crate::Segments;
use crate::simd::{ONE, Store, View, matmul, sum, vectorised};

/// What the forward keeps for the backward.
#[derive(Clone, Copy)]
pub(crate) struct Saved<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) out: &'a [f32],
    pub(crate) lse: &'a [f32],
}

/// The block starting at `start` within a segment, for one query head.
fn block<'a>(
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    segment: &Range<usize>,
    start: usize,
    head: usize,
    h: Heads,
) -> Block<'a> {
    let (q_stride, kv_stride) = (h.heads * h.head_dim, h.kv_heads * h.head_dim);
    let kv_offset = segment.start * kv_stride + head / h.group() * h.head_dim;
    Block {
        q: View::rows(&q[(segment.start + start) * q_stride + head * h.head_dim..], q_stride),
        rows: ROWS.min(segment.len() - start),
        k: View::rows(&k[kv_offset..], kv_stride),
        v: View::rows(&v[kv_offset..], kv_stride),
        first_visible: start + 1,
        step: 1,
        head_dim: h.head_dim,
    }
}

/// Every (segment, head) pair with work to do, longest first so that threads finish together.
fn tasks(segments: &Segments, heads: usize) -> Vec<(Range<usize>, usize)> {
    let mut tasks: Vec<_> = segments
        .ranges()
        .filter(|range| !range.is_empty())
        .flat_map(|range| (0..heads).map(move |head| (range.clone(), head)))
        .collect();
    tasks.sort_by_key(|(range, _)| std::cmp::Reverse(range.len()));
    tasks
}

/// Copies `local` (`[rows, width]`) into columns `column..` of the rows of `all` (`stride` apart) from `start` on.
fn scatter(all: &mut [f32], stride: usize, start: usize, column: usize, local: &[f32], width: usize) {
    for (row, values) in all[start * stride..].chunks_mut(stride).zip(local.chunks_exact(width)) {
        row[column..column + width].copy_from_slice(values);
    }
}

pub(crate) fn forward(q: &[f32], k: &[f32], v: &[f32], segments: &Segments, h: Heads) -> (Vec<f32>, Vec<f32>) {
    let d = h.head_dim;
    let results: Vec<_> = tasks(segments, h.heads)
        .into_par_iter()
        .map(|(segment, head)| {
            let (mut out, mut lse) = (vec![0.0; segment.len() * d], vec![0.0; segment.len()]);
            let mut scores = Vec::new();
            for start in (0..segment.len()).step_by(ROWS) {
                let block = block(q, k, v, &segment, start, head, h);
                block.forward(&mut out[start * d..], d, Some(&mut lse[start..]), &mut scores);
            }
            (segment.start, head, out, lse)
        })
        .collect();
    let (mut out, mut lse) = (vec![0.0; q.len()], vec![0.0; q.len() / d]);
    for (start, head, local_out, local_lse) in results {
        scatter(&mut out, h.heads * d, start, head * d, &local_out, d);
        scatter(&mut lse, h.heads, start, head, &local_lse, 1);
    }
    (out, lse)
}

/// Gradients of one segment and one group of heads.
struct GroupGradients {
    start: usize,
    kv_head: usize,
    /// One `[length, head_dim]` per query head of the group.
    dq: Vec<Vec<f32>>,
    dk: Vec<f32>,
    dv: Vec<f32>,
}

pub(crate) fn backward(
    saved: Saved<'_>,
    grad: &[f32],
    segments: &Segments,
    h: Heads,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let results: Vec<GroupGradients> = tasks(segments, h.kv_heads)
        .into_par_iter()
        .map(|(segment, kv_head)| group_backward(saved, grad, segment, kv_head, h))
        .collect();
    let d = h.head_dim;
    let (mut dq, mut dk, mut dv) = (vec![0.0; saved.q.len()], vec![0.0; saved.k.len()], vec![0.0; saved.v.len()]);
    for g in results {
        for (i, local) in g.dq.iter().enumerate() {
            scatter(&mut dq, h.heads * d, g.start, (g.kv_head * h.group() + i) * d, local, d);
        }
        scatter(&mut dk, h.kv_heads * d, g.start, g.kv_head * d, &g.dk, d);
        scatter(&mut dv, h.kv_heads * d, g.start, g.kv_head * d, &g.dv, d);
    }
    (dq, dk, dv)
}

fn group_backward(saved: Saved<'_>, grad: &[f32], segment: Range<usize>, kv_head: usize, h: Heads) -> GroupGradients {
    let (d, length, stride) = (h.head_dim, segment.len(), h.heads * h.head_dim);
    let mut g = GroupGradients {
        start: segment.start,
        kv_head,
        dq: vec![vec![0.0; length * d]; h.group()],
        dk: vec![0.0; length * d],
        dv: vec![0.0; length * d],
    };
    let (mut p, mut ds) = (Vec::new(), Vec::new());
    for head in kv_head * h.group()..(kv_head + 1) * h.group() {
        for start in (0..length).step_by(ROWS) {
            let block = block(saved.q, saved.k, saved.v, &segment, start, head, h);
            let (rows, keys) = (block.rows, block.visible());
            let token = |r: usize| segment.start + start + r;
            block.probabilities(|r| saved.lse[token(r) * h.heads + head], &mut p);
            let offset = token(0) * stride + head * d;
            let dout = View::rows(&grad[offset..], stride);
            ds.resize(rows * keys, 0.0);
            matmul([rows, keys, d], &mut ds, keys, Store::Set, dout, block.v.t(), 1.0, ONE);
            vectorised!({
                for (r, (ds, p)) in ds.chunks_exact_mut(keys).zip(p.chunks_exact(keys)).enumerate() {
                    let at = offset + r * stride;
                    let (o, g) = (&saved.out[at..at + d], &grad[at..at + d]);
                    let delta = sum([o, g], |[o, g]| o * g);
                    let seen = block.seen(r);
                    for (ds, p) in ds[..seen].iter_mut().zip(&p[..seen]) {
                        *ds = p * (*ds - delta);
                    }
                    ds[seen..].fill(0.0);
                }
            });
            let (probabilities, scores) = (View::rows(&p, keys), View::rows(&ds, keys));
            let scale = block.scale();
            let dq = &mut g.dq[head - kv_head * h.group()][start * d..];
            matmul([rows, d, keys], dq, d, Store::Set, scores, block.k, scale, ONE);
            matmul([keys, d, rows], &mut g.dk, d, Store::Add, scores.t(), block.q, scale, ONE);
            matmul([keys, d, rows], &mut g.dv, d, Store::Add, probabilities.t(), dout, 1.0, ONE);
        }
    }
    g
}
