//! Causal grouped-query attention over packed sequences.
//!
//! o_i = Σ_{j ≤ i} softmax_j(q_i·k_j / √head_dim) v_j within each segment. The forward saves the output and each
//! row's log-sum-exp L; with D = ⟨dO, O⟩ the backward recomputes P = exp(S − L) block by block:
//! dV = Pᵀ·dO, dS = P∘(dO·Vᵀ − D)/√head_dim, dQ = dS·K, dK = dSᵀ·Q (Dao, arXiv 2307.08691). Memory is linear in the
//! number of tokens, nothing is computed across segments, and sums have a fixed order.

pub(crate) mod block;
#[cfg(feature = "cubecl")]
pub(crate) mod cube;
pub(crate) mod flex;
pub(crate) mod problem;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ops::KernelOps;
use crate::{Segments, ShapeError};

pub use reference::attention as reference;

/// Causal self-attention within each segment.
///
/// # Shapes
/// - `q`: `[tokens, heads, head_dim]`, `k`, `v`: `[tokens, kv_heads, head_dim]` → `[tokens, heads, head_dim]`
/// - `heads` is a multiple of `kv_heads`; query head h reads key head h / (heads / kv_heads)
///
/// # Errors
/// When the shapes do not fit together or the segments do not cover the tokens.
pub fn attention(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, segments: &Segments) -> Result<Tensor<3>, ShapeError> {
    problem::check(q.dims(), k.dims(), v.dims(), segments)?;
    crate::same_type("attention", q.dtype(), &[("k", k.dtype()), ("v", v.dtype())])?;
    if !crate::fused("attention", &q)? || !fits(&q) {
        return Ok(reference::attention(q, k, v, segments));
    }
    let out = <Dispatch as KernelOps>::fused_attention(
        q.into_dispatch(),
        k.into_dispatch(),
        v.into_dispatch(),
        segments.clone(),
    );
    Ok(Tensor::from_dispatch(out))
}

/// Whether the fused code of the tensor's device takes heads of this width: all on Flex; multiples of 8 up to 256 that
/// fit shared memory on CubeCL's devices.
pub(crate) fn fits(q: &Tensor<3>) -> bool {
    #[cfg(feature = "cubecl")]
    if let burn::backend::DispatchDevice::Cube(device) = q.device().without_autodiff().as_dispatch() {
        use cube::{Pass, Tile};
        let (width, limits) = (q.dims()[2], crate::cube::Limits::of(&device.client()));
        let passes = [Pass::Forward, Pass::Query, Pass::Keys];
        return width.is_multiple_of(8)
            && (8..=256).contains(&width)
            && passes.iter().all(|pass| Tile::choose(*pass, width, 1, limits).is_some());
    }
    let _ = q;
    true
}
