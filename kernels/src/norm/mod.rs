//! Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467): y = w · x / √(mean(x²) + ε).

pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ShapeError;
use crate::ops::BlockOps;

pub use reference::rms_norm as reference;

/// Normalises each row.
///
/// # Shapes
/// - `x`: `[n, width]`, `weight`: `[width]` → `[n, width]`
///
/// # Errors
/// When the weight's length is not the row's.
pub fn rms_norm(x: Tensor<2>, weight: Tensor<1>, eps: f32) -> Result<Tensor<2>, ShapeError> {
    ShapeError::check("rms_norm", "weight", &weight.dims(), &x.dims()[1..])?;
    if !crate::fused_block("rms_norm", &x)? {
        return Ok(reference::rms_norm(x, weight, eps));
    }
    let out = <Dispatch as BlockOps>::rms_norm(x.into_dispatch(), weight.into_dispatch(), eps);
    Ok(Tensor::from_dispatch(out))
}
