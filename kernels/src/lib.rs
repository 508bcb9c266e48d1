//! The custom tensor operations of rlver.
//!
//! | operation | what it computes | gradients |
//! |---|---|---|
//! | [`attention`](attention::attention) | causal grouped-query attention over packed sequences | q, k, v |
//! | [`cached_attention`](cache::cached_attention) | attention of new tokens against a preallocated key/value cache | none |
//! | [`linear_logprob`](logprob::linear_logprob) | log-probability and entropy of a vocabulary projection, streamed | hidden, weight |
//! | [`ppo_loss`](ppo::ppo_loss), [`value_loss`](ppo::value_loss) | clipped policy and value losses | log-probability, entropy, values |
//! | [`linear`](linear::linear), [`rms_norm`](norm::rms_norm), [`rotate`](rotary::rotate), [`swiglu`](swiglu::swiglu) | the rest of a Qwen2 block | all inputs |
//! | [`adamw`](adamw::adamw) | an optimizer step | none |
//! | [`gae`](gae::gae) | advantages and returns, a segmented reverse scan | none |
//! | [`sample`](sample::sample) | ids and log-probabilities drawn on the device | none |
//! | [`ordered_sum`] | a sum with the same bits every time | all inputs |
//!
//! [`host::Decoder`] is a whole network for generation on Flex, with the bits of these operations.
//!
//! Every operation has a `reference` made of plain Burn operations (or a host loop in f64 where those do not fit), which
//! is the definition the fused code is tested against. [`set_reference`] switches all operations to their reference.
//!
//! The fused code exists twice. On Flex (the default CPU device) it is plain Rust over `gemm` and `rayon`, f32 only. With
//! the cargo features `cuda`, `wgpu`, `vulkan` and `cpu` one CubeCL source runs on all of them, in f32, f16 and bf16 with
//! f32 arithmetic; `linear`, `rms_norm`, `rotate` and `swiglu` take their references there. An element type that the
//! device cannot compute in is refused, because some devices return garbage for it without a word. In f16 and bf16
//! attention and `linear_logprob` multiply on tensor cores where the device has them (`set_tensor_cores` switches them
//! off); softmax weights and gradients of logits are then rounded to that type, sums stay f32. The feature `fusion` puts
//! Burn's fusion layer between: the operations here stay as they are, plain ones around them are merged.
//!
//! Kernels know tensors, not language: nothing here has heard of tokens' meaning, dialogues or emotions.

pub mod adamw;
pub mod attention;
mod backends;
pub mod cache;
#[cfg(feature = "cubecl")]
mod cube;
mod error;
#[cfg(feature = "cubecl")]
mod fragment;
pub mod gae;
pub mod host;
pub mod linear;
pub mod logprob;
mod memory;
pub mod norm;
pub mod ops;
pub mod ppo;
#[cfg(all(test, feature = "ptx"))]
mod ptx;
pub mod rotary;
pub mod sample;
mod segments;
mod simd;
mod spans;
#[cfg(feature = "fusion")]
mod specs;
mod sum;
pub mod swiglu;
#[cfg(all(test, feature = "cubecl"))]
mod tensor_cores;

use std::sync::atomic::{AtomicBool, Ordering};

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Tensor};

pub use error::ShapeError;
pub use memory::keep_freed_memory;
pub use segments::Segments;
pub use sum::ordered_sum;

static REFERENCE: AtomicBool = AtomicBool::new(false);

/// Makes every operation run its plain-Burn reference instead of its fused code (a debugging aid), process-wide.
pub fn set_reference(on: bool) {
    REFERENCE.store(on, Ordering::Relaxed);
}

/// Whether half-precision products run on tensor cores where a device has them (they do unless told otherwise), process-wide:
/// a debugging aid.
#[cfg(feature = "cubecl")]
pub fn set_tensor_cores(on: bool) {
    fragment::allow(on);
}

/// Whether `tensor` can take the fused path: f32 on Flex; f32, f16 and bf16 on CubeCL's devices. Never while
/// [`set_reference`] is on.
///
/// # Errors
/// When the device does not compute in the tensor's type at all.
pub(crate) fn fused<const D: usize>(op: &'static str, tensor: &Tensor<D>) -> Result<bool, ShapeError> {
    let (device, dtype) = (tensor.device().without_autodiff(), tensor.dtype());
    let cube = is_cube(&device);
    if cube && !device.supports_dtype(dtype) {
        let expected = format!("an element type this device computes in, not {dtype:?}: cast to F32");
        return Err(ShapeError { op, what: "the input", found: vec![], expected });
    }
    let types: &[DType] = if cube { &[DType::F32, DType::F16, DType::BF16] } else { &[DType::F32] };
    Ok(!REFERENCE.load(Ordering::Relaxed) && types.contains(&dtype) && (cube || is_flex(&device)))
}

/// As [`fused`], for operations that compute in f32 only.
pub(crate) fn fused_f32<const D: usize>(op: &'static str, tensor: &Tensor<D>) -> Result<bool, ShapeError> {
    Ok(fused(op, tensor)? && tensor.dtype() == DType::F32)
}

/// As [`fused`], for operations that are native on Flex only.
pub(crate) fn fused_block<const D: usize>(op: &'static str, tensor: &Tensor<D>) -> Result<bool, ShapeError> {
    Ok(fused(op, tensor)? && is_flex(&tensor.device().without_autodiff()))
}

/// Refuses inputs of different element types: a kernel reads all of them as one.
pub(crate) fn same_type(op: &'static str, first: DType, others: &[(&'static str, DType)]) -> Result<(), ShapeError> {
    match others.iter().find(|(_, dtype)| *dtype != first) {
        Some((what, dtype)) => {
            let expected = format!("the first input's element type {first:?}, not {dtype:?}");
            Err(ShapeError { op, what, found: vec![], expected })
        }
        None => Ok(()),
    }
}

/// The tensor without autodiff, for operations that have no gradient.
pub(crate) fn plain<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.device().is_autodiff() { tensor.inner() } else { tensor }
}

/// Whether the device is Flex, the CPU without CubeCL.
pub fn is_flex(device: &Device) -> bool {
    matches!(device.as_dispatch(), DispatchDevice::Flex(_))
}

#[cfg(feature = "cubecl")]
fn is_cube(device: &Device) -> bool {
    matches!(device.as_dispatch(), DispatchDevice::Cube(_))
}

#[cfg(not(feature = "cubecl"))]
fn is_cube(_: &Device) -> bool {
    false
}
