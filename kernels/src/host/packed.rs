//! Matrices in the order in which products read them, and the product itself.
//!
//! A matrix of n outputs is cut into panels of [`PANEL`] outputs; a panel holds input after input. A tile of the product keeps
//! some rows × one or two panels in registers and walks down the inputs. What is added up, and in which order, is what
//! [`crate::simd::matmul`] does for the same row, to the bit: one chain of fused multiply-adds per block of the depth.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::simd::depth_block;

/// Outputs side by side in memory.
pub(crate) const PANEL: usize = 32;
/// Most rows of a tile: eleven rows × two vectors of 16 leave registers for the weights and for widening them.
pub(crate) const ROWS: usize = 11;

/// `n` rounded up to whole panels.
pub(crate) fn padded(n: usize) -> usize {
    n.next_multiple_of(PANEL)
}

/// Whether this CPU has the instructions that the product is written for.
pub(crate) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return !matches!(Arch::new(), Arch::Scalar);
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Zeros that begin at a cache line.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    data: Vec<T>,
    from: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    const LINE: usize = 64;

    pub(crate) fn zeros(len: usize) -> Aligned<T> {
        let slack = Self::LINE / size_of::<T>();
        let data = vec![T::default(); len + slack];
        let from = data.as_ptr().align_offset(Self::LINE).min(slack);
        Aligned { data, from, len }
    }

    pub(crate) fn all(&self) -> &[T] {
        &self.data[self.from..self.from + self.len]
    }

    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        &mut self.data[self.from..self.from + self.len]
    }
}

/// Numbers of a panel's row, widened to f32 when they are read.
pub(crate) trait Element: Copy + Default + Send + Sync {
    /// How many make the [`PANEL`] numbers of an input.
    const WIDTH: usize;

    /// The panel's numbers of input `k`: `C` vectors.
    fn load<S: Simd, const C: usize>(simd: S, panel: &[Self], k: usize) -> [S::f32s; C];

    /// Puts the numbers of an input into their places.
    fn store(row: &mut [Self], column: usize, value: f32);
}

impl Element for f32 {
    const WIDTH: usize = PANEL;

    #[inline(always)]
    fn load<S: Simd, const C: usize>(_: S, panel: &[f32], k: usize) -> [S::f32s; C] {
        S::as_simd_f32s(panel).0.as_chunks::<C>().0[k]
    }

    #[inline(always)]
    fn store(row: &mut [f32], column: usize, value: f32) {
        row[column] = value;
    }
}

/// Two bf16: that of a column in the lower half, that of the one half a panel further on in the upper, so that widening is a
/// shift and a mask.
impl Element for u32 {
    const WIDTH: usize = PANEL / 2;

    #[inline(always)]
    fn load<S: Simd, const C: usize>(simd: S, panel: &[u32], k: usize) -> [S::f32s; C] {
        let half = C / 2;
        let words = &S::as_simd_u32s(panel).0[k * half..][..half];
        let (shift, mask) = (simd.splat_u32s(16), simd.splat_u32s(0xffff_0000));
        let mut values = [simd.splat_f32s(0.0); C];
        for c in 0..half {
            values[c] = simd.transmute_f32s_u32s(simd.wrapping_dyn_shl_u32s(words[c], shift));
            values[c + half] = simd.transmute_f32s_u32s(simd.and_u32s(words[c], mask));
        }
        values
    }

    #[inline(always)]
    fn store(row: &mut [u32], column: usize, value: f32) {
        let half = PANEL / 2;
        row[column % half] |= u32::from(bf16(value)) << (column / half * 16);
    }
}

/// The nearest bf16, to even where two are as near; NaN stays NaN.
fn bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    match value.is_nan() {
        true => (bits >> 16) as u16 | 0x40,
        false => ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16,
    }
}

/// A weight `[outputs, inputs]` in panels.
#[derive(Debug)]
pub(crate) struct Packed {
    outputs: usize,
    inputs: usize,
    panels: Panels,
}

#[derive(Debug)]
enum Panels {
    F32(Aligned<f32>),
    Bf16(Aligned<u32>),
}

/// How a weight is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightFormat {
    /// As the trainer has it.
    #[default]
    F32,
    /// Rounded to half the bytes.
    Bf16,
}

impl Packed {
    pub(crate) fn new(weight: &[f32], [outputs, inputs]: [usize; 2], format: WeightFormat) -> Packed {
        let panels = match format {
            WeightFormat::F32 => Panels::F32(pack(weight, [outputs, inputs])),
            WeightFormat::Bf16 => Panels::Bf16(pack(weight, [outputs, inputs])),
        };
        Packed { outputs, inputs, panels }
    }

    pub(crate) fn panels(&self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    /// Panels `from..from + count` of x·Wᵀ for `rows` rows of `x`, set or added to `out`.
    pub(crate) fn product(
        &self,
        x: Rows<'_>,
        from: usize,
        count: usize,
        out: &mut [f32],
        out_stride: usize,
        add: bool,
    ) {
        let (depth, block) = (self.inputs, depth_block(self.outputs, self.inputs));
        match &self.panels {
            Panels::F32(panels) => {
                let stride = depth * f32::WIDTH;
                let panels = &panels.all()[from * stride..];
                product(Product { x, depth, block, panels, stride, count, out, out_stride, add });
            }
            Panels::Bf16(panels) => {
                let stride = depth * u32::WIDTH;
                let panels = &panels.all()[from * stride..];
                product(Product { x, depth, block, panels, stride, count, out, out_stride, add });
            }
        }
    }
}

fn pack<E: Element>(weight: &[f32], [outputs, inputs]: [usize; 2]) -> Aligned<E> {
    let mut all = Aligned::zeros(outputs.div_ceil(PANEL) * inputs * E::WIDTH);
    let panels = all.all_mut().par_chunks_exact_mut(inputs * E::WIDTH);
    panels.zip(weight.par_chunks(PANEL * inputs)).for_each(|(panel, rows)| {
        // A few inputs at a time, so that what is written to stays in the nearest cache.
        const INPUTS: usize = 64;
        for from in (0..inputs).step_by(INPUTS) {
            for (column, row) in rows.chunks_exact(inputs).enumerate() {
                let to = (from + INPUTS).min(inputs);
                for (into, &value) in panel[from * E::WIDTH..].chunks_exact_mut(E::WIDTH).zip(&row[from..to]) {
                    E::store(into, column, value);
                }
            }
        }
    });
    all
}

/// Rows of the left side of a product.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// out\[rows, panels\] = or += x\[rows, depth\] · panels, the sum cut every `block`.
pub(crate) struct Product<'a, E> {
    pub(crate) x: Rows<'a>,
    pub(crate) depth: usize,
    pub(crate) block: usize,
    pub(crate) panels: &'a [E],
    /// From a panel to the next.
    pub(crate) stride: usize,
    /// Number of panels.
    pub(crate) count: usize,
    /// Rows `out_stride` apart, whole panels wide.
    pub(crate) out: &'a mut [f32],
    pub(crate) out_stride: usize,
    pub(crate) add: bool,
}

pub(crate) fn product<E: Element>(task: Product<'_, E>) {
    Arch::new().dispatch(task);
}

impl<E: Element> WithSimd for Product<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        match S::F32_LANES {
            // Rows of a tile: all whose sums fit the registers.
            16 => self.run::<S, 2>(simd, ROWS, ROWS / 2),
            8 => self.run::<S, 4>(simd, 3, 0),
            _ => self.slowly(),
        }
    }
}

impl<E: Element> Product<'_, E> {
    /// `single` and `double`: most rows of a tile of one and of two panels.
    #[inline(always)]
    fn run<S: Simd, const C: usize>(&mut self, simd: S, single: usize, double: usize) {
        let rows = self.x.count;
        let mut panel = 0;
        while panel < self.count {
            let two = rows <= double && panel + 1 < self.count;
            for from in (0..self.depth).step_by(self.block) {
                let depth = self.block.min(self.depth - from);
                let add = self.add || from > 0;
                let groups = rows.div_ceil(if two { double } else { single });
                for group in 0..groups {
                    let (first, end) = (group * rows / groups, (group + 1) * rows / groups);
                    let at = Place { first, from, depth, panel, add };
                    macro_rules! tiles {
                        ($($r:literal),*) => {
                            match (end - first, two) {
                                (1, true) => self.tile::<S, C, 1, 2>(simd, at),
                                (2, true) => self.tile::<S, C, 2, 2>(simd, at),
                                (3, true) => self.tile::<S, C, 3, 2>(simd, at),
                                (4, true) => self.tile::<S, C, 4, 2>(simd, at),
                                (5, true) => self.tile::<S, C, 5, 2>(simd, at),
                                $(($r, _) => self.tile::<S, C, $r, 1>(simd, at),)*
                                _ => unreachable!("groups have one to {ROWS} rows"),
                            }
                        };
                    }
                    tiles!(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
                }
            }
            panel += if two { 2 } else { 1 };
        }
    }

    /// `R` rows × `P` panels of `C` vectors, all in registers.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // `x` is indexed by row first
    fn tile<S: Simd, const C: usize, const R: usize, const P: usize>(&mut self, simd: S, at: Place) {
        let depth = at.depth;
        let x: [&[f32]; R] = std::array::from_fn(|r| &self.x.data[(at.first + r) * self.x.stride + at.from..][..depth]);
        let panels: [&[E]; P] = std::array::from_fn(|p| {
            &self.panels[(at.panel + p) * self.stride + at.from * E::WIDTH..][..depth * E::WIDTH]
        });
        let mut sums = [[[simd.splat_f32s(0.0); C]; P]; R];
        for k in 0..depth {
            let mut weights = [[simd.splat_f32s(0.0); C]; P];
            for p in 0..P {
                weights[p] = E::load::<S, C>(simd, panels[p], k);
            }
            for r in 0..R {
                let value = simd.splat_f32s(x[r][k]);
                for p in 0..P {
                    for c in 0..C {
                        sums[r][p][c] = simd.mul_add_f32s(value, weights[p][c], sums[r][p][c]);
                    }
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (p, sums) in sums.iter().enumerate() {
                let out = &mut self.out[(at.first + r) * self.out_stride + (at.panel + p) * PANEL..][..PANEL];
                for (out, &sum) in S::as_mut_simd_f32s(out).0.iter_mut().zip(sums) {
                    *out = if at.add { simd.add_f32s(*out, sum) } else { sum };
                }
            }
        }
    }

    /// For CPUs that [`available`] refuses: nothing calls it.
    fn slowly(&mut self) {
        unreachable!("products of panels need vector instructions");
    }
}

/// Where a tile is.
#[derive(Clone, Copy)]
struct Place {
    /// Its first row.
    first: usize,
    /// Its first input.
    from: usize,
    depth: usize,
    panel: usize,
    add: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{ONE, Store, View, matmul};

    fn values(n: usize, salt: usize) -> Vec<f32> {
        (0..n).map(|i| (((i + salt) * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0).collect()
    }

    fn packed_product(x: &[f32], rows: usize, w: &Packed, start: f32) -> Vec<f32> {
        let width = padded(w.outputs);
        let mut out = vec![start; rows * width];
        let x = Rows { data: x, stride: w.inputs, count: rows };
        w.product(x, 0, w.panels(), &mut out, width, start != 0.0);
        out.chunks_exact(width).flat_map(|row| &row[..w.outputs]).copied().collect()
    }

    #[test]
    fn a_product_of_panels_has_the_bits_of_the_other_one() {
        if !available() {
            return;
        }
        for (outputs, inputs) in [(32, 8), (64, 256), (5, 48), (257, 64), (192, 576), (64, 700), (256, 704), (96, 1536)]
        {
            let w = values(outputs * inputs, 3);
            let packed = Packed::new(&w, [outputs, inputs], WeightFormat::F32);
            for rows in [1, 2, 3, 5, 6, 7, 11, 12, 13, 24, 43, 67] {
                let x = values(rows * inputs, 5);
                for start in [0.0, 0.5] {
                    let mut expected = vec![start; rows * outputs];
                    let store = if start == 0.0 { Store::Set } else { Store::Add };
                    let (a, b) = (View::rows(&x, inputs), View::rows(&w, inputs).t());
                    matmul([rows, outputs, inputs], &mut expected, outputs, store, a, b, 1.0, ONE);
                    assert!(packed_product(&x, rows, &packed, start) == expected, "{rows} × {inputs} → {outputs}");
                }
            }
        }
    }

    #[test]
    fn bf16_weights_are_the_nearest() {
        for (value, expected) in
            [(1.0f32, 1.0f32), (1.0 + 1.0 / 256.0, 1.0), (1.0 + 3.0 / 256.0, 1.015_625), (-0.3, -0.300_781_25)]
        {
            assert_eq!(f32::from_bits(u32::from(bf16(value)) << 16), expected);
        }
        assert!(f32::from_bits(u32::from(bf16(f32::NAN)) << 16).is_nan());
        if !available() {
            return;
        }
        let (outputs, inputs, rows) = (70, 40, 4);
        let (w, x) = (values(outputs * inputs, 1), values(rows * inputs, 2));
        let rounded: Vec<f32> = w.iter().map(|v| f32::from_bits(u32::from(bf16(*v)) << 16)).collect();
        let ours = packed_product(&x, rows, &Packed::new(&w, [outputs, inputs], WeightFormat::Bf16), 0.0);
        let expected = packed_product(&x, rows, &Packed::new(&rounded, [outputs, inputs], WeightFormat::F32), 0.0);
        assert_eq!(ours, expected);
    }
}
