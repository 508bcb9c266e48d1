//! One new token of a row against its cache, without packing anything.
//!
//! The heads that share keys are the lanes of a vector: a key is read once for all of them, in the order of memory, and
//! the softmax runs down the cache with nothing to add up across lanes. Every number is added in the order of the packed
//! attention's matrix products, so that a token gets the same bits whichever code it went through.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::simd::{LARGEST_UNPLANNED, LONGEST_BLOCK, exp, prefetch};

/// Keys that are multiplied side by side: as many as hide the latency of a multiply-add.
const KEYS: usize = 8;
/// Positions whose values stay in the first cache while all heads weigh them; divides [`LONGEST_BLOCK`].
const VALUES: usize = 32;
/// Heads and vectors of columns whose sums stay in registers.
const HEADS: usize = 4;
const COLUMNS: usize = 2;
/// Partial sums of the softmax, as in [`crate::simd::sum`].
const SUMS: usize = 16;

/// Queries of one position, and what they see.
pub(super) struct Decode<'a> {
    /// `[heads, head_dim]`.
    pub(super) q: &'a [f32],
    /// The row's keys and values, `[≥ seen, kv_heads, head_dim]`.
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
    pub(super) seen: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    /// `[heads, head_dim]`.
    pub(super) out: &'a mut [f32],
    pub(super) scratch: &'a mut Vec<f32>,
}

impl Decode<'_> {
    /// Whether this code adds as the matrix products do. They take other paths for one or two keys, and cut deep sums of
    /// wide heads where the processor's caches suggest.
    pub(super) fn fits(seen: usize, head_dim: usize) -> bool {
        seen > 2 && head_dim <= LARGEST_UNPLANNED
    }

    /// False, and nothing done, on processors without fused multiply-add.
    pub(super) fn run(self) -> bool {
        pulp::Arch::new().dispatch(self)
    }
}

/// Heads in the lanes of a vector.
struct Lanes {
    kv_head: usize,
    heads: Range<usize>,
}

impl WithSimd for Decode<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let lanes = S::F32_LANES;
        if lanes == 1 || lanes > SUMS {
            return false;
        }
        let Decode { q, keys, values, seen, kv_heads, head_dim, out, scratch } = self;
        let group = q.len() / head_dim / kv_heads;
        let packs: Vec<Lanes> = (0..kv_heads)
            .flat_map(|kv_head| {
                let all = kv_head * group..(kv_head + 1) * group;
                all.clone().step_by(lanes).map(move |from| Lanes { kv_head, heads: from..all.end.min(from + lanes) })
            })
            .collect();
        scratch.clear();
        scratch.resize(packs.len() * (head_dim + seen) * lanes + out.len(), 0.0);
        let (turned, rest) = scratch.split_at_mut(packs.len() * head_dim * lanes);
        let (scores, sums) = rest.split_at_mut(packs.len() * seen * lanes);
        for (pack, turned) in packs.iter().zip(turned.chunks_exact_mut(head_dim * lanes)) {
            for (lane, q) in
                q[pack.heads.start * head_dim..pack.heads.end * head_dim].chunks_exact(head_dim).enumerate()
            {
                q.iter().enumerate().for_each(|(d, value)| turned[d * lanes + lane] = *value);
            }
        }
        let (width, scale) = (kv_heads * head_dim, 1.0 / (head_dim as f32).sqrt());
        for from in (0..seen).step_by(KEYS) {
            prefetch(keys, (from + 2 * KEYS) * width..(from + 3 * KEYS).min(seen) * width);
            for ((pack, turned), scores) in
                packs.iter().zip(turned.chunks_exact(head_dim * lanes)).zip(scores.chunks_exact_mut(seen * lanes))
            {
                let keys = &keys[from * width + pack.kv_head * head_dim..];
                let (q, scores) = (S::as_simd_f32s(turned).0, &mut S::as_mut_simd_f32s(scores).0[from..]);
                match scores.first_chunk_mut::<KEYS>() {
                    Some(scores) => *scores = multiply(simd, q, keys, width, scale),
                    None => {
                        for (i, score) in scores.iter_mut().enumerate() {
                            [*score] = multiply(simd, q, &keys[i * width..], width, scale);
                        }
                    }
                }
            }
        }
        let mut totals = vec![0.0; q.len() / head_dim];
        for (pack, scores) in packs.iter().zip(scores.chunks_exact_mut(seen * lanes)) {
            let sums = softmax(simd, scores);
            totals[pack.heads.clone()].copy_from_slice(&sums[..pack.heads.len()]);
        }
        for from in (0..seen).step_by(VALUES) {
            let positions = from..seen.min(from + VALUES);
            for (pack, scores) in packs.iter().zip(scores.chunks_exact(seen * lanes)) {
                let weights = &scores[positions.start * lanes..positions.end * lanes];
                let values = &values[from * width + pack.kv_head * head_dim..];
                let sums = &mut sums[pack.heads.start * head_dim..pack.heads.end * head_dim];
                weigh(simd, weights, values, width, head_dim, sums);
            }
            // The matrix product adds up the depth in blocks.
            if positions.end == seen || positions.end % LONGEST_BLOCK == 0 {
                if positions.end <= LONGEST_BLOCK {
                    out.copy_from_slice(sums);
                } else {
                    out.iter_mut().zip(&*sums).for_each(|(out, sum)| *out += sum);
                }
                sums.fill(0.0);
            }
        }
        for (out, total) in out.chunks_exact_mut(head_dim).zip(totals) {
            let inverse = 1.0 / total;
            out.iter_mut().for_each(|o| *o *= inverse);
        }
        true
    }
}

/// Scores of all lanes for `K` keys, `width` apart.
#[inline(always)]
fn multiply<S: Simd, const K: usize>(simd: S, q: &[S::f32s], keys: &[f32], width: usize, scale: f32) -> [S::f32s; K] {
    let keys: [&[f32]; K] = std::array::from_fn(|k| &keys[k * width..][..q.len()]);
    let mut sums = [simd.splat_f32s(0.0); K];
    for (d, q) in q.iter().enumerate() {
        for (sum, key) in sums.iter_mut().zip(keys) {
            *sum = simd.mul_add_f32s(*q, simd.splat_f32s(key[d]), *sum);
        }
    }
    sums.map(|sum| simd.mul_f32s(simd.splat_f32s(scale), sum))
}

/// Exponentials of scores minus their largest, and their sum for each lane.
#[inline(always)]
fn softmax<S: Simd>(simd: S, scores: &mut [f32]) -> [f32; SUMS] {
    let (rows, _) = S::as_mut_simd_f32s(scores);
    let mut top = simd.splat_f32s(f32::NEG_INFINITY);
    for row in rows.iter() {
        top = simd.max_f32s(*row, top);
    }
    for row in rows.iter_mut() {
        *row = simd.sub_f32s(*row, top);
    }
    scores.iter_mut().for_each(|s| *s = exp(*s));
    let (rows, _) = S::as_simd_f32s(scores);
    let mut sums = [simd.splat_f32s(0.0); SUMS];
    for rows in rows.chunks(SUMS) {
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = simd.add_f32s(*sum, *row);
        }
    }
    let mut total = simd.splat_f32s(0.0);
    for sum in sums {
        total = simd.add_f32s(total, sum);
    }
    let mut totals = [0.0; SUMS];
    simd.partial_store_f32s(&mut totals[..S::F32_LANES], total);
    totals
}

/// Adds to `sums` (`[heads, head_dim]`) the values, `width` apart, times the heads' weights.
#[inline(always)]
fn weigh<S: Simd>(simd: S, weights: &[f32], values: &[f32], width: usize, head_dim: usize, sums: &mut [f32]) {
    let heads = sums.len() / head_dim;
    for from in (0..head_dim).step_by(COLUMNS * S::F32_LANES) {
        let columns = from..head_dim.min(from + COLUMNS * S::F32_LANES);
        for head in (0..heads).step_by(HEADS) {
            let (weights, sums) = (&weights[head..], &mut sums[head * head_dim..]);
            match heads - head {
                1 => weigh_some::<S, 1>(simd, weights, values, width, columns.clone(), head_dim, sums, head == 0),
                2 => weigh_some::<S, 2>(simd, weights, values, width, columns.clone(), head_dim, sums, head == 0),
                3 => weigh_some::<S, 3>(simd, weights, values, width, columns.clone(), head_dim, sums, head == 0),
                _ => weigh_some::<S, HEADS>(simd, weights, values, width, columns.clone(), head_dim, sums, head == 0),
            }
        }
    }
}

/// The same for `H` heads and some columns. The `first` heads of a block ask for the values of the next.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn weigh_some<S: Simd, const H: usize>(
    simd: S,
    weights: &[f32],
    values: &[f32],
    width: usize,
    columns: Range<usize>,
    head_dim: usize,
    sums: &mut [f32],
    first: bool,
) {
    let middle = columns.len().min(S::F32_LANES);
    let load = |from: &[f32]| -> [S::f32s; COLUMNS] {
        match S::as_simd_f32s(from).0.first_chunk() {
            Some(vectors) => *vectors,
            None => [simd.partial_load_f32s(&from[..middle]), simd.partial_load_f32s(&from[middle..])],
        }
    };
    let mut kept: [[S::f32s; COLUMNS]; H] = std::array::from_fn(|h| load(&sums[h * head_dim..][columns.clone()]));
    for (i, weights) in weights.chunks(S::F32_LANES).enumerate() {
        if first {
            let next = (VALUES + i) * width;
            prefetch(values, next + columns.start..next + columns.end);
        }
        let values = load(&values[i * width..][columns.clone()]);
        for (kept, weight) in kept.iter_mut().zip(&weights[..H]) {
            let weight = simd.splat_f32s(*weight);
            for (sum, value) in kept.iter_mut().zip(values) {
                *sum = simd.mul_add_f32s(weight, value, *sum);
            }
        }
    }
    for (h, [low, high]) in kept.into_iter().enumerate() {
        let (first, second) = sums[h * head_dim..][columns.clone()].split_at_mut(middle);
        simd.partial_store_f32s(first, low);
        simd.partial_store_f32s(second, high);
    }
}
