//! Vectorised host arithmetic for the Flex implementations: run-time CPU dispatch, `exp`, matrix products.

use gemm::Parallelism;

/// As [`dispatch`], for work too large to be inlined as a closure: mark its `call` with `#[inline(always)]`, or it is
/// compiled for the oldest processors whatever runs it.
#[inline(always)]
pub(crate) fn run<T: pulp::NullaryFnOnce>(task: T) -> T::Output {
    pulp::Arch::new().dispatch(task)
}

/// As [`vectorised`], which makes sure that `f` is inlined.
#[inline(always)]
pub(crate) fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}

/// Runs an expression compiled for the widest vector instructions of this CPU. What it calls must be inlined. (A plain
/// closure is not when it is large, and then it is compiled for the oldest processors.)
macro_rules! vectorised {
    ($body:expr) => {
        $crate::simd::dispatch({
            #[inline(always)]
            || $body
        })
    };
}
pub(crate) use vectorised;

/// e^x, within 2 ulp on [-87, 88]; clamps outside. Branch-free, so loops over it vectorise (`f32::exp` is a call).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to the nearest integer
    const LN2_HI: f32 = 0.693_359_4;
    const LN2_LO: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HI) - n * LN2_LO;
    // Taylor series to the 7th power; |r| <= ln(2)/2.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    // The lowest bits of `shifted` are n: no conversion, which has no vector instruction for values out of range. The
    // other bits leave at the top.
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// Largest element; `f32::NEG_INFINITY` when empty.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane = if v > *lane { v } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |m, &v| if v > m { v } else { m })
}

/// Σ f over the elements of equally long slices, with sixteen independent accumulators, so that it vectorises and its order
/// is fixed.
#[inline(always)]
pub(crate) fn sum<const K: usize>(of: [&[f32]; K], mut f: impl FnMut([f32; K]) -> f32) -> f32 {
    let n = of[0].len();
    let mut lanes = [0f32; 16];
    let parts = of.map(|slice| slice[..n].as_chunks::<16>());
    for i in 0..n / 16 {
        let at = parts.map(|(chunks, _)| &chunks[i]);
        for (lane, acc) in lanes.iter_mut().enumerate() {
            *acc += f(at.map(|chunk| chunk[lane]));
        }
    }
    for (lane, acc) in lanes.iter_mut().enumerate().take(n % 16) {
        *acc += f(parts.map(|(_, rest)| rest[lane]));
    }
    lanes.iter().sum()
}

/// Asks for the memory of `values[range]`, as far as it exists, before it is needed. Worth it where the processor cannot
/// guess: many short runs at a distance.
#[inline(always)]
pub(crate) fn prefetch(values: &[f32], range: std::ops::Range<usize>) {
    const LINE: usize = 16;
    #[cfg(target_arch = "x86_64")]
    for line in values.get(range.start..range.end.min(values.len())).unwrap_or(&[]).chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address lies within `values`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, range, LINE);
}

/// A read-only strided matrix view.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row_stride: usize,
    pub(crate) col_stride: usize,
}

impl<'a> View<'a> {
    /// Rows `row_stride` apart, columns adjacent.
    pub(crate) fn rows(data: &'a [f32], row_stride: usize) -> View<'a> {
        View { data, row_stride, col_stride: 1 }
    }

    /// The same matrix transposed.
    pub(crate) fn t(self) -> View<'a> {
        View { data: self.data, row_stride: self.col_stride, col_stride: self.row_stride }
    }

    /// The view without its first `n` rows.
    pub(crate) fn skip_rows(self, n: usize) -> View<'a> {
        View { data: self.data.get(n * self.row_stride..).unwrap_or(&[]), ..self }
    }

    fn fits(&self, rows: usize, cols: usize) -> bool {
        rows == 0 || cols == 0 || (rows - 1) * self.row_stride + (cols - 1) * self.col_stride < self.data.len()
    }
}

/// How a product lands in its destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// Overwrite.
    Set,
    /// Add.
    Add,
}

/// Up to this many results, `gemm` adds products of adjacent rows and columns across vector lanes.
const LARGEST_HORIZONTAL: usize = 16 * 16;

/// Up to this many columns, the depth is cut every [`LONGEST_BLOCK`], beyond into equal parts: what `gemm` does for as many
/// rows and columns, or more, on CPUs with the usual caches.
pub(crate) const LARGEST_UNPLANNED: usize = 64;
/// Depths up to this stay whole whatever the caches are.
pub(crate) const LONGEST_BLOCK: usize = 512;

/// Depths below this are padded.
const SHALLOWEST: usize = 3;

/// How many inputs the sums of a product of `n` columns and depth `k` are cut at.
pub(crate) fn depth_block(n: usize, k: usize) -> usize {
    if n <= LARGEST_UNPLANNED { LONGEST_BLOCK } else { k.div_ceil(k.div_ceil(LONGEST_BLOCK).max(1)).max(1) }
}

/// dst\[m, n\] (rows `dst_stride` apart) = or += scale · a\[m, k\] · b\[k, n\].
///
/// A row of the result is the same to the bit whatever other rows are computed with it (as long as n > 1), so that a
/// token gets the same log-probability alone, in any batch, cached or packed. The library would take other paths, which
/// add in another order, for one row and for small results.
#[allow(clippy::too_many_arguments)]
pub(crate) fn matmul(
    [m, n, k]: [usize; 3],
    dst: &mut [f32],
    dst_stride: usize,
    store: Store,
    a: View<'_>,
    b: View<'_>,
    scale: f32,
    threads: Parallelism,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!((m - 1) * dst_stride + n <= dst.len() && a.fits(m, k) && b.fits(k, n), "matmul: out of bounds");
    if k == 0 {
        if store == Store::Set {
            dst.chunks_mut(dst_stride).take(m).for_each(|row| row[..n].fill(0.0));
        }
        return;
    }
    if m == 1 && n > 1 {
        // The row stands twice.
        let mut two = [&dst[..n], &dst[..n]].concat();
        matmul([2, n, k], &mut two, n, store, View { row_stride: 0, ..a }, b, scale, threads);
        dst[..n].copy_from_slice(&two[..n]);
        return;
    }
    if n > 1 && m * n <= LARGEST_HORIZONTAL && a.col_stride == 1 && b.row_stride == 1 {
        // Columns of `a` adjacent instead of rows: no dot products across vector lanes.
        let columns: Vec<f32> = (0..k).flat_map(|c| (0..m).map(move |r| a.data[r * a.row_stride + c])).collect();
        let a = View { data: &columns, row_stride: 1, col_stride: m };
        return matmul([m, n, k], dst, dst_stride, store, a, b, scale, threads);
    }
    if n > 1 && k < SHALLOWEST {
        // For one or two, the library adds to the destination what it multiplies, without rounding in between.
        let deep = |of: View<'_>, count: usize| -> Vec<f32> {
            (0..count * SHALLOWEST)
                .map(|i| (i / SHALLOWEST, i % SHALLOWEST))
                .map(|(r, c)| if c < k { of.data[r * of.row_stride + c * of.col_stride] } else { 0.0 })
                .collect()
        };
        let (a, b) = (deep(a, m), deep(b.t(), n));
        let (a, b) = (View::rows(&a, SHALLOWEST), View::rows(&b, SHALLOWEST).t());
        return matmul([m, n, SHALLOWEST], dst, dst_stride, store, a, b, scale, threads);
    }
    if n > 1 && k > LONGEST_BLOCK {
        // The number of rows, or the caches, would decide where the sum over the depth is cut.
        let block = depth_block(n, k);
        for from in (0..k).step_by(block) {
            let store = if from == 0 { store } else { Store::Add };
            let depth = block.min(k - from);
            let a = View { data: &a.data[from * a.col_stride..], ..a };
            let b = View { data: &b.data[from * b.row_stride..], ..b };
            matmul([m, n, depth], dst, dst_stride, store, a, b, scale, threads);
        }
        return;
    }
    // SAFETY: the assertion above keeps every access of the three operands within its slice, and `dst` is borrowed
    // exclusively.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.as_mut_ptr(),
            1,
            dst_stride as isize,
            store == Store::Add,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            threads,
        );
    }
}

/// All threads of the rayon pool.
pub(crate) const ALL: Parallelism = Parallelism::Rayon(0);
/// The calling thread alone.
pub(crate) const ONE: Parallelism = Parallelism::None;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulp() {
        let mut x = -87.0f32;
        while x < 88.0 {
            let (ours, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((ours / exact - 1.0).abs() < 2.5e-7, "exp({x}) = {ours}, expected {exact}");
            x += 0.0137;
        }
        assert!(exp(-1e30) < 2e-38 && exp(-1e30) >= 0.0);
    }

    /// Sizes around every switch of the library: one row, small results, edges of its tiles and of its depth blocks.
    #[test]
    fn a_row_of_a_product_does_not_depend_on_the_rows_beside_it() {
        let value = |i: usize| ((i * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
        for k in [1, 2, 3, 32, 192, 513, 514, 700] {
            for n in [2, 5, 85, 86, 300] {
                let b: Vec<f32> = (0..n * k).map(value).collect();
                let a: Vec<f32> = (0..70 * k).map(|i| value(i + 17)).collect();
                for b in [View::rows(&b, k).t(), View::rows(&b, n)] {
                    let product = |m: usize| {
                        let mut dst = vec![0.5f32; m * n];
                        matmul([m, n, k], &mut dst, n, Store::Add, View::rows(&a, k), b, 0.3, ONE);
                        dst
                    };
                    let all = product(70);
                    for m in [1, 2, 3, 7, 16, 33, 64] {
                        assert!(product(m)[..] == all[..m * n], "m {m}, n {n}, k {k}");
                    }
                }
            }
        }
    }

    #[test]
    fn matmul_is_the_triple_loop() {
        let (m, n, k) = (3, 5, 4);
        let a: Vec<f32> = (0..m * k).map(|i| i as f32 * 0.3 - 1.0).collect();
        let b: Vec<f32> = (0..n * k).map(|i| 0.7 - i as f32 * 0.1).collect();
        let mut dst = vec![1.0f32; m * n];
        matmul([m, n, k], &mut dst, n, Store::Add, View::rows(&a, k), View::rows(&b, k).t(), 2.0, ONE);
        for i in 0..m {
            for j in 0..n {
                let dot: f32 = (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum();
                assert!((dst[i * n + j] - (1.0 + 2.0 * dot)).abs() < 1e-5);
            }
        }
    }
}
