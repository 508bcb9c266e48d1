//! Products on tensor cores: a plane of units multiplies fragments of matrices that lie in shared memory, half-precision
//! numbers with sums in f32.
//!
//! Which fragments there are is asked of the device when a kernel is launched; without any, kernels multiply in f32 as
//! ever. Inputs in f32 never come here: tensor cores would take them as TF32, with a mantissa of 10 bits.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::DType;
use cubecl::client::Client;
use cubecl::cmma::{self, Matrix, MatrixIdent, MatrixLayout};
use cubecl::prelude::*;

use crate::cube::element;

/// Halves between the end of a row and the beginning of the next in shared memory: rows have to begin on 32 bytes.
pub(crate) const HALF_PAD: usize = 16;
/// The same for f32.
pub(crate) const FLOAT_PAD: usize = 8;
/// Alignment of matrices in shared memory, in bytes.
pub(crate) const ALIGNMENT: usize = 32;

static ALLOWED: AtomicBool = AtomicBool::new(true);

/// Whether kernels may use tensor cores, process-wide.
pub(crate) fn allow(on: bool) {
    ALLOWED.store(on, Ordering::Relaxed);
}

/// The matrices that a plane of the device multiplies at once: `[m, k]`·`[k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fragment {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Units of a plane.
    pub(crate) plane: usize,
}

impl Fragment {
    /// The device's fragments for this element type with sums in f32; square ones before others.
    pub(crate) fn of(client: &Client, dtype: DType) -> Option<Fragment> {
        if !ALLOWED.load(Ordering::Relaxed) || !matches!(dtype, DType::F16 | DType::BF16) {
            return None;
        }
        let (properties, sum) = (client.properties(), element(DType::F32));
        let plane = properties.hardware.plane_size_max;
        // Where a driver may choose between plane sizes, which units make a plane is not known here.
        if plane < 2 || properties.hardware.plane_size_min != plane {
            return None;
        }
        properties
            .features
            .matmul
            .cmma
            .iter()
            .filter(|c| c.a_type == element(dtype) && c.b_type == c.a_type && c.cd_type == sum)
            .map(|c| Fragment { m: c.m as usize, n: c.n as usize, k: c.k as usize, plane: plane as usize })
            .min_by_key(|f| (f.m.abs_diff(f.n), f.m, f.k))
    }
}

/// How an operand lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    /// Distance of its lines.
    pub(crate) ld: usize,
    /// Whether a line runs along the depth of the product.
    pub(crate) along: bool,
}

/// A product of two matrices in shared memory, shared out among the planes of a cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) left: Operand,
    pub(crate) right: Operand,
    pub(crate) planes: usize,
    pub(crate) fragment: Fragment,
}

impl Product {
    /// Whether it is made of whole fragments.
    pub(crate) fn whole(&self) -> bool {
        let f = self.fragment;
        self.rows.is_multiple_of(f.m) && self.columns.is_multiple_of(f.n) && self.depth.is_multiple_of(f.k)
    }

    /// Fragments of a row of the result.
    fn across(&self) -> usize {
        self.columns / self.fragment.n
    }

    /// Fragments of the result.
    fn fragments(&self) -> usize {
        self.rows / self.fragment.m * self.across()
    }

    /// Fragments of a plane.
    fn share(&self) -> usize {
        self.fragments().div_ceil(self.planes)
    }
}

/// The sums of a plane's share of a product, all 0.
#[cube]
pub(crate) fn zeros(#[comptime] product: Product) -> Sequence<Matrix<f32>> {
    let mut sums = Sequence::<Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!(product.share()) {
        sums.push(Matrix::<f32>::from_value(
            MatrixIdent::Accumulator,
            comptime!(product.fragment.m),
            comptime!(product.fragment.n),
            comptime!(product.fragment.k),
            MatrixLayout::Undefined,
            0.0,
        ));
    }
    sums
}

/// Adds this plane's share of left·right to `sums`.
#[cube]
pub(crate) fn multiply<E: Float>(
    left: &Shared<[E]>,
    right: &Shared<[E]>,
    sums: &mut Sequence<Matrix<f32>>,
    #[comptime] product: Product,
) {
    let (m, n, k) = comptime!((product.fragment.m, product.fragment.n, product.fragment.k));
    let (across, share) = comptime!((product.across(), product.share()));
    let (l, r) = comptime!((product.left, product.right));
    let plane = UNIT_POS as usize / comptime!(product.fragment.plane);
    #[unroll]
    for step in 0..comptime!(product.depth / k) {
        #[unroll]
        for i in 0..share {
            let fragment = plane * share + i;
            if fragment < comptime!(product.fragments()) {
                let row = fragment / across * m;
                let column = fragment % across * n;
                let from = if comptime!(l.along) { row * l.ld + step * k } else { step * k * l.ld + row };
                let a = Matrix::<E>::from_slice(
                    MatrixIdent::A,
                    m,
                    n,
                    k,
                    comptime!(if l.along { MatrixLayout::RowMajor } else { MatrixLayout::ColMajor }),
                    &left[from..left.len()],
                    comptime!(l.ld as u32),
                );
                let from = if comptime!(r.along) { column * r.ld + step * k } else { step * k * r.ld + column };
                let b = Matrix::<E>::from_slice(
                    MatrixIdent::B,
                    m,
                    n,
                    k,
                    comptime!(if r.along { MatrixLayout::ColMajor } else { MatrixLayout::RowMajor }),
                    &right[from..right.len()],
                    comptime!(r.ld as u32),
                );
                let sum = sums.index(i);
                cmma::execute(&a, &b, sum, sum);
            }
        }
    }
}

/// Writes this plane's share of a product into shared memory, rows `ld` apart.
#[cube]
pub(crate) fn store(
    sums: &Sequence<Matrix<f32>>,
    target: &mut Shared<[f32]>,
    #[comptime] ld: usize,
    #[comptime] product: Product,
) {
    let (across, share) = comptime!((product.across(), product.share()));
    let plane = UNIT_POS as usize / comptime!(product.fragment.plane);
    #[unroll]
    for i in 0..share {
        let fragment = plane * share + i;
        if fragment < comptime!(product.fragments()) {
            let at = fragment / across * product.fragment.m * ld + fragment % across * product.fragment.n;
            let length = target.len();
            cmma::store(&mut target[at..length], sums.index(i), comptime!(ld as u32), MatrixLayout::RowMajor);
        }
    }
}
