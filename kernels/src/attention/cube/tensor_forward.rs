use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::forward::UNSEEN;
use super::plan::Plan;
use super::tile::load_rows;
use crate::attention::problem::{Heads, Work};
use crate::cube::{Numbers, arg, cube_count, element};
use crate::fragment::{ALIGNMENT, multiply, store, zeros};

pub(crate) mod kernels {
    use super::*;

    /// As `attention_forward` without packing, with products on tensor cores. Several units share a row: each keeps
    /// the row's largest score, and a sum over its own part of the keys.
    #[cube(launch)]
    pub(crate) fn attention_forward_tensor<E: Float>(
        q: &[E],
        k: &[E],
        v: &[E],
        work: &[i32],
        out: &mut [E],
        lse: &mut [f32],
        scale: f32,
        heads: u32,
        kv_heads: u32,
        items: u32,
        #[comptime] plan: Plan,
        #[define(E)] _dtype: ElemType,
    ) {
        let (rows, keys, d) = comptime!((plan.rows, plan.keys, plan.head_dim));
        let (ld, ls, lw, lo) = comptime!((plan.ld(), plan.ld_scores(), plan.ld_weights(), plan.ld_sums()));
        let (units, parts) = comptime!((plan.units(), plan.parts()));
        let sweep = comptime!(keys / parts);
        let heads = heads as usize;
        let kv_heads = kv_heads as usize;
        let item = CUBE_POS / heads;
        if item < items as usize {
            let head = CUBE_POS % heads;
            let kv_head = head / (heads / kv_heads);
            let w = item * 7;
            let query = work[w] as usize;
            let valid = work[w + 1] as usize;
            let base = work[w + 2] as usize;
            let to = work[w + 4] as usize;
            let position = work[w + 5] as usize;

            let mut q_tile = Shared::<[E]>::new_aligned_slice(comptime!(rows * ld), ALIGNMENT);
            let mut k_tile = Shared::<[E]>::new_aligned_slice(comptime!(keys * ld), ALIGNMENT);
            let mut v_tile = Shared::<[E]>::new_aligned_slice(comptime!(keys * ld), ALIGNMENT);
            let mut scores = Shared::<[f32]>::new_aligned_slice(comptime!(rows * ls), ALIGNMENT);
            let mut weights = Shared::<[E]>::new_aligned_slice(comptime!(rows * lw), ALIGNMENT);
            let mut block = Shared::<[f32]>::new_aligned_slice(comptime!(rows * lo), ALIGNMENT);
            let mut top = Shared::<[f32]>::new_slice(comptime!(rows * parts));
            let mut peak = Shared::<[f32]>::new_slice(comptime!(rows * parts));
            let mut total = Shared::<[f32]>::new_slice(comptime!(rows * parts));
            let mut shrink = Shared::<[f32]>::new_slice(rows);

            load_rows::<E, E>(q, &mut q_tile, query, valid, heads, head, rows, d, 1usize, ld);
            // This unit's row and its share of every block of keys; `units` is a multiple of `rows`.
            let unit = UNIT_POS as usize;
            let own = unit % rows;
            let from = unit / rows * sweep;
            top[unit] = f32::new(UNSEEN);
            total[unit] = f32::new(0.0);
            let mut sums = Array::<f32>::new(comptime!(rows * d / units));
            #[unroll]
            for i in 0..comptime!(rows * d / units) {
                sums[i] = f32::new(0.0);
            }

            let mut start = work[w + 3] as usize;
            while start < to {
                let count = (to - start).min(keys);
                sync_cube();
                load_rows::<E, E>(k, &mut k_tile, base + start, count, kv_heads, kv_head, keys, d, 1usize, ld);
                load_rows::<E, E>(v, &mut v_tile, base + start, count, kv_heads, kv_head, keys, d, 1usize, ld);
                sync_cube();
                let mut patch = zeros(plan.scores());
                multiply::<E>(&q_tile, &k_tile, &mut patch, plan.scores());
                store(&patch, &mut scores, ls, plan.scores());
                sync_cube();
                let mut largest = f32::new(UNSEEN);
                for i in 0..sweep {
                    let key = from + i;
                    let at = own * ls + key;
                    let seen = key < count && start + key <= position + own;
                    let score = select(seen, scores[at] * scale, f32::new(UNSEEN));
                    scores[at] = score;
                    largest = largest.max(score);
                }
                peak[unit] = largest;
                sync_cube();
                let old = top[unit];
                let mut new = old;
                for part in 0..parts {
                    new = new.max(peak[part * rows + own]);
                }
                let mut sum = f32::new(0.0);
                for i in 0..sweep {
                    let key = from + i;
                    let score = scores[own * ls + key];
                    let p = select(score > f32::new(UNSEEN), (score - new).exp(), f32::new(0.0));
                    weights[own * lw + key] = E::cast_from(p);
                    sum += p;
                }
                let factor = (old - new).exp();
                total[unit] = total[unit] * factor + sum;
                top[unit] = new;
                if unit < rows {
                    shrink[own] = factor;
                }
                sync_cube();
                let mut patch = zeros(plan.gather());
                multiply::<E>(&weights, &v_tile, &mut patch, plan.gather());
                store(&patch, &mut block, lo, plan.gather());
                sync_cube();
                #[unroll]
                for i in 0..comptime!(rows * d / units) {
                    let at = unit + i * units;
                    sums[i] = sums[i] * shrink[at / d] + block[at / d * lo + at % d];
                }
                start += keys;
            }
            sync_cube();

            #[unroll]
            for i in 0..comptime!(rows * d / units) {
                let at = unit + i * units;
                let row = at / d;
                if row < valid {
                    let mut sum = f32::new(0.0);
                    for part in 0..parts {
                        sum += total[part * rows + row];
                    }
                    let target = (query + row) * heads + head;
                    out[target * d + at % d] = E::cast_from(sums[i] / sum);
                    if at % d == 0 {
                        lse[target] = top[row] + sum.ln();
                    }
                }
            }
        }
    }
}

/// Output and log-sum-exp of blocks of `plan.rows` queries.
pub(super) fn launch(
    [q, k, v]: [&CubeTensor; 3],
    work: &[Work],
    out: &CubeTensor,
    lse: &CubeTensor,
    heads: Heads,
    plan: Plan,
) {
    let client = &q.client;
    let encoded = Numbers::i32(client, &Work::encode(work));
    kernels::attention_forward_tensor::launch(
        client,
        cube_count(client, work.len() * heads.heads),
        CubeDim::new_1d(plan.units() as u32),
        arg(q),
        arg(k),
        arg(v),
        encoded.arg(),
        arg(out),
        arg(lse),
        heads.scale(),
        heads.heads as u32,
        heads.kv_heads as u32,
        work.len() as u32,
        plan,
        element(q.dtype),
    );
}
