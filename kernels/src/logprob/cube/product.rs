//! Tiled matrix products: a unit keeps a strided patch of the result in registers, operands pass through shared memory.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::cube::{Limits, arg, cube_count, element};
use crate::fragment::{FLOAT_PAD, Fragment, HALF_PAD, Operand, Product};

/// How a cube cuts a product. Known when the kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    /// Rows of the result per cube.
    pub(crate) rows: usize,
    /// Columns of the result per cube.
    pub(crate) columns: usize,
    /// Depth of the operands' tiles in shared memory.
    pub(crate) depth: usize,
    /// Units along the rows.
    pub(crate) row_units: usize,
    /// Units along the columns.
    pub(crate) column_units: usize,
    /// Whether a unit's patch is unrolled into registers.
    pub(crate) unroll: bool,
    /// What tensor cores multiply, where they do; units then share the result out by planes.
    pub(crate) fragment: Option<Fragment>,
}

impl Grid {
    /// The largest grid that fits the device.
    pub(crate) fn choose(limits: Limits) -> Grid {
        let grid = |rows, columns, depth, row_units, column_units, unroll| Grid {
            rows,
            columns,
            depth,
            row_units,
            column_units,
            unroll,
            fragment: None,
        };
        match limits.units {
            128.. => grid(64, 64, 16, 8, 16, true),
            64.. => grid(32, 32, 16, 8, 8, true),
            _ => grid(16, 32, 32, limits.narrow_units(), 1, false),
        }
    }

    /// The grid for tensor cores, or `None` where fragments or planes do not divide it evenly.
    pub(crate) fn on_tensor_cores(limits: Limits, fragment: Fragment) -> Option<Grid> {
        // Depth, and units along rows and columns. The first spills no registers (`RESOURCES.md`).
        [(64, 16, 16), (16, 8, 16)]
            .into_iter()
            .map(|(depth, row_units, column_units)| Grid {
                rows: 64,
                columns: 64,
                depth,
                row_units,
                column_units,
                unroll: true,
                fragment: Some(fragment),
            })
            .find(|grid| {
                grid.units() <= limits.units
                    && grid.units().is_multiple_of(fragment.plane)
                    && grid.product([true, true]).whole()
                    && grid.product([false, false]).whole()
                    && grid.bytes() <= limits.shared * size_of::<f32>()
            })
    }

    /// Units of a cube.
    pub(crate) fn units(&self) -> usize {
        self.row_units * self.column_units
    }

    /// Distance of rows of the result in shared memory.
    pub(crate) fn ld(&self) -> usize {
        self.columns + if self.fragment.is_some() { FLOAT_PAD } else { 1 }
    }

    /// Units that share a row of logits.
    pub(super) fn parts(&self) -> usize {
        (self.units() / self.rows).max(1)
    }

    /// The product on tensor cores, of operands whose lines in shared memory run along the depth or across it.
    pub(super) fn product(&self, along: [bool; 2]) -> Product {
        let fragment = self.fragment.expect("asked on the way to tensor cores");
        let operand =
            |along: bool, lines: usize| Operand { ld: HALF_PAD + if along { self.depth } else { lines }, along };
        Product {
            rows: self.rows,
            columns: self.columns,
            depth: self.depth,
            left: operand(along[0], self.rows),
            right: operand(along[1], self.columns),
            planes: self.units() / fragment.plane,
            fragment,
        }
    }

    /// Shared memory of the kernel on tensor cores that needs most.
    fn bytes(&self) -> usize {
        let halves = (self.rows + self.columns) * (self.depth + HALF_PAD);
        halves * 2 + self.rows * self.ld() * 4 + 4 * self.rows * self.parts() * 4
    }
}

/// Copies a tile of a matrix into shared memory as `[depth, lines]`, zeros outside. Element (line, k) of the matrix is
/// at line·`stride` + k when `along`, at k·`stride` + line otherwise; either way neighbours in memory are read by
/// neighbouring units.
#[cube]
pub(super) fn load<E: Float>(
    source: &[E],
    target: &mut Shared<[f32]>,
    line: usize,
    lines_end: usize,
    depth: usize,
    depth_end: usize,
    stride: usize,
    #[comptime] along: bool,
    #[comptime] lines: usize,
    #[comptime] depths: usize,
) {
    let ld = comptime!(lines + 1);
    let mut i = UNIT_POS as usize;
    while i < comptime!(lines * depths) {
        let l = if comptime!(along) { i / depths } else { i % lines };
        let k = if comptime!(along) { i % depths } else { i / lines };
        let mut value = f32::new(0.0);
        if line + l < lines_end && depth + k < depth_end {
            let at = if comptime!(along) { (line + l) * stride + depth + k } else { (depth + k) * stride + line + l };
            value = f32::cast_from(source[at]);
        }
        target[k * ld + l] = value;
        i += CUBE_DIM as usize;
    }
}

/// Adds this unit's patch of the product of two tiles in shared memory.
#[cube]
pub(super) fn multiply(
    left: &mut Shared<[f32]>,
    right: &mut Shared<[f32]>,
    patch: &mut Array<f32>,
    #[comptime] grid: Grid,
) {
    let (ru, cu, unroll) = comptime!((grid.row_units, grid.column_units, grid.unroll));
    let (mr, mc) = comptime!((grid.rows / grid.row_units, grid.columns / grid.column_units));
    let (ll, lr) = comptime!((grid.rows + 1, grid.columns + 1));
    let r0 = UNIT_POS as usize / cu;
    let c0 = UNIT_POS as usize % cu;
    let mut a = Array::<f32>::new(mr);
    for k in 0..comptime!(grid.depth) {
        #[unroll(unroll)]
        for i in 0..mr {
            a[i] = left[k * ll + r0 + i * ru];
        }
        #[unroll(unroll)]
        for j in 0..mc {
            let b = right[k * lr + c0 + j * cu];
            #[unroll(unroll)]
            for i in 0..mr {
                patch[i * mc + j] += a[i] * b;
            }
        }
    }
}

/// This unit's patch of hidden·weightᵀ for the tile at (`row`, `column`).
#[cube]
pub(super) fn logits<E: Float>(
    hidden: &[E],
    weight: &[E],
    left: &mut Shared<[f32]>,
    right: &mut Shared<[f32]>,
    patch: &mut Array<f32>,
    row: usize,
    row_end: usize,
    column: usize,
    column_end: usize,
    width: usize,
    #[comptime] grid: Grid,
) {
    let unroll = comptime!(grid.unroll);
    #[unroll(unroll)]
    for i in 0..comptime!(grid.rows / grid.row_units * (grid.columns / grid.column_units)) {
        patch[i] = f32::new(0.0);
    }
    let mut k = 0usize;
    while k < width {
        sync_cube();
        load::<E>(hidden, left, row, row_end, k, width, width, true, grid.rows, grid.depth);
        load::<E>(weight, right, column, column_end, k, width, width, true, grid.columns, grid.depth);
        sync_cube();
        multiply(left, right, patch, grid);
        k += grid.depth;
    }
}

pub(crate) mod kernels {
    use super::*;

    /// out\[m, n\] = or += scale·a·b, rows of `out` `columns` apart from `out_from` on.
    #[cube(launch)]
    pub(crate) fn multiply_add<A: Float, B: Float>(
        a: &[A],
        b: &[B],
        out: &mut [f32],
        scale: f32,
        rows: u32,
        columns: u32,
        depth: u32,
        a_stride: u32,
        b_from: u32,
        out_from: u32,
        #[comptime] a_along: bool,
        #[comptime] add: bool,
        #[comptime] grid: Grid,
        #[define(A, B)] _dtypes: [ElemType; 2],
    ) {
        let (ru, cu, unroll) = comptime!((grid.row_units, grid.column_units, grid.unroll));
        let (mr, mc) = comptime!((grid.rows / grid.row_units, grid.columns / grid.column_units));
        let rows = rows as usize;
        let columns = columns as usize;
        let depth = depth as usize;
        let across = columns.div_ceil(grid.columns);
        let row = CUBE_POS / across * grid.rows;
        if row < rows {
            let column = CUBE_POS % across * grid.columns;
            let mut left = Shared::<[f32]>::new_slice(comptime!((grid.rows + 1) * grid.depth));
            let mut right = Shared::<[f32]>::new_slice(comptime!((grid.columns + 1) * grid.depth));
            let mut patch = Array::<f32>::new(comptime!(mr * mc));
            #[unroll(unroll)]
            for i in 0..comptime!(mr * mc) {
                patch[i] = f32::new(0.0);
            }
            let b = &b[b_from as usize..b.len()];
            let mut k = 0usize;
            while k < depth {
                sync_cube();
                load::<A>(a, &mut left, row, rows, k, depth, a_stride as usize, a_along, grid.rows, grid.depth);
                load::<B>(b, &mut right, column, columns, k, depth, columns, false, grid.columns, grid.depth);
                sync_cube();
                multiply(&mut left, &mut right, &mut patch, grid);
                k += grid.depth;
            }
            let r0 = UNIT_POS as usize / cu;
            let c0 = UNIT_POS as usize % cu;
            #[unroll(unroll)]
            for i in 0..mr {
                #[unroll(unroll)]
                for j in 0..mc {
                    let (r, c) = (row + r0 + i * ru, column + c0 + j * cu);
                    if r < rows && c < columns {
                        let at = out_from as usize + r * columns + c;
                        let value = patch[i * mc + j] * scale;
                        if comptime!(add) {
                            out[at] += value;
                        } else {
                            out[at] = value;
                        }
                    }
                }
            }
        }
    }
}

/// The left operand of [`multiply_add`]: `[rows, depth]`, or its transpose.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) tensor: &'a CubeTensor,
    /// Distance of rows in memory.
    pub(super) stride: usize,
    /// Whether the product takes the transpose.
    pub(super) transposed: bool,
}

/// out\[m, n\] (from number `out_from` on) = or += scale · left · b\[k, n\] (from number `b_from` on).
#[allow(clippy::too_many_arguments)]
pub(super) fn multiply_add(
    left: Left<'_>,
    (b, b_from): (&CubeTensor, usize),
    (out, out_from): (&CubeTensor, usize),
    [rows, columns, depth]: [usize; 3],
    scale: f32,
    add: bool,
    grid: Grid,
) {
    debug_assert_eq!(out.dtype, DType::F32);
    let client = &out.client;
    kernels::multiply_add::launch(
        client,
        cube_count(client, rows.div_ceil(grid.rows) * columns.div_ceil(grid.columns)),
        CubeDim::new_1d(grid.units() as u32),
        arg(left.tensor),
        arg(b),
        arg(out),
        scale,
        rows as u32,
        columns as u32,
        depth as u32,
        left.stride as u32,
        b_from as u32,
        out_from as u32,
        !left.transposed,
        add,
        grid,
        [element(left.tensor.dtype), element(b.dtype)],
    );
}
