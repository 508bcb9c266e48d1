//! The gated activation of Qwen2's feed-forward (Shazeer, arXiv 2002.05202): silu(gate) · up, silu(x) = x·σ(x).

pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ShapeError;
use crate::ops::BlockOps;

pub use reference::swiglu as reference;

/// silu(`gate`) · `up`, elementwise.
///
/// # Shapes
/// - both `[n, width]` → `[n, width]`
///
/// # Errors
/// When the shapes differ.
pub fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Result<Tensor<2>, ShapeError> {
    ShapeError::check("swiglu", "up", &up.dims(), &gate.dims())?;
    if !crate::fused_block("swiglu", &gate)? {
        return Ok(reference::swiglu(gate, up));
    }
    Ok(Tensor::from_dispatch(<Dispatch as BlockOps>::swiglu(gate.into_dispatch(), up.into_dispatch())))
}
