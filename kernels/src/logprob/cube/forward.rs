use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::product::{Grid, logits};
use super::tensor::tensor_logits;
use crate::cube::{Limits, arg, cube_count, dims, element, empty};
use crate::fragment::{ALIGNMENT, Fragment};

/// Logit of a column beyond the vocabulary. WGSL has no infinities.
const ABSENT: f32 = -1e30;

pub(crate) mod kernels {
    use super::*;

    /// Softmax statistics of every hidden row over a share of the vocabulary, as `[splits, 4, n]`: largest logit m,
    /// Σ exp(z − m), Σ exp(z − m)·(z − m), and the target's logit (0 where the share does not hold it). Cube b works
    /// on share b % splits of row block b / splits.
    #[cube(launch)]
    pub(crate) fn logprob_partial<E: Float>(
        hidden: &[E],
        weight: &[E],
        targets: &[i32],
        partial: &mut [f32],
        inverse_temperature: f32,
        width: u32,
        vocabulary: u32,
        splits: u32,
        #[comptime] grid: Grid,
        #[define(E)] _dtype: ElemType,
    ) {
        let (rows, columns, unroll) = comptime!((grid.rows, grid.columns, grid.unroll));
        let (ru, cu) = comptime!((grid.row_units, grid.column_units));
        let (mr, mc) = comptime!((rows / ru, columns / cu));
        // A row's columns are swept by several units where there are more units than rows.
        let parts = comptime!(grid.parts());
        let sweep = comptime!(columns / parts);
        let n = targets.len();
        let vocabulary = vocabulary as usize;
        let splits = splits as usize;
        let row = CUBE_POS / splits * rows;
        if row < n {
            let split = CUBE_POS % splits;
            let tiles = vocabulary.div_ceil(columns);
            let share = tiles.div_ceil(splits);
            let mut column = split * share * columns;
            let end = ((split + 1) * share * columns).min(vocabulary);

            let lz = comptime!(grid.ld());
            let mut z_tile = Shared::<[f32]>::new_aligned_slice(comptime!(rows * lz), ALIGNMENT);
            let mut top = Shared::<[f32]>::new_slice(comptime!(rows * parts));
            let mut total = Shared::<[f32]>::new_slice(comptime!(rows * parts));
            let mut weighted = Shared::<[f32]>::new_slice(comptime!(rows * parts));
            let mut target = Shared::<[f32]>::new_slice(comptime!(rows * parts));
            let mut s = UNIT_POS as usize;
            while s < comptime!(rows * parts) {
                top[s] = f32::new(ABSENT);
                total[s] = f32::new(0.0);
                weighted[s] = f32::new(0.0);
                target[s] = f32::new(0.0);
                s += CUBE_DIM as usize;
            }
            while column < end {
                if comptime!(grid.fragment.is_some()) {
                    tensor_logits::<E>(hidden, weight, &mut z_tile, row, n, column, end, width as usize, grid);
                    let mut i = UNIT_POS as usize;
                    while i < comptime!(rows * columns) {
                        let c = i % columns;
                        let at = i / columns * lz + c;
                        let z = z_tile[at] * inverse_temperature;
                        z_tile[at] = select(column + c < end, z, f32::new(ABSENT));
                        i += CUBE_DIM as usize;
                    }
                } else {
                    let mut left = Shared::<[f32]>::new_slice(comptime!((rows + 1) * grid.depth));
                    let mut right = Shared::<[f32]>::new_slice(comptime!((columns + 1) * grid.depth));
                    let mut patch = Array::<f32>::new(comptime!(mr * mc));
                    logits::<E>(
                        hidden,
                        weight,
                        &mut left,
                        &mut right,
                        &mut patch,
                        row,
                        n,
                        column,
                        end,
                        width as usize,
                        grid,
                    );
                    let r0 = UNIT_POS as usize / cu;
                    let c0 = UNIT_POS as usize % cu;
                    #[unroll(unroll)]
                    for i in 0..mr {
                        #[unroll(unroll)]
                        for j in 0..mc {
                            let (r, c) = (r0 + i * ru, c0 + j * cu);
                            let z = patch[i * mc + j] * inverse_temperature;
                            z_tile[r * lz + c] = select(column + c < end, z, f32::new(ABSENT));
                        }
                    }
                }
                sync_cube();
                let mut s = UNIT_POS as usize;
                while s < comptime!(rows * parts) {
                    let r = s % rows;
                    let from = s / rows * sweep;
                    let at = r * lz + from;
                    let old = top[s];
                    let mut new = old;
                    for c in 0..sweep {
                        new = new.max(z_tile[at + c]);
                    }
                    let mut sum = f32::new(0.0);
                    let mut lever = f32::new(0.0);
                    for c in 0..sweep {
                        let z = z_tile[at + c];
                        let d = z - new;
                        let p = select(z > f32::new(ABSENT), d.exp(), f32::new(0.0));
                        sum += p;
                        lever += p * d;
                    }
                    let shift = old - new;
                    let factor = shift.exp();
                    // Where nothing was seen yet, shift is huge and all sums are 0.
                    let before = total[s];
                    weighted[s] = select(before > 0.0, factor * (weighted[s] + before * shift), f32::new(0.0)) + lever;
                    total[s] = before * factor + sum;
                    top[s] = new;
                    if row + r < n {
                        let wanted = targets[row + r] as usize;
                        let first = column + from;
                        if wanted >= first && wanted < first + sweep && wanted < end {
                            target[s] = z_tile[at + wanted - first];
                        }
                    }
                    s += CUBE_DIM as usize;
                }
                column += columns;
            }
            sync_cube();
            let mut r = UNIT_POS as usize;
            while r < rows {
                if row + r < n {
                    let mut m = top[r];
                    for p in 1..parts {
                        m = m.max(top[p * rows + r]);
                    }
                    let mut sum = f32::new(0.0);
                    let mut lever = f32::new(0.0);
                    let mut picked = f32::new(0.0);
                    for p in 0..parts {
                        let at = p * rows + r;
                        let shift = top[at] - m;
                        let factor = shift.exp();
                        if total[at] > 0.0 {
                            sum += total[at] * factor;
                            lever += factor * (weighted[at] + total[at] * shift);
                        }
                        picked += target[at];
                    }
                    let at = split * 4 * n + row + r;
                    partial[at] = m;
                    partial[at + n] = sum;
                    partial[at + 2 * n] = lever;
                    partial[at + 3 * n] = picked;
                }
                r += CUBE_DIM as usize;
            }
        }
    }

    /// Merges the shares into rows `[logprob; entropy; log-sum-exp]` of `[3, n]`. A unit per hidden row.
    #[cube(launch)]
    pub(crate) fn logprob_merge(partial: &[f32], out: &mut [f32], splits: u32) {
        let n = out.len() / 3;
        let i = ABSOLUTE_POS;
        if i < n {
            let mut m = f32::new(ABSENT);
            for s in 0..splits as usize {
                m = m.max(partial[s * 4 * n + i]);
            }
            let mut sum = f32::new(0.0);
            let mut lever = f32::new(0.0);
            let mut target = f32::new(0.0);
            for s in 0..splits as usize {
                let at = s * 4 * n + i;
                let shift = partial[at] - m;
                let factor = shift.exp();
                if partial[at + n] > 0.0 {
                    sum += partial[at + n] * factor;
                    lever += factor * (partial[at + 2 * n] + partial[at + n] * shift);
                }
                target += partial[at + 3 * n];
            }
            let log_sum = sum.ln();
            out[i] = target - m - log_sum;
            out[n + i] = log_sum - lever / sum;
            out[2 * n + i] = m + log_sum;
        }
    }
}

/// Shares of the vocabulary, so that few rows still fill a device.
fn splits(row_blocks: usize, tiles: usize, grid: Grid) -> usize {
    let cubes = if grid.unroll { 256 } else { 4 };
    let splits = (cubes / row_blocks.max(1)).clamp(1, tiles);
    // As many as have work: with whole tiles per share, the last ones could come out empty.
    tiles.div_ceil(tiles.div_ceil(splits))
}

/// Rows `[logprob; entropy; log-sum-exp]` of `[3, n]`, f32.
pub(crate) fn forward(
    hidden: &CubeTensor,
    weight: &CubeTensor,
    targets: &CubeTensor,
    temperature: f32,
    vocabulary: usize,
) -> CubeTensor {
    let [n, width] = dims(hidden);
    let out = empty(hidden, [3, n], DType::F32);
    if n == 0 {
        return out;
    }
    let client = &hidden.client;
    let limits = Limits::of(client);
    let grid = Fragment::of(client, hidden.dtype)
        .and_then(|fragment| Grid::on_tensor_cores(limits, fragment))
        .unwrap_or_else(|| Grid::choose(limits));
    let blocks = n.div_ceil(grid.rows);
    let splits = splits(blocks, vocabulary.div_ceil(grid.columns), grid);
    let partial = empty(hidden, [splits, 4, n], DType::F32);
    kernels::logprob_partial::launch(
        client,
        cube_count(client, blocks * splits),
        CubeDim::new_1d(grid.units() as u32),
        arg(hidden),
        arg(weight),
        arg(targets),
        arg(&partial),
        1.0 / temperature,
        width as u32,
        vocabulary as u32,
        splits as u32,
        grid,
        element(hidden.dtype),
    );
    kernels::logprob_merge::launch(
        client,
        cube_count(client, n.div_ceil(64)),
        CubeDim::new_1d(64),
        arg(&partial),
        arg(&out),
        splits as u32,
    );
    out
}
