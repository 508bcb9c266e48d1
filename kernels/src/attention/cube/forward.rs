use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::plan::Plan;
use super::tensor_forward;
use super::tile::{Pass, Tile, gather, load_rows, products};
use crate::Segments;
use crate::attention::problem::{Heads, Work};
use crate::cache::Spans;
use crate::cube::{Limits, Numbers, arg, cube_count, dense, dense_as, dims, element, empty};
use crate::fragment::Fragment;

/// Score of a key that must not be seen. WGSL has no infinities.
pub(super) const UNSEEN: f32 = -1e30;

pub(crate) mod kernels {
    use super::*;

    /// Output and log-sum-exp of blocks of query rows. Cube b works on item b / (heads / pack), head block
    /// b % (heads / pack).
    #[cube(launch)]
    pub(crate) fn attention_forward<E: Float, O: Float>(
        q: &[E],
        k: &[E],
        v: &[E],
        work: &[i32],
        out: &mut [O],
        lse: &mut [f32],
        scale: f32,
        heads: u32,
        kv_heads: u32,
        items: u32,
        #[comptime] tile: Tile,
        #[define(E, O)] _dtypes: [ElemType; 2],
    ) {
        let (rows, keys, d, pack) = comptime!((tile.rows, tile.keys, tile.head_dim, tile.pack));
        let (ru, ku, unroll) = comptime!((tile.row_units, tile.key_units, tile.unroll));
        let (mr, mk, md) = comptime!((rows / ru, keys / ku, d / ku));
        let heads = heads as usize;
        let kv_heads = kv_heads as usize;
        let blocks = heads / pack;
        let item = CUBE_POS / blocks;
        if item < items as usize {
            let head = CUBE_POS % blocks * pack;
            let kv_head = head / (heads / kv_heads);
            let w = item * 7;
            let query = work[w] as usize;
            let valid = work[w + 1] as usize * pack;
            let base = work[w + 2] as usize;
            let to = work[w + 4] as usize;
            let position = work[w + 5] as usize;
            let target = work[w + 6] as usize;

            let ld = comptime!(d + 1);
            let mut q_tile = Shared::<[f32]>::new_slice(comptime!(rows * ld));
            let mut k_tile = Shared::<[f32]>::new_slice(comptime!(keys * ld));
            let mut v_tile = Shared::<[f32]>::new_slice(comptime!(keys * ld));
            let mut scores = Shared::<[f32]>::new_slice(comptime!(rows * keys));
            let mut top = Shared::<[f32]>::new_slice(rows);
            let mut total = Shared::<[f32]>::new_slice(rows);
            let mut shrink = Shared::<[f32]>::new_slice(rows);

            load_rows::<E, f32>(q, &mut q_tile, query, valid, heads, head, rows, d, pack, ld);
            let mut r = UNIT_POS as usize;
            while r < rows {
                top[r] = f32::new(UNSEEN);
                total[r] = f32::new(0.0);
                r += CUBE_DIM as usize;
            }
            let r0 = UNIT_POS as usize / ku;
            let c0 = UNIT_POS as usize % ku;
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
                let mut patch = Array::<f32>::new(comptime!(mr * mk));
                products(&q_tile, &k_tile, &mut patch, tile);
                #[unroll(unroll)]
                for i in 0..mr {
                    let row = r0 + i * ru;
                    let last = position + row / pack;
                    #[unroll(unroll)]
                    for j in 0..mk {
                        let key = c0 + j * ku;
                        let seen = key < count && start + key <= last;
                        scores[row * keys + key] = select(seen, patch[i * mk + j] * scale, f32::new(UNSEEN));
                    }
                }
                sync_cube();
                let mut r = UNIT_POS as usize;
                while r < rows {
                    let old = top[r];
                    let mut new = old;
                    for key in 0..keys {
                        new = new.max(scores[r * keys + key]);
                    }
                    let mut sum = f32::new(0.0);
                    for key in 0..keys {
                        let s = scores[r * keys + key];
                        let p = select(s > f32::new(UNSEEN), (s - new).exp(), f32::new(0.0));
                        scores[r * keys + key] = p;
                        sum += p;
                    }
                    let factor = (old - new).exp();
                    total[r] = total[r] * factor + sum;
                    top[r] = new;
                    shrink[r] = factor;
                    r += CUBE_DIM as usize;
                }
                sync_cube();
                #[unroll(unroll)]
                for i in 0..mr {
                    let factor = shrink[r0 + i * ru];
                    #[unroll(unroll)]
                    for j in 0..md {
                        sums[i * md + j] *= factor;
                    }
                }
                gather(&scores, &v_tile, &mut sums, count, tile);
                start += keys;
            }
            sync_cube();

            #[unroll(unroll)]
            for i in 0..mr {
                let row = r0 + i * ru;
                if row < valid {
                    let sum = total[row];
                    // A row without a visible key (an empty share of a split) weighs nothing.
                    let inverse = select(sum > 0.0, 1.0 / sum, f32::new(0.0));
                    let at = (target + row / pack) * heads + head + row % pack;
                    #[unroll(unroll)]
                    for j in 0..md {
                        out[at * d + c0 + j * ku] = O::cast_from(sums[i * md + j] * inverse);
                    }
                    if c0 == 0 {
                        lse[at] = select(sum > 0.0, top[row] + sum.ln(), f32::new(UNSEEN));
                    }
                }
            }
        }
    }

    /// Merges the outputs of `splits` shares of the keys, weighted by their log-sum-exps. A unit per output number.
    #[cube(launch)]
    pub(crate) fn attention_merge<E: Float>(
        parts: &[f32],
        lse: &[f32],
        out: &mut [E],
        splits: u32,
        #[comptime] head_dim: usize,
        #[define(E)] _dtype: ElemType,
    ) {
        let rows = out.len() / head_dim;
        if ABSOLUTE_POS < out.len() {
            let row = ABSOLUTE_POS / head_dim;
            let mut top = f32::new(UNSEEN);
            for s in 0..splits as usize {
                top = top.max(lse[s * rows + row]);
            }
            let mut sum = f32::new(0.0);
            let mut value = f32::new(0.0);
            for s in 0..splits as usize {
                let weight = (lse[s * rows + row] - top).exp();
                sum += weight;
                value += weight * parts[s * rows * head_dim + ABSOLUTE_POS];
            }
            out[ABSOLUTE_POS] = E::cast_from(value / sum);
        }
    }
}

fn launch(tensors: [&CubeTensor; 3], work: &[Work], out: &CubeTensor, lse: &CubeTensor, heads: Heads, tile: Tile) {
    let [q, k, v] = tensors;
    let client = &q.client;
    let encoded = Numbers::i32(client, &Work::encode(work));
    kernels::attention_forward::launch(
        client,
        cube_count(client, work.len() * (heads.heads / tile.pack)),
        CubeDim::new_1d(tile.units() as u32),
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
        tile,
        [element(q.dtype), element(out.dtype)],
    );
}

/// Output `[tokens, heads, head_dim]` and log-sum-exp `[tokens, heads]` of packed sequences.
pub(crate) fn forward(q: CubeTensor, k: CubeTensor, v: CubeTensor, segments: &Segments) -> (CubeTensor, CubeTensor) {
    let (q, dtype) = (dense(q), k.dtype);
    let (q, k, v) = (dense_as(q, dtype), dense(k), dense_as(v, dtype));
    let ([tokens, heads, head_dim], [_, kv_heads, _]) = (dims(&q), dims(&k));
    let heads = Heads { heads, kv_heads, head_dim };
    let out = empty(&q, [tokens, heads.heads, head_dim], dtype);
    let lse = empty(&q, [tokens, heads.heads], DType::F32);
    if tokens > 0 {
        let limits = Limits::of(&q.client);
        let plan = Fragment::of(&q.client, dtype).and_then(|f| Plan::choose(Pass::Forward, head_dim, limits, f));
        if let Some(plan) = plan {
            tensor_forward::launch([&q, &k, &v], &Work::packed(segments, plan.rows), &out, &lse, heads, plan);
        } else {
            let tile = Tile::choose(Pass::Forward, head_dim, 1, limits).expect("checked: heads fit");
            launch([&q, &k, &v], &Work::packed(segments, tile.rows), &out, &lse, heads, tile);
        }
    }
    (out, lse)
}

/// How many shares the keys of every query block are cut into so that short batches still fill a device.
fn splits(blocks: usize, longest: usize, tile: Tile) -> usize {
    const CUBES: usize = 256;
    const KEYS: usize = 256;
    if !tile.unroll {
        return 1;
    }
    CUBES.div_ceil(blocks.max(1)).min(longest.div_ceil(KEYS)).max(1)
}

/// Output `[tokens, heads, head_dim]` of new tokens against their cache rows `[rows, capacity, kv_heads, head_dim]`.
pub(crate) fn forward_cached(q: CubeTensor, keys: CubeTensor, values: CubeTensor, spans: &Spans) -> CubeTensor {
    let dtype = keys.dtype;
    let (q, keys, values) = (dense_as(q, dtype), dense(keys), dense_as(values, dtype));
    let ([tokens, heads, head_dim], [_, capacity, kv_heads, _]) = (dims(&q), dims(&keys));
    let heads = Heads { heads, kv_heads, head_dim };
    let out = empty(&q, [tokens, heads.heads, head_dim], dtype);
    if tokens == 0 {
        return out;
    }
    let limits = Limits::of(&q.client);
    let tile = Some(heads.group())
        .filter(|group| *group <= 8)
        .and_then(|group| Tile::choose(Pass::Forward, head_dim, group, limits))
        .or_else(|| Tile::choose(Pass::Forward, head_dim, 1, limits))
        .expect("checked: heads fit");
    let whole = Work::spans(spans, capacity, tile.tokens(), 1);
    let longest = whole.iter().map(|w| w.to).max().unwrap_or(0);
    let splits = splits(whole.len() * heads.heads / tile.pack, longest, tile);
    if splits == 1 {
        let lse = empty(&q, [tokens, heads.heads], DType::F32);
        launch([&q, &keys, &values], &whole, &out, &lse, heads, tile);
        return out;
    }
    let work = Work::spans(spans, capacity, tile.tokens(), splits);
    let parts = empty(&q, [splits, tokens, heads.heads, head_dim], DType::F32);
    let lse = empty(&q, [splits, tokens, heads.heads], DType::F32);
    launch([&q, &keys, &values], &work, &parts, &lse, heads, tile);
    kernels::attention_merge::launch(
        &q.client,
        cube_count(&q.client, (tokens * heads.heads * head_dim).div_ceil(64)),
        CubeDim::new_1d(64),
        arg(&parts),
        arg(&lse),
        arg(&out),
        splits as u32,
        head_dim,
        element(dtype),
    );
    out
}
