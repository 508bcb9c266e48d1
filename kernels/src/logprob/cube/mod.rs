//! The CubeCL kernels of the streamed vocabulary projection.
//!
//! Forward: a cube owns a block of hidden rows and a share of the vocabulary, computes logits tile by tile in
//! registers and keeps running softmax statistics per row; a second kernel merges the shares. Logits never reach
//! memory. Backward: the gradient of a chunk of logits is computed the same way into a scratch buffer of bounded size
//! and multiplied with weight and hidden. In half precision products run on tensor cores where the device has them.

mod backward;
mod forward;
mod product;
mod tensor;

pub(crate) use backward::backward;
pub(crate) use forward::forward;

#[cfg(all(test, feature = "ptx"))]
pub(crate) use {
    backward::kernels as backward_kernels, forward::kernels as forward_kernels, product::Grid,
    product::kernels as product_kernels, tensor::kernels as tensor_kernels,
};
