use burn::tensor::Tensor;
use burn::tensor::activation::silu;

/// [`super::swiglu`] in plain Burn operations.
pub fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    silu(gate) * up
}
