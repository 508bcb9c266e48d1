use rayon::prelude::*;

use crate::simd::{ALL, Store, View, matmul};

pub(crate) struct Gradients {
    pub(crate) x: Vec<f32>,
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

pub(crate) fn forward(x: &[f32], weight: View<'_>, bias: &[f32], [outputs, inputs]: [usize; 2]) -> Vec<f32> {
    let rows = x.len() / inputs;
    let mut y = vec![0.0; rows * outputs];
    let store = if bias.is_empty() {
        Store::Set
    } else {
        y.chunks_exact_mut(outputs).for_each(|row| row.copy_from_slice(bias));
        Store::Add
    };
    let x = View::rows(x, inputs);
    matmul([rows, outputs, inputs], &mut y, outputs, store, x, weight.t(), 1.0, ALL);
    y
}

pub(crate) fn backward(
    x: &[f32],
    weight: &[f32],
    grad: &[f32],
    [outputs, inputs]: [usize; 2],
    [need_x, need_weight, need_bias]: [bool; 3],
) -> Gradients {
    let rows = x.len() / inputs;
    let mut g = Gradients { x: Vec::new(), weight: Vec::new(), bias: Vec::new() };
    let dy = View::rows(grad, outputs);
    if need_x {
        g.x = vec![0.0; rows * inputs];
        let weight = View::rows(weight, inputs);
        matmul([rows, inputs, outputs], &mut g.x, inputs, Store::Set, dy, weight, 1.0, ALL);
    }
    if need_weight {
        g.weight = vec![0.0; outputs * inputs];
        let x = View::rows(x, inputs);
        matmul([outputs, inputs, rows], &mut g.weight, inputs, Store::Set, dy.t(), x, 1.0, ALL);
    }
    if need_bias {
        g.bias = vec![0.0; outputs];
        for row in grad.chunks_exact(outputs) {
            g.bias.iter_mut().zip(row).for_each(|(b, d)| *b += d);
        }
    }
    g
}

/// Rows and columns exchanged: `[outputs, inputs]` → `[inputs, outputs]`, in tiles that stay in the nearest cache.
pub(crate) fn transposed(weight: &[f32], [outputs, inputs]: [usize; 2]) -> Vec<f32> {
    const TILE: usize = 32;
    let mut out = vec![0.0; outputs * inputs];
    out.par_chunks_mut(TILE * outputs).enumerate().for_each(|(band, out)| {
        let from = band * TILE;
        let columns = out.len() / outputs;
        for first in (0..outputs).step_by(TILE) {
            for o in first..(first + TILE).min(outputs) {
                let row = &weight[o * inputs + from..][..columns];
                for (c, &w) in row.iter().enumerate() {
                    out[c * outputs + o] = w;
                }
            }
        }
    });
    out
}
