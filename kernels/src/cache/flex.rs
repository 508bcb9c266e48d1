use rayon::prelude::*;

use super::decode::Decode;
use super::{Slots, Span, Spans};
use crate::attention::block::{Block, ROWS};
use crate::simd::View;

pub(crate) fn write(cache: &mut [f32], new: &[f32], [_, capacity, kv_heads, head_dim]: [usize; 4], slots: &Slots) {
    let width = kv_heads * head_dim;
    for (&(row, position), values) in slots.0.iter().zip(new.chunks_exact(width)) {
        let at = (row * capacity + position) * width;
        cache[at..at + width].copy_from_slice(values);
    }
}

pub(crate) fn attention(
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    [_, heads, head_dim]: [usize; 3],
    [_, capacity, kv_heads, _]: [usize; 4],
    spans: &Spans,
) -> Vec<f32> {
    let (width, kv_width, group) = (heads * head_dim, kv_heads * head_dim, heads / kv_heads);
    let mut out = vec![0.0; q.len()];
    // Hand every span its own rows of the output, then let threads take spans.
    let mut rest = out.as_mut_slice();
    let mut taken = 0;
    let mut tasks = Vec::with_capacity(spans.0.len());
    for span in spans.0.iter().filter(|s| s.length > 0) {
        let (mine, others) = rest.split_at_mut(span.length * width);
        rest = others;
        tasks.push((span, &q[taken * width..], mine));
        taken += span.length;
    }
    tasks.into_par_iter().for_each_init(Vec::new, |scores, (span, q, out)| {
        if span.length == 1 && heads / kv_heads <= ROWS {
            return single(q, keys, values, out, span, [heads, kv_heads, head_dim, capacity], scores);
        }
        let cached = span.row * capacity * kv_width;
        for head in 0..heads {
            let kv = cached + head / group * head_dim;
            for start in (0..span.length).step_by(ROWS) {
                let at = start * width + head * head_dim;
                let block = Block {
                    q: View::rows(&q[at..], width),
                    rows: ROWS.min(span.length - start),
                    k: View::rows(&keys[kv..], kv_width),
                    v: View::rows(&values[kv..], kv_width),
                    first_visible: span.start + start + 1,
                    step: 1,
                    head_dim,
                };
                block.forward(&mut out[at..], width, None, scores);
            }
        }
    });
    out
}

/// One new token: the heads of a group are the rows of a block, so that keys are read once per group.
///
/// A block has at least two rows (a lone head stands twice): matrix products of one row take another path through the
/// library and would round differently from the packed attention the trainer recomputes log-probabilities with.
fn single(
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    out: &mut [f32],
    span: &Span,
    [heads, kv_heads, head_dim, capacity]: [usize; 4],
    scores: &mut Vec<f32>,
) {
    let (kv_width, group) = (kv_heads * head_dim, heads / kv_heads);
    let (cached, seen) = (span.row * capacity * kv_width, span.start + 1);
    if Decode::fits(seen, head_dim) {
        let (keys, values, width) = (&keys[cached..], &values[cached..], heads * head_dim);
        let (q, out) = (&q[..width], &mut out[..width]);
        if (Decode { q, keys, values, seen, kv_heads, head_dim, out, scratch: scores }).run() {
            return;
        }
    }
    let rows = group.max(2);
    let mut local = vec![0.0; rows * head_dim];
    for kv_head in 0..kv_heads {
        let kv = cached + kv_head * head_dim;
        let at = kv_head * group * head_dim;
        let block = Block {
            q: View::rows(&q[at..], if group == 1 { 0 } else { head_dim }),
            rows,
            k: View::rows(&keys[kv..], kv_width),
            v: View::rows(&values[kv..], kv_width),
            first_visible: seen,
            step: 0,
            head_dim,
        };
        block.forward(&mut local, head_dim, None, scores);
        let width = group * head_dim;
        out[at..at + width].copy_from_slice(&local[..width]);
    }
}
