use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::plan::Plan;
use super::tensor_backward;
use super::tile::{Pass, Tile, gather, gather_transposed, load_rows, products};
use crate::Segments;
use crate::attention::problem::{Heads, Work};
use crate::cube::{Limits, Numbers, arg, cube_count, dense, dense_as, dims, element, empty, part};
use crate::fragment::Fragment;

/// Log-sum-exp and D of the `valid` query rows from token `first` on.
#[cube]
pub(super) fn load_stats(
    stats: &[f32],
    target: &mut Shared<[f32]>,
    first: usize,
    valid: usize,
    heads: usize,
    head: usize,
    #[comptime] rows: usize,
) {
    let mut r = UNIT_POS as usize;
    while r < rows {
        let mut log_sum = f32::new(0.0);
        let mut delta = f32::new(0.0);
        if r < valid {
            let at = (first + r) * heads + head;
            log_sum = stats[at];
            delta = stats[stats.len() / 2 + at];
        }
        target[r] = log_sum;
        target[rows + r] = delta;
        r += CUBE_DIM as usize;
    }
}

pub(crate) mod kernels {
    use super::*;

    /// The statistics the other two kernels read: row 0 the log-sum-exps, row 1 D = ⟨dO, O⟩. A unit per row.
    #[cube(launch)]
    pub(crate) fn attention_delta<E: Float>(
        out: &[E],
        grad: &[E],
        lse: &[f32],
        stats: &mut [f32],
        #[comptime] head_dim: usize,
        #[define(E)] _dtype: ElemType,
    ) {
        let row = ABSOLUTE_POS;
        if row < lse.len() {
            let mut sum = f32::new(0.0);
            for c in 0..head_dim {
                sum += f32::cast_from(out[row * head_dim + c]) * f32::cast_from(grad[row * head_dim + c]);
            }
            stats[row] = lse[row];
            stats[lse.len() + row] = sum;
        }
    }

    /// P = exp(S − L) and dS = P∘(dO·Vᵀ − D) of a block of query rows against a block of keys, into shared memory.
    #[cube]
    fn recompute(
        q_tile: &Shared<[f32]>,
        k_tile: &Shared<[f32]>,
        v_tile: &Shared<[f32]>,
        grad_tile: &Shared<[f32]>,
        stats_tile: &Shared<[f32]>,
        weights: &mut Shared<[f32]>,
        slopes: &mut Shared<[f32]>,
        scale: f32,
        // Position of the first query row and of the first key; how many of each there are.
        position: usize,
        start: usize,
        valid: usize,
        count: usize,
        #[comptime] tile: Tile,
    ) {
        let (rows, keys, unroll) = comptime!((tile.rows, tile.keys, tile.unroll));
        let (ru, ku) = comptime!((tile.row_units, tile.key_units));
        let (mr, mk) = comptime!((rows / ru, keys / ku));
        let r0 = UNIT_POS as usize / ku;
        let c0 = UNIT_POS as usize % ku;
        let mut scores = Array::<f32>::new(comptime!(mr * mk));
        products(q_tile, k_tile, &mut scores, tile);
        let mut back = Array::<f32>::new(comptime!(mr * mk));
        products(grad_tile, v_tile, &mut back, tile);
        #[unroll(unroll)]
        for i in 0..mr {
            let row = r0 + i * ru;
            let log_sum = stats_tile[row];
            let delta = stats_tile[rows + row];
            #[unroll(unroll)]
            for j in 0..mk {
                let key = c0 + j * ku;
                let seen = row < valid && key < count && start + key <= position + row;
                let p = select(seen, (scores[i * mk + j] * scale - log_sum).exp(), f32::new(0.0));
                weights[row * keys + key] = p;
                slopes[row * keys + key] = select(seen, p * (back[i * mk + j] - delta), f32::new(0.0));
            }
        }
    }

    /// dQ = scale·dS·K. Cube b works on item b / heads, head b % heads.
    #[cube(launch)]
    pub(crate) fn attention_backward_q<E: Float>(
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
        #[comptime] tile: Tile,
        #[define(E)] _dtype: ElemType,
    ) {
        let (rows, keys, d) = comptime!((tile.rows, tile.keys, tile.head_dim));
        let (ru, ku, unroll) = comptime!((tile.row_units, tile.key_units, tile.unroll));
        let (mr, md) = comptime!((rows / ru, d / ku));
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

            let ld = comptime!(d + 1);
            let mut q_tile = Shared::<[f32]>::new_slice(comptime!(rows * ld));
            let mut grad_tile = Shared::<[f32]>::new_slice(comptime!(rows * ld));
            let mut k_tile = Shared::<[f32]>::new_slice(comptime!(keys * ld));
            let mut v_tile = Shared::<[f32]>::new_slice(comptime!(keys * ld));
            let mut weights = Shared::<[f32]>::new_slice(comptime!(rows * keys));
            let mut slopes = Shared::<[f32]>::new_slice(comptime!(rows * keys));
            let mut stats_tile = Shared::<[f32]>::new_slice(comptime!(2 * rows));
            load_rows::<E, f32>(q, &mut q_tile, query, valid, heads, head, rows, d, 1usize, ld);
            load_rows::<E, f32>(grad, &mut grad_tile, query, valid, heads, head, rows, d, 1usize, ld);
            load_stats(stats, &mut stats_tile, query, valid, heads, head, rows);
            let mut sums = Array::<f32>::new(comptime!(mr * md));
            #[unroll(unroll)]
            for i in 0..comptime!(mr * md) {
                sums[i] = f32::new(0.0);
            }

            let mut start = work[w + 3] as usize;
            while start < to {
                let count = (to - start).min(keys);
                sync_cube();
                load_rows::<E, f32>(k, &mut k_tile, base + start, count, kv_heads, kv_head, keys, d, 1usize, ld);
                load_rows::<E, f32>(v, &mut v_tile, base + start, count, kv_heads, kv_head, keys, d, 1usize, ld);
                sync_cube();
                recompute(
                    &q_tile,
                    &k_tile,
                    &v_tile,
                    &grad_tile,
                    &stats_tile,
                    &mut weights,
                    &mut slopes,
                    scale,
                    position,
                    start,
                    valid,
                    count,
                    tile,
                );
                sync_cube();
                gather(&slopes, &k_tile, &mut sums, count, tile);
                start += keys;
            }

            let r0 = UNIT_POS as usize / ku;
            let c0 = UNIT_POS as usize % ku;
            #[unroll(unroll)]
            for i in 0..mr {
                let row = r0 + i * ru;
                if row < valid {
                    let at = ((query + row) * heads + head) * d;
                    #[unroll(unroll)]
                    for j in 0..md {
                        dq[at + c0 + j * ku] = E::cast_from(sums[i * md + j] * scale);
                    }
                }
            }
        }
    }

    /// dK = scale·dSᵀ·Q and dV = Pᵀ·dO, one after the other in `dkv`, summed over the heads of a group. Cube b works
    /// on item b / kv_heads, head b % kv_heads.
    #[cube(launch)]
    pub(crate) fn attention_backward_kv<E: Float>(
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
        #[comptime] tile: Tile,
        #[define(E)] _dtype: ElemType,
    ) {
        let (rows, keys, d) = comptime!((tile.rows, tile.keys, tile.head_dim));
        let (ru, ku, unroll) = comptime!((tile.row_units, tile.key_units, tile.unroll));
        let (mk, md) = comptime!((keys / ru, d / ku));
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

            let ld = comptime!(d + 1);
            let mut q_tile = Shared::<[f32]>::new_slice(comptime!(rows * ld));
            let mut grad_tile = Shared::<[f32]>::new_slice(comptime!(rows * ld));
            let mut k_tile = Shared::<[f32]>::new_slice(comptime!(keys * ld));
            let mut v_tile = Shared::<[f32]>::new_slice(comptime!(keys * ld));
            let mut weights = Shared::<[f32]>::new_slice(comptime!(rows * keys));
            let mut slopes = Shared::<[f32]>::new_slice(comptime!(rows * keys));
            let mut stats_tile = Shared::<[f32]>::new_slice(comptime!(2 * rows));
            load_rows::<E, f32>(k, &mut k_tile, key, count, kv_heads, kv_head, keys, d, 1usize, ld);
            load_rows::<E, f32>(v, &mut v_tile, key, count, kv_heads, kv_head, keys, d, 1usize, ld);
            let mut dk = Array::<f32>::new(comptime!(mk * md));
            let mut dv = Array::<f32>::new(comptime!(mk * md));
            #[unroll(unroll)]
            for i in 0..comptime!(mk * md) {
                dk[i] = f32::new(0.0);
                dv[i] = f32::new(0.0);
            }

            for member in 0..group {
                let head = kv_head * group + member;
                let mut start = from;
                while start < to {
                    let valid = (to - start).min(rows);
                    let query = base + start;
                    sync_cube();
                    load_rows::<E, f32>(q, &mut q_tile, query, valid, heads, head, rows, d, 1usize, ld);
                    load_rows::<E, f32>(grad, &mut grad_tile, query, valid, heads, head, rows, d, 1usize, ld);
                    load_stats(stats, &mut stats_tile, query, valid, heads, head, rows);
                    sync_cube();
                    recompute(
                        &q_tile,
                        &k_tile,
                        &v_tile,
                        &grad_tile,
                        &stats_tile,
                        &mut weights,
                        &mut slopes,
                        scale,
                        start,
                        position,
                        valid,
                        count,
                        tile,
                    );
                    sync_cube();
                    gather_transposed(&slopes, &q_tile, &mut dk, valid, tile);
                    gather_transposed(&weights, &grad_tile, &mut dv, valid, tile);
                    start += rows;
                }
            }

            let k0 = UNIT_POS as usize / ku;
            let c0 = UNIT_POS as usize % ku;
            let half = dkv.len() / 2;
            #[unroll(unroll)]
            for i in 0..mk {
                let row = k0 + i * ru;
                if row < count {
                    let at = ((key + row) * kv_heads + kv_head) * d;
                    #[unroll(unroll)]
                    for j in 0..md {
                        dkv[at + c0 + j * ku] = E::cast_from(dk[i * md + j] * scale);
                        dkv[half + at + c0 + j * ku] = E::cast_from(dv[i * md + j]);
                    }
                }
            }
        }
    }
}

/// Gradients of q, k and v.
pub(crate) fn backward(
    [q, k, v, out, grad]: [CubeTensor; 5],
    lse: CubeTensor,
    segments: &Segments,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let dtype = k.dtype;
    let [q, v, out, grad] = [q, v, out, grad].map(|t| dense_as(t, dtype));
    let (k, lse) = (dense(k), dense_as(lse, DType::F32));
    let ([tokens, heads, head_dim], [_, kv_heads, _]) = (dims(&q), dims(&k));
    let heads = Heads { heads, kv_heads, head_dim };
    let dq = empty(&q, [tokens, heads.heads, head_dim], dtype);
    let dkv = empty(&q, [2 * tokens, kv_heads, head_dim], dtype);
    if tokens > 0 {
        let (client, limits) = (&q.client, Limits::of(&q.client));
        let stats = empty(&q, [2, tokens, heads.heads], DType::F32);
        kernels::attention_delta::launch(
            client,
            cube_count(client, (tokens * heads.heads).div_ceil(64)),
            CubeDim::new_1d(64),
            arg(&out),
            arg(&grad),
            arg(&lse),
            arg(&stats),
            head_dim,
            element(dtype),
        );
        let fragment = Fragment::of(client, dtype);
        let plan = |pass| fragment.and_then(|f| Plan::choose(pass, head_dim, limits, f));
        if let Some(plan) = plan(Pass::Query) {
            let work = Work::packed(segments, plan.rows);
            tensor_backward::launch([&q, &k, &v, &grad, &stats], &work, &dq, heads, plan, true);
        } else {
            let tile = Tile::choose(Pass::Query, head_dim, 1, limits).expect("checked: heads fit");
            let work = Work::packed(segments, tile.rows);
            let encoded = Numbers::i32(client, &Work::encode(&work));
            kernels::attention_backward_q::launch(
                client,
                cube_count(client, work.len() * heads.heads),
                CubeDim::new_1d(tile.units() as u32),
                arg(&q),
                arg(&k),
                arg(&v),
                arg(&grad),
                arg(&stats),
                encoded.arg(),
                arg(&dq),
                heads.scale(),
                heads.heads as u32,
                kv_heads as u32,
                work.len() as u32,
                tile,
                element(dtype),
            );
        }
        if let Some(plan) = plan(Pass::Keys) {
            let work = Work::keys(segments, plan.keys);
            tensor_backward::launch([&q, &k, &v, &grad, &stats], &work, &dkv, heads, plan, false);
        } else {
            let tile = Tile::choose(Pass::Keys, head_dim, 1, limits).expect("checked: heads fit");
            let work = Work::keys(segments, tile.keys);
            let encoded = Numbers::i32(client, &Work::encode(&work));
            kernels::attention_backward_kv::launch(
                client,
                cube_count(client, work.len() * kv_heads),
                CubeDim::new_1d(tile.units() as u32),
                arg(&q),
                arg(&k),
                arg(&v),
                arg(&grad),
                arg(&stats),
                encoded.arg(),
                arg(&dkv),
                heads.scale(),
                heads.heads as u32,
                kv_heads as u32,
                work.len() as u32,
                tile,
                element(dtype),
            );
        }
    }
    let (dk, dv) = (part(dkv.clone(), 0..tokens), part(dkv, tokens..2 * tokens));
    (dq, dk, dv)
}
