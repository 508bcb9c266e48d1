//! The CubeCL kernels of packed and cached attention.
//!
//! A cube owns a block of query rows (or, for dK and dV, of keys) and walks the other side in blocks that fit shared
//! memory. Without tensor cores all arithmetic is f32 whatever the tensors hold. A unit keeps a strided patch of every product in
//! registers; sums have one order, so results are reproducible bit by bit.
//!
//! In half precision, `tensor_forward` and `tensor_backward` do the same with products on tensor cores where the device
//! has them and a [`Plan`](plan::Plan) fits the heads: softmax weights and slopes are then rounded to the tensors' type
//! before they are multiplied, and only they. In f16 a slope below 6e-8 becomes zero there: scale a loss whose gradients are that
//! small. (bf16 has the range of f32.)

mod backward;
mod forward;
mod plan;
mod tensor_backward;
mod tensor_forward;
mod tile;

pub(crate) use backward::backward;
pub(crate) use forward::{forward, forward_cached};
pub(crate) use tile::{Pass, Tile};

#[cfg(all(test, feature = "ptx"))]
pub(crate) use {
    backward::kernels as backward_kernels, forward::kernels as forward_kernels, plan::Plan,
    tensor_backward::kernels as tensor_backward_kernels, tensor_forward::kernels as tensor_forward_kernels,
};
