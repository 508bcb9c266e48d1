//! Log-probability and entropy of a vocabulary projection, without ever holding `[n, vocabulary]`.
//!
//! With z = hidden·Wᵀ / T over the valid vocabulary and L = log Σ exp z:
//! logprob = z_target − L, entropy = L − Σ p·z. Upstream gradients g (of the logprob) and e (of the entropy) give
//! dz = g·(onehot − p) − e·p·(log p + entropy). Chunks of logits are recomputed in the backward.

#[cfg(feature = "cubecl")]
pub(crate) mod cube;
pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};

use crate::ShapeError;
use crate::ops::KernelOps;

pub use reference::linear_logprob as reference;

/// The result of [`linear_logprob`], each `[n]`, natural logarithms.
#[derive(Debug, Clone)]
pub struct LogProb {
    /// log p(target).
    pub logprob: Tensor<1>,
    /// Entropy of the whole distribution.
    pub entropy: Tensor<1>,
}

/// Log-probability of `target` under softmax(logits / temperature), from one row of logits on the host. It adds in the
/// order of [`linear_logprob`] on Flex, so that a sampled token gets the very number the trainer computes for it.
///
/// # Panics
/// When `target` is not an index of `logits`.
pub fn logprob_of(logits: &[f32], temperature: f32, target: usize) -> f32 {
    flex::logprob_of(logits, temperature, target)
}

/// Log-probability of `targets` and entropy under softmax(hidden·weightᵀ / temperature) over the first
/// `vocabulary` ids.
///
/// # Shapes
/// - `hidden`: `[n, width]`, `weight`: `[rows ≥ vocabulary, width]`, `targets`: `[n]`, ids below `vocabulary`
///
/// # Errors
/// When the shapes do not fit together.
pub fn linear_logprob(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    temperature: f32,
    vocabulary: usize,
) -> Result<LogProb, ShapeError> {
    const OP: &str = "linear_logprob";
    let [n, width] = hidden.dims();
    let [rows, weight_width] = weight.dims();
    ShapeError::check(OP, "weight", &[rows, weight_width], &[rows, width])?;
    ShapeError::check(OP, "targets", &targets.dims(), &[n])?;
    if vocabulary == 0 || vocabulary > rows {
        let expected = format!("at least vocabulary = {vocabulary} rows, and vocabulary above 0");
        return Err(ShapeError { op: OP, what: "weight", found: vec![rows, width], expected });
    }
    crate::same_type(OP, hidden.dtype(), &[("weight", weight.dtype())])?;
    let out = if crate::fused(OP, &hidden)? {
        Tensor::<2>::from_dispatch(<Dispatch as KernelOps>::linear_logprob(
            hidden.into_dispatch(),
            weight.into_dispatch(),
            targets.into_dispatch(),
            temperature,
            vocabulary,
        ))
    } else {
        reference::linear_logprob(hidden, weight, targets, temperature, vocabulary)
    };
    // Not `reshape`, which takes a length of 0 for "as before".
    let row = |i: usize| out.clone().narrow(0, i, 1).squeeze_dim::<1>(0);
    Ok(LogProb { logprob: row(0), entropy: row(1) })
}
