//! y = x·Wᵀ + b, with the weight as checkpoints store it: `[outputs, inputs]`.

pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ShapeError;
use crate::ops::BlockOps;

pub use reference::linear as reference;

/// The same weight with the numbers of adjacent outputs adjacent in memory: for a few rows at a time, whose cost is reading
/// the weight. A product with it is the same to the bit. Elsewhere than on Flex it is the weight as it was.
///
/// # Shapes
/// - `weight`: `[outputs, inputs]` → `[outputs, inputs]`
///
/// # Errors
/// When the device does not compute in the weight's type.
pub fn streamed(weight: Tensor<2>) -> Result<Tensor<2>, ShapeError> {
    let weight = crate::plain(weight);
    if !crate::fused_block("linear", &weight)? {
        return Ok(weight);
    }
    Ok(Tensor::from_dispatch(<Dispatch as BlockOps>::streamed_weight(weight.into_dispatch())))
}

/// Applies a linear layer.
///
/// # Shapes
/// - `x`: `[n, inputs]`, `weight`: `[outputs, inputs]`, `bias`: `[outputs]` → `[n, outputs]`
///
/// # Errors
/// When the shapes do not fit together.
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, ShapeError> {
    let ([_, inputs], [outputs, weight_inputs]) = (x.dims(), weight.dims());
    if inputs != weight_inputs {
        let expected = format!("[n, {weight_inputs}], the weight's inputs");
        return Err(ShapeError { op: "linear", what: "x", found: x.dims().to_vec(), expected });
    }
    if let Some(bias) = &bias {
        ShapeError::check("linear", "bias", &bias.dims(), &[outputs])?;
    }
    if !crate::fused_block("linear", &x)? {
        return Ok(reference::linear(x, weight, bias));
    }
    let bias = bias.unwrap_or_else(|| Tensor::zeros([0], &x.device()));
    let out = <Dispatch as BlockOps>::fused_linear(x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    Ok(Tensor::from_dispatch(out))
}
