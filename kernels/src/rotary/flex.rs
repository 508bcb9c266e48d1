use rayon::prelude::*;

use crate::simd::vectorised;

const TOKENS: usize = 64;

pub(crate) fn rotate(x: &[f32], cos: &[f32], sin: &[f32], [_, heads, head_dim]: [usize; 3], inverse: bool) -> Vec<f32> {
    let (half, width) = (head_dim / 2, heads * head_dim);
    let sign = if inverse { -1.0 } else { 1.0 };
    let mut y = vec![0.0; x.len()];
    y.par_chunks_mut(TOKENS * width)
        .zip(x.par_chunks(TOKENS * width))
        .zip(cos.par_chunks(TOKENS * half).zip(sin.par_chunks(TOKENS * half)))
        .for_each(|((y, x), (cos, sin))| {
            vectorised!({
                let tokens = y.chunks_exact_mut(width).zip(x.chunks_exact(width));
                for ((y, x), (cos, sin)) in tokens.zip(cos.chunks_exact(half).zip(sin.chunks_exact(half))) {
                    for (y, x) in y.chunks_exact_mut(head_dim).zip(x.chunks_exact(head_dim)) {
                        let ((y1, y2), (x1, x2)) = (y.split_at_mut(half), x.split_at(half));
                        for i in 0..half {
                            let s = sign * sin[i];
                            y1[i] = x1[i] * cos[i] - x2[i] * s;
                            y2[i] = x2[i] * cos[i] + x1[i] * s;
                        }
                    }
                }
            });
        });
    y
}

/// The heads of one token, in place.
#[inline(always)]
pub(crate) fn turn(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    for x in x.chunks_exact_mut(2 * half) {
        let (x1, x2) = x.split_at_mut(half);
        for i in 0..half {
            let (a, b) = (x1[i], x2[i]);
            x1[i] = a * cos[i] - b * sin[i];
            x2[i] = b * cos[i] + a * sin[i];
        }
    }
}
