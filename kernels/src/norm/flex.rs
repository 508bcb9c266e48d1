use rayon::prelude::*;

use crate::simd::{sum, vectorised};

/// Rows handled by one task; also the order in which weight gradients are added, so that it must not depend on the
/// number of threads.
const ROWS: usize = 64;

#[inline(always)]
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    1.0 / (sum([x], |[x]| x * x) / x.len() as f32 + eps).sqrt()
}

/// One row.
#[inline(always)]
pub(crate) fn normalise(y: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    let scale = inverse_rms(x, eps);
    for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
        *y = x * scale * w;
    }
}

pub(crate) fn forward(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let width = weight.len();
    let mut y = vec![0.0; x.len()];
    y.par_chunks_mut(ROWS * width).zip(x.par_chunks(ROWS * width)).for_each(|(y, x)| {
        vectorised!({
            for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                normalise(y, x, weight, eps);
            }
        });
    });
    y
}

/// dx = s·(w∘g) − x·s³·⟨w∘g, x⟩/width with s = 1/rms; dw = Σ g·x·s.
pub(crate) fn backward(x: &[f32], weight: &[f32], grad: &[f32], eps: f32) -> (Vec<f32>, Vec<f32>) {
    let width = weight.len();
    let mut dx = vec![0.0; x.len()];
    let partial: Vec<Vec<f32>> = dx
        .par_chunks_mut(ROWS * width)
        .zip(x.par_chunks(ROWS * width))
        .zip(grad.par_chunks(ROWS * width))
        .map(|((dx, x), grad)| {
            let mut dweight = vec![0.0; width];
            vectorised!({
                for ((dx, x), g) in dx.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(grad.chunks_exact(width))
                {
                    let s = inverse_rms(x, eps);
                    let dot = sum([weight, g, x], |[w, g, x]| w * g * x);
                    let back = s * s * s * dot / width as f32;
                    for i in 0..width {
                        dx[i] = s * weight[i] * g[i] - x[i] * back;
                        dweight[i] += g[i] * x[i] * s;
                    }
                }
            });
            dweight
        })
        .collect();
    let mut dweight = vec![0.0; width];
    for part in partial {
        dweight.iter_mut().zip(part).for_each(|(d, p)| *d += p);
    }
    (dx, dweight)
}
