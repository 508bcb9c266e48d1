//! Products on tensor cores, see [`crate::fragment`]. Gradients of logits are kept in half precision there, scaled by a
//! power of two so that those of unlikely ids do not vanish.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::product::{Grid, Left};
use crate::cube::{arg, cube_count, element, empty};
use crate::fragment::{ALIGNMENT, multiply, store, zeros};

/// Upstream gradients are scaled to at most this; a logit's own is at most some 30 times larger, and f16 ends at 65,504.
const LARGEST: f32 = 1024.0;
/// Units that look for the largest upstream gradient.
const UNITS: usize = 64;

/// Copies a tile of a matrix into shared memory, zeros outside. Element (line, k) of the matrix is at line·`stride` + k
/// when `along`, at k·`stride` + line otherwise, and lies the same way in shared memory, `ld` apart.
#[cube]
fn load<E: Float>(
    source: &[E],
    target: &mut Shared<[E]>,
    line: usize,
    lines_end: usize,
    depth: usize,
    depth_end: usize,
    stride: usize,
    #[comptime] along: bool,
    #[comptime] lines: usize,
    #[comptime] depths: usize,
    #[comptime] ld: usize,
) {
    let mut i = UNIT_POS as usize;
    while i < comptime!(lines * depths) {
        let l = if comptime!(along) { i / depths } else { i % lines };
        let k = if comptime!(along) { i % depths } else { i / lines };
        let mut value = E::new(0.0);
        if line + l < lines_end && depth + k < depth_end {
            let at = if comptime!(along) { (line + l) * stride + depth + k } else { (depth + k) * stride + line + l };
            value = source[at];
        }
        let at = if comptime!(along) { l * ld + k } else { k * ld + l };
        target[at] = value;
        i += CUBE_DIM as usize;
    }
}

/// The tile of hidden·weightᵀ at (`row`, `column`), into shared memory; the whole cube may read it afterwards.
#[cube]
pub(super) fn tensor_logits<E: Float>(
    hidden: &[E],
    weight: &[E],
    z_tile: &mut Shared<[f32]>,
    row: usize,
    row_end: usize,
    column: usize,
    column_end: usize,
    width: usize,
    #[comptime] grid: Grid,
) {
    let product = comptime!(grid.product([true, true]));
    let (ll, lr) = comptime!((product.left.ld, product.right.ld));
    let (rows, columns, depth) = comptime!((grid.rows, grid.columns, grid.depth));
    let mut left = Shared::<[E]>::new_aligned_slice(comptime!(rows * ll), ALIGNMENT);
    let mut right = Shared::<[E]>::new_aligned_slice(comptime!(columns * lr), ALIGNMENT);
    let mut sums = zeros(product);
    let mut k = 0usize;
    while k < width {
        sync_cube();
        load::<E>(hidden, &mut left, row, row_end, k, width, width, true, rows, depth, ll);
        load::<E>(weight, &mut right, column, column_end, k, width, width, true, columns, depth, lr);
        sync_cube();
        multiply::<E>(&left, &right, &mut sums, product);
        k += depth;
    }
    store(&sums, z_tile, comptime!(grid.ld()), product);
    sync_cube();
}

pub(crate) mod kernels {
    use super::*;

    /// The power of two that brings the largest upstream gradient to between half of [`LARGEST`] and all of it. One
    /// cube.
    #[cube(launch)]
    pub(crate) fn gradient_scale(grad: &[f32], scale: &mut [f32]) {
        let unit = UNIT_POS as usize;
        let mut largest = Shared::<[f32]>::new_slice(UNITS);
        let mut own = f32::new(0.0);
        let mut i = unit;
        while i < grad.len() {
            own = own.max(grad[i].abs());
            i += UNITS;
        }
        largest[unit] = own;
        sync_cube();
        if unit == 0 {
            for other in 1..UNITS {
                own = own.max(largest[other]);
            }
            let mut factor = (1.0f32).runtime();
            // Not zero, infinite or so small that its scale would be infinite.
            if own > 1e-30 && own < 1e30 {
                while own * factor > LARGEST {
                    factor *= 0.5;
                }
                while own * factor <= LARGEST / 2.0 {
                    factor *= 2.0;
                }
            }
            scale[0] = factor;
        }
    }

    /// As `logprob_slopes`, with products on tensor cores and its results in half precision, times `scale`.
    #[cube(launch)]
    pub(crate) fn logprob_slopes_tensor<E: Float>(
        hidden: &[E],
        weight: &[E],
        targets: &[i32],
        out: &[f32],
        grad: &[f32],
        scale: &[f32],
        dz: &mut [E],
        inverse_temperature: f32,
        width: u32,
        row_from: u32,
        rows: u32,
        column_from: u32,
        columns: u32,
        #[comptime] grid: Grid,
        #[define(E)] _dtype: ElemType,
    ) {
        let n = targets.len();
        let rows = rows as usize;
        let columns = columns as usize;
        let across = columns.div_ceil(grid.columns);
        let row = CUBE_POS / across * grid.rows;
        if row < rows {
            let column = CUBE_POS % across * grid.columns;
            let row_from = row_from as usize;
            let column_from = column_from as usize;
            let lz = comptime!(grid.ld());
            let mut z_tile = Shared::<[f32]>::new_aligned_slice(comptime!(grid.rows * lz), ALIGNMENT);
            tensor_logits::<E>(
                hidden,
                weight,
                &mut z_tile,
                row_from + row,
                row_from + rows,
                column_from + column,
                column_from + columns,
                width as usize,
                grid,
            );
            let factor = scale[0];
            let mut i = UNIT_POS as usize;
            while i < comptime!(grid.rows * grid.columns) {
                let (r, c) = (row + i / grid.columns, column + i % grid.columns);
                if r < rows && c < columns {
                    let at = row_from + r;
                    let z = z_tile[i / grid.columns * lz + i % grid.columns];
                    let logp = z * inverse_temperature - out[2 * n + at];
                    let slope = f32::new(0.0) - logp.exp() * (grad[at] + grad[n + at] * (logp + out[n + at]));
                    let slope = select(column_from + c == targets[at] as usize, slope + grad[at], slope);
                    dz[r * columns + c] = E::cast_from(slope * factor);
                }
                i += CUBE_DIM as usize;
            }
        }
    }

    /// As `multiply_add`, with products on tensor cores: out\[m, n\] += factor/scale·a·b.
    #[cube(launch)]
    pub(crate) fn multiply_add_tensor<E: Float>(
        a: &[E],
        b: &[E],
        scale: &[f32],
        out: &mut [f32],
        factor: f32,
        rows: u32,
        columns: u32,
        depth: u32,
        a_stride: u32,
        b_from: u32,
        out_from: u32,
        #[comptime] a_along: bool,
        #[comptime] grid: Grid,
        #[define(E)] _dtype: ElemType,
    ) {
        let product = comptime!(grid.product([a_along, false]));
        let (ll, lr, lz) = comptime!((product.left.ld, product.right.ld, grid.ld()));
        let left_lines = comptime!(if a_along { grid.rows } else { grid.depth });
        let rows = rows as usize;
        let columns = columns as usize;
        let depth = depth as usize;
        let across = columns.div_ceil(grid.columns);
        let row = CUBE_POS / across * grid.rows;
        if row < rows {
            let column = CUBE_POS % across * grid.columns;
            let mut left = Shared::<[E]>::new_aligned_slice(comptime!(left_lines * ll), ALIGNMENT);
            let mut right = Shared::<[E]>::new_aligned_slice(comptime!(grid.depth * lr), ALIGNMENT);
            let mut result = Shared::<[f32]>::new_aligned_slice(comptime!(grid.rows * lz), ALIGNMENT);
            let mut sums = zeros(product);
            let b = &b[b_from as usize..b.len()];
            let mut k = 0usize;
            while k < depth {
                sync_cube();
                load::<E>(a, &mut left, row, rows, k, depth, a_stride as usize, a_along, grid.rows, grid.depth, ll);
                load::<E>(b, &mut right, column, columns, k, depth, columns, false, grid.columns, grid.depth, lr);
                sync_cube();
                multiply::<E>(&left, &right, &mut sums, product);
                k += grid.depth;
            }
            store(&sums, &mut result, lz, product);
            sync_cube();
            let factor = factor / scale[0];
            let mut i = UNIT_POS as usize;
            while i < comptime!(grid.rows * grid.columns) {
                let (r, c) = (row + i / grid.columns, column + i % grid.columns);
                if r < rows && c < columns {
                    let value = result[i / grid.columns * lz + i % grid.columns] * factor;
                    out[out_from as usize + r * columns + c] += value;
                }
                i += CUBE_DIM as usize;
            }
        }
    }
}

/// What gradients of logits are multiplied with before they are rounded, `[1]`.
pub(super) fn gradient_scale(grad: &CubeTensor) -> CubeTensor {
    let scale = empty(grad, [1], DType::F32);
    let count = CubeCount::Static(1, 1, 1);
    kernels::gradient_scale::launch(&grad.client, count, CubeDim::new_1d(UNITS as u32), arg(grad), arg(&scale));
    scale
}

/// out\[m, n\] (from number `out_from` on) += factor/scale · left · b\[k, n\] (from number `b_from` on).
pub(super) fn multiply_add(
    left: Left<'_>,
    (b, b_from): (&CubeTensor, usize),
    (out, out_from): (&CubeTensor, usize),
    [rows, columns, depth]: [usize; 3],
    (factor, scale): (f32, &CubeTensor),
    grid: Grid,
) {
    let client = &out.client;
    kernels::multiply_add_tensor::launch(
        client,
        cube_count(client, rows.div_ceil(grid.rows) * columns.div_ceil(grid.columns)),
        CubeDim::new_1d(grid.units() as u32),
        arg(left.tensor),
        arg(b),
        arg(scale),
        arg(out),
        factor,
        rows as u32,
        columns as u32,
        depth as u32,
        left.stride as u32,
        b_from as u32,
        out_from as u32,
        !left.transposed,
        grid,
        element(b.dtype),
    );
}
