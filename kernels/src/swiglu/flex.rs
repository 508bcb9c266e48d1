use rayon::prelude::*;

use crate::simd::{exp, vectorised};

const CHUNK: usize = 1 << 14;

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// gate·σ(gate)·up, in place of `gate`.
#[inline(always)]
pub(crate) fn gated(gate: &mut [f32], up: &[f32]) {
    for (g, &u) in gate.iter_mut().zip(up) {
        *g = *g * sigmoid(*g) * u;
    }
}

pub(crate) fn forward(gate: &[f32], up: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; gate.len()];
    y.par_chunks_mut(CHUNK).zip(gate.par_chunks(CHUNK)).zip(up.par_chunks(CHUNK)).for_each(|((y, gate), up)| {
        vectorised!({
            for ((y, &g), &u) in y.iter_mut().zip(gate).zip(up) {
                *y = g * sigmoid(g) * u;
            }
        });
    });
    y
}

/// d silu(x)/dx = σ(x)·(1 + x·(1 − σ(x))).
pub(crate) fn backward(gate: &[f32], up: &[f32], grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let (mut dgate, mut dup) = (vec![0.0; gate.len()], vec![0.0; gate.len()]);
    dgate
        .par_chunks_mut(CHUNK)
        .zip(dup.par_chunks_mut(CHUNK))
        .zip(gate.par_chunks(CHUNK).zip(up.par_chunks(CHUNK)).zip(grad.par_chunks(CHUNK)))
        .for_each(|((dgate, dup), ((gate, up), grad))| {
            vectorised!({
                for i in 0..gate.len() {
                    let s = sigmoid(gate[i]);
                    dgate[i] = grad[i] * up[i] * s * (1.0 + gate[i] * (1.0 - s));
                    dup[i] = grad[i] * gate[i] * s;
                }
            });
        });
    (dgate, dup)
}
