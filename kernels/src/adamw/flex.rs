use rayon::prelude::*;

use super::AdamWStep;
use crate::simd::vectorised;

const CHUNK: usize = 1 << 14;

/// Changes `weight`, `first` and `second` in place.
pub(crate) fn adamw(weight: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32], step: AdamWStep) {
    // Each factor is rounded to f32 on its own, as a scalar beside an f32 tensor is.
    let ([b1, b2], [c1, c2]) = (step.betas, step.corrections().map(|c| c as f32));
    let (scale, lr, eps) = (step.scale as f32, step.learning_rate as f32, step.eps as f32);
    let (old1, new1, old2, new2) = (b1 as f32, (1.0 - b1) as f32, b2 as f32, (1.0 - b2) as f32);
    let keep = (1.0 - step.learning_rate * step.weight_decay) as f32;
    let moments = first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK));
    weight.par_chunks_mut(CHUNK).zip(moments).zip(gradient.par_chunks(CHUNK)).for_each(|((w, (m, v)), g)| {
        vectorised!({
            for (((w, m), v), g) in w.iter_mut().zip(m.iter_mut()).zip(v.iter_mut()).zip(g) {
                let g = g * scale;
                *m = *m * old1 + g * new1;
                *v = *v * old2 + (g * g) * new2;
                let change = *m / c1 / ((*v / c2).sqrt() + eps) * lr;
                *w = *w * keep - change;
            }
        });
    });
}
