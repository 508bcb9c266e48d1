//! The custom tensor operations of rlver.
//!
//! | operation | what it computes | gradients |
//! |---|---|---|
//! | [`attention`](attention::attention) | causal grouped-query attention over packed sequences | q, k, v |
//! | [`cached_attention`](cache::cached_attention) | attention of new tokens against a preallocated key/value cache | none |
//! | [`linear_logprob`](logprob::linear_logprob) | log-probability and entropy of a vocabulary projection, streamed | hidden, weight |
//! | [`ppo_loss`](ppo::ppo_loss), [`value_loss`](ppo::value_loss) | clipped policy and value losses | log-probability, entropy, values |
//! | [`linear`](linear::linear), [`rms_norm`](norm::rms_norm), [`rotate`](rotary::rotate), [`swiglu`](swiglu::swiglu) | the rest of a Qwen2 block | all inputs |
//!
//! Every operation has a `reference` made of plain Burn operations, which is the definition the fused code is tested
//! against and the implementation on devices that have no fused one yet. On Flex (the default CPU device) the fused
//! code is plain Rust over `gemm` and `rayon`. [`set_reference`] switches all operations to their reference.
//!
//! Kernels know tensors, not language: nothing here has heard of tokens' meaning, dialogues or emotions.

pub mod attention;
mod backends;
pub mod cache;
mod error;
pub mod linear;
pub mod logprob;
pub mod norm;
pub mod ops;
pub mod ppo;
pub mod rotary;
mod segments;
mod simd;
mod spans;
pub mod swiglu;

use std::sync::atomic::{AtomicBool, Ordering};

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Tensor};

pub use error::ShapeError;
pub use segments::Segments;

static REFERENCE: AtomicBool = AtomicBool::new(false);

/// Makes every operation run its plain-Burn reference instead of its fused code (a debugging aid), process-wide.
pub fn set_reference(on: bool) {
    REFERENCE.store(on, Ordering::Relaxed);
}

/// Whether `tensor` can take the fused path: an f32 tensor on the Flex device, unless [`set_reference`] is on.
pub(crate) fn fused<const D: usize>(tensor: &Tensor<D>) -> bool {
    !REFERENCE.load(Ordering::Relaxed) && tensor.dtype() == DType::F32 && is_flex(tensor.device())
}

fn is_flex(device: Device) -> bool {
    matches!(device.without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}
