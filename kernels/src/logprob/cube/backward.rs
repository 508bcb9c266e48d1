use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::product::{Grid, Left, logits, multiply_add};
use super::tensor;
use crate::cube::{Limits, arg, cast, cube_count, dims, element, empty, zeros};
use crate::fragment::Fragment;

/// Numbers of the scratch buffer that holds gradients of logits: 64 MiB in f32.
const SCRATCH: usize = 16 << 20;
/// Hidden rows whose logits are in the scratch buffer at once.
const BLOCK: usize = 4096;
/// Columns whose logits are there at once: an upper bound of the depth that one cube adds up. Software Vulkan ends a
/// kernel's loops after 65,535 rounds in all.
const CHUNK: usize = 1 << 14;

pub(crate) mod kernels {
    use super::*;

    /// Gradients of the logits of rows `row_from..row_from + rows` and columns `column_from..column_from + columns`,
    /// into `dz` `[rows, columns]`.
    #[cube(launch)]
    pub(crate) fn logprob_slopes<E: Float>(
        hidden: &[E],
        weight: &[E],
        targets: &[i32],
        out: &[f32],
        grad: &[f32],
        dz: &mut [f32],
        inverse_temperature: f32,
        width: u32,
        row_from: u32,
        rows: u32,
        column_from: u32,
        columns: u32,
        #[comptime] grid: Grid,
        #[define(E)] _dtype: ElemType,
    ) {
        let (ru, cu, unroll) = comptime!((grid.row_units, grid.column_units, grid.unroll));
        let (mr, mc) = comptime!((grid.rows / grid.row_units, grid.columns / grid.column_units));
        let n = targets.len();
        let rows = rows as usize;
        let columns = columns as usize;
        let across = columns.div_ceil(grid.columns);
        let row = CUBE_POS / across * grid.rows;
        if row < rows {
            let column = CUBE_POS % across * grid.columns;
            let row_from = row_from as usize;
            let column_from = column_from as usize;
            let mut left = Shared::<[f32]>::new_slice(comptime!((grid.rows + 1) * grid.depth));
            let mut right = Shared::<[f32]>::new_slice(comptime!((grid.columns + 1) * grid.depth));
            let mut patch = Array::<f32>::new(comptime!(mr * mc));
            logits::<E>(
                hidden,
                weight,
                &mut left,
                &mut right,
                &mut patch,
                row_from + row,
                row_from + rows,
                column_from + column,
                column_from + columns,
                width as usize,
                grid,
            );
            let r0 = UNIT_POS as usize / cu;
            let c0 = UNIT_POS as usize % cu;
            #[unroll(unroll)]
            for i in 0..mr {
                let r = row + r0 + i * ru;
                if r < rows {
                    let at = row_from + r;
                    let g = grad[at];
                    let e = grad[n + at];
                    let entropy = out[n + at];
                    let log_sum = out[2 * n + at];
                    let wanted = targets[at] as usize;
                    #[unroll(unroll)]
                    for j in 0..mc {
                        let c = column + c0 + j * cu;
                        if c < columns {
                            let logp = patch[i * mc + j] * inverse_temperature - log_sum;
                            let slope = f32::new(0.0) - logp.exp() * (g + e * (logp + entropy));
                            dz[r * columns + c] = select(column_from + c == wanted, slope + g, slope);
                        }
                    }
                }
            }
        }
    }
}

/// Gradients of hidden `[n, width]` and weight `[weight rows, width]` in the type of the inputs; those not `needed`
/// have no rows.
pub(crate) fn backward(
    [hidden, weight, targets]: [&CubeTensor; 3],
    out: &CubeTensor,
    grad: &CubeTensor,
    temperature: f32,
    vocabulary: usize,
    [need_hidden, need_weight]: [bool; 2],
) -> (CubeTensor, CubeTensor) {
    let ([n, width], [weight_rows, _]) = (dims(hidden), dims(weight));
    let keep = |need: bool, rows: usize| if need { rows } else { 0 };
    let dhidden = zeros(hidden, [keep(need_hidden, n), width], DType::F32);
    let dweight = zeros(weight, [keep(need_weight, weight_rows), width], DType::F32);
    let client = &hidden.client;
    let limits = Limits::of(client);
    let tensor = Fragment::of(client, hidden.dtype).and_then(|fragment| Grid::on_tensor_cores(limits, fragment));
    let grid = tensor.unwrap_or_else(|| Grid::choose(limits));
    let block = BLOCK.min(n);
    if n > 0 && (need_hidden || need_weight) {
        let chunk = (SCRATCH / block).min(CHUNK).min(vocabulary);
        let dz = empty(hidden, [block, chunk], if tensor.is_some() { hidden.dtype } else { DType::F32 });
        let scale = tensor.map(|_| tensor::gradient_scale(grad));
        let inverse_temperature = 1.0 / temperature;
        for row in (0..n).step_by(block) {
            let rows = block.min(n - row);
            for column in (0..vocabulary).step_by(chunk) {
                let columns = chunk.min(vocabulary - column);
                if let Some(scale) = &scale {
                    tensor::kernels::logprob_slopes_tensor::launch(
                        client,
                        cube_count(client, rows.div_ceil(grid.rows) * columns.div_ceil(grid.columns)),
                        CubeDim::new_1d(grid.units() as u32),
                        arg(hidden),
                        arg(weight),
                        arg(targets),
                        arg(out),
                        arg(grad),
                        arg(scale),
                        arg(&dz),
                        inverse_temperature,
                        width as u32,
                        row as u32,
                        rows as u32,
                        column as u32,
                        columns as u32,
                        grid,
                        element(hidden.dtype),
                    );
                } else {
                    kernels::logprob_slopes::launch(
                        client,
                        cube_count(client, rows.div_ceil(grid.rows) * columns.div_ceil(grid.columns)),
                        CubeDim::new_1d(grid.units() as u32),
                        arg(hidden),
                        arg(weight),
                        arg(targets),
                        arg(out),
                        arg(grad),
                        arg(&dz),
                        inverse_temperature,
                        width as u32,
                        row as u32,
                        rows as u32,
                        column as u32,
                        columns as u32,
                        grid,
                        element(hidden.dtype),
                    );
                }
                let multiply = |left, b, target, shape| match &scale {
                    Some(scale) => tensor::multiply_add(left, b, target, shape, (inverse_temperature, scale), grid),
                    None => multiply_add(left, b, target, shape, inverse_temperature, true, grid),
                };
                if need_hidden {
                    let left = Left { tensor: &dz, stride: columns, transposed: false };
                    multiply(left, (weight, column * width), (&dhidden, row * width), [rows, width, columns]);
                }
                if need_weight {
                    let left = Left { tensor: &dz, stride: columns, transposed: true };
                    multiply(left, (hidden, row * width), (&dweight, column * width), [columns, width, rows]);
                }
            }
        }
    }
    (cast(dhidden, hidden.dtype), cast(dweight, weight.dtype))
}
