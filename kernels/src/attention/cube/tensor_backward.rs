use burn_cubecl::tensor::CubeTensor;
use cubecl::cmma::Matrix;
use cubecl::prelude::*;

use super::backward::load_stats;
use super::plan::Plan;
use super::tile::load_rows;
use crate::attention::problem::{Heads, Work};
use crate::cube::{Numbers, arg, cube_count, element};
use crate::fragment::{ALIGNMENT, Product, multiply, store, zeros};

pub(crate) mod kernels {
    use super::*;

    /// S = q·kᵀ and dO·vᵀ of a block of query rows against a block of keys.
    #[cube]
    fn both_products<E: Float>(
        q_tile: &Shared<[E]>,
        k_tile: &Shared<[E]>,
        v_tile: &Shared<[E]>,
        grad_tile: &Shared<[E]>,
        scores: &mut Shared<[f32]>,
        back: &mut Shared<[f32]>,
        #[comptime] plan: Plan,
    ) {
        let mut patch = zeros(plan.scores());
        multiply::<E>(q_tile, k_tile, &mut patch, plan.scores());
        store(&patch, scores, comptime!(plan.ld_scores()), plan.scores());
        let mut patch = zeros(plan.scores());
        multiply::<E>(grad_tile, v_tile, &mut patch, plan.scores());
        store(&patch, back, comptime!(plan.ld_scores()), plan.scores());
    }

    /// P = exp(S − L) of a row and a key, and dS = P∘(dO·vᵀ − D).
    #[cube]
    fn slope(
        scores: &Shared<[f32]>,
        back: &Shared<[f32]>,
        stats_tile: &Shared<[f32]>,
        at: usize,
        row: usize,
        seen: bool,
        scale: f32,
        #[comptime] rows: usize,
    ) -> (f32, f32) {
        let p = select(seen, (scores[at] * scale - stats_tile[row]).exp(), f32::new(0.0));
        let slope = select(seen, p * (back[at] - stats_tile[rows + row]), f32::new(0.0));
        (p, slope)
    }

    /// Writes the first `valid` rows of a product, through `stage` in shared memory, from token `first` on.
    #[cube]
    fn write_rows<E: Float>(
        sums: &Sequence<Matrix<f32>>,
        stage: &mut Shared<[f32]>,
        target: &mut [E],
        offset: usize,
        first: usize,
        valid: usize,
        heads: usize,
        head: usize,
        factor: f32,
        #[comptime] product: Product,
        #[comptime] ld: usize,
    ) {
        let d = comptime!(product.columns);
        sync_cube();
        store(sums, stage, ld, product);
        sync_cube();
        let mut i = UNIT_POS as usize;
        while i < comptime!(product.rows * product.columns) {
            let row = i / d;
            if row < valid {
                let at = offset + ((first + row) * heads + head) * d + i % d;
                target[at] = E::cast_from(stage[row * ld + i % d] * factor);
            }
            i += CUBE_DIM as usize;
        }
    }

    /// As `attention_backward_q`, with products on tensor cores.
    #[cube(launch)]
    pub(crate) fn attention_backward_q_tensor<E: Float>(
        q: &[E],
        k: &[E],
        v: &[E],
        grad: &[E],
        stats: &[f32],
        work: &[i32],
        dq: &mut [E],
        scale: f32,
        heads: u32,
        kv_heads: u32,
        items: u32,
        #[comptime] plan: Plan,
        #[define(E)] _dtype: ElemType,
    ) {
        let (rows, keys, d) = comptime!((plan.rows, plan.keys, plan.head_dim));
        let (ld, ls, lw, lo) = comptime!((plan.ld(), plan.ld_scores(), plan.ld_weights(), plan.ld_sums()));
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
            let mut grad_tile = Shared::<[E]>::new_aligned_slice(comptime!(rows * ld), ALIGNMENT);
            let mut k_tile = Shared::<[E]>::new_aligned_slice(comptime!(keys * ld), ALIGNMENT);
            let mut v_tile = Shared::<[E]>::new_aligned_slice(comptime!(keys * ld), ALIGNMENT);
            let mut scores = Shared::<[f32]>::new_aligned_slice(comptime!(rows * ls), ALIGNMENT);
            let mut back = Shared::<[f32]>::new_aligned_slice(comptime!(rows * ls), ALIGNMENT);
            let mut slopes = Shared::<[E]>::new_aligned_slice(comptime!(rows * lw), ALIGNMENT);
            let mut stage = Shared::<[f32]>::new_aligned_slice(comptime!(rows * lo), ALIGNMENT);
            let mut stats_tile = Shared::<[f32]>::new_slice(comptime!(2 * rows));
            load_rows::<E, E>(q, &mut q_tile, query, valid, heads, head, rows, d, 1usize, ld);
            load_rows::<E, E>(grad, &mut grad_tile, query, valid, heads, head, rows, d, 1usize, ld);
            load_stats(stats, &mut stats_tile, query, valid, heads, head, rows);
            let mut sums = zeros(plan.gather());

            let mut start = work[w + 3] as usize;
            while start < to {
                let count = (to - start).min(keys);
                sync_cube();
                load_rows::<E, E>(k, &mut k_tile, base + start, count, kv_heads, kv_head, keys, d, 1usize, ld);
                load_rows::<E, E>(v, &mut v_tile, base + start, count, kv_heads, kv_head, keys, d, 1usize, ld);
                sync_cube();
                both_products::<E>(&q_tile, &k_tile, &v_tile, &grad_tile, &mut scores, &mut back, plan);
                sync_cube();
                let mut i = UNIT_POS as usize;
                while i < comptime!(rows * keys) {
                    let (row, key) = (i / keys, i % keys);
                    let seen = row < valid && key < count && start + key <= position + row;
                    let ds = slope(&scores, &back, &stats_tile, row * ls + key, row, seen, scale, rows).1;
                    slopes[row * lw + key] = E::cast_from(ds);
                    i += CUBE_DIM as usize;
                }
                sync_cube();
                multiply::<E>(&slopes, &k_tile, &mut sums, plan.gather());
                start += keys;
            }
            write_rows::<E>(&sums, &mut stage, dq, 0usize, query, valid, heads, head, scale, plan.gather(), lo);
        }
    }

    /// As `attention_backward_kv`, with products on tensor cores.
    #[cube(launch)]
    pub(crate) fn attention_backward_kv_tensor<E: Float>(
        q: &[E],
        k: &[E],
        v: &[E],
        grad: &[E],
        stats: &[f32],
        work: &[i32],
        dkv: &mut [E],
        scale: f32,
        heads: u32,
        kv_heads: u32,
        items: u32,
        #[comptime] plan: Plan,
        #[define(E)] _dtype: ElemType,
    ) {
        let (rows, keys, d) = comptime!((plan.rows, plan.keys, plan.head_dim));
        let (ld, ls, lw, lo) = comptime!((plan.ld(), plan.ld_scores(), plan.ld_weights(), plan.ld_sums()));
        let heads = heads as usize;
        let kv_heads = kv_heads as usize;
        let item = CUBE_POS / kv_heads;
        if item < items as usize {
            let kv_head = CUBE_POS % kv_heads;
            let group = heads / kv_heads;
            let w = item * 7;
            let key = work[w] as usize;
            let count = work[w + 1] as usize;
            let base = work[w + 2] as usize;
            let from = work[w + 3] as usize;
            let to = work[w + 4] as usize;
            let position = work[w + 5] as usize;

            let mut q_tile = Shared::<[E]>::new_aligned_slice(comptime!(rows * ld), ALIGNMENT);
            let mut grad_tile = Shared::<[E]>::new_aligned_slice(comptime!(rows * ld), ALIGNMENT);
            let mut k_tile = Shared::<[E]>::new_aligned_slice(comptime!(keys * ld), ALIGNMENT);
            let mut v_tile = Shared::<[E]>::new_aligned_slice(comptime!(keys * ld), ALIGNMENT);
            let mut scores = Shared::<[f32]>::new_aligned_slice(comptime!(rows * ls), ALIGNMENT);
            let mut back = Shared::<[f32]>::new_aligned_slice(comptime!(rows * ls), ALIGNMENT);
            let mut weights = Shared::<[E]>::new_aligned_slice(comptime!(rows * lw), ALIGNMENT);
            let mut slopes = Shared::<[E]>::new_aligned_slice(comptime!(rows * lw), ALIGNMENT);
            let mut stage = Shared::<[f32]>::new_aligned_slice(comptime!(keys * lo), ALIGNMENT);
            let mut stats_tile = Shared::<[f32]>::new_slice(comptime!(2 * rows));
            load_rows::<E, E>(k, &mut k_tile, key, count, kv_heads, kv_head, keys, d, 1usize, ld);
            load_rows::<E, E>(v, &mut v_tile, key, count, kv_heads, kv_head, keys, d, 1usize, ld);
            let mut dk = zeros(plan.gather_transposed());
            let mut dv = zeros(plan.gather_transposed());

            for member in 0..group {
                let head = kv_head * group + member;
                let mut start = from;
                while start < to {
                    let valid = (to - start).min(rows);
                    let query = base + start;
                    sync_cube();
                    load_rows::<E, E>(q, &mut q_tile, query, valid, heads, head, rows, d, 1usize, ld);
                    load_rows::<E, E>(grad, &mut grad_tile, query, valid, heads, head, rows, d, 1usize, ld);
                    load_stats(stats, &mut stats_tile, query, valid, heads, head, rows);
                    sync_cube();
                    both_products::<E>(&q_tile, &k_tile, &v_tile, &grad_tile, &mut scores, &mut back, plan);
                    sync_cube();
                    let mut i = UNIT_POS as usize;
                    while i < comptime!(rows * keys) {
                        let (row, other) = (i / keys, i % keys);
                        let seen = row < valid && other < count && position + other <= start + row;
                        let (p, ds) = slope(&scores, &back, &stats_tile, row * ls + other, row, seen, scale, rows);
                        weights[row * lw + other] = E::cast_from(p);
                        slopes[row * lw + other] = E::cast_from(ds);
                        i += CUBE_DIM as usize;
                    }
                    sync_cube();
                    multiply::<E>(&slopes, &q_tile, &mut dk, plan.gather_transposed());
                    multiply::<E>(&weights, &grad_tile, &mut dv, plan.gather_transposed());
                    start += rows;
                }
            }

            let (product, half) = (comptime!(plan.gather_transposed()), dkv.len() / 2);
            write_rows::<E>(&dk, &mut stage, dkv, 0usize, key, count, kv_heads, kv_head, scale, product, lo);
            write_rows::<E>(&dv, &mut stage, dkv, half, key, count, kv_heads, kv_head, 1.0, product, lo);
        }
    }
}

/// dQ where `target` is as q, otherwise dK and dV one after the other.
pub(super) fn launch(
    [q, k, v, grad, stats]: [&CubeTensor; 5],
    work: &[Work],
    target: &CubeTensor,
    heads: Heads,
    plan: Plan,
    queries: bool,
) {
    let client = &q.client;
    let encoded = Numbers::i32(client, &Work::encode(work));
    let launch = if queries {
        kernels::attention_backward_q_tensor::launch
    } else {
        kernels::attention_backward_kv_tensor::launch
    };
    launch(
        client,
        cube_count(client, work.len() * if queries { heads.heads } else { heads.kv_heads }),
        CubeDim::new_1d(plan.units() as u32),
        arg(q),
        arg(k),
        arg(v),
        arg(grad),
        arg(stats),
        encoded.arg(),
        arg(target),
        heads.scale(),
        heads.heads as u32,
        heads.kv_heads as u32,
        work.len() as u32,
        plan,
        element(q.dtype),
    );
}
