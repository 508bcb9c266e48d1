//! One AdamW step (Loshchilov and Hutter, arXiv 1711.05101) on flat f32 buffers, as torch has it: decoupled weight decay,
//! bias-corrected moments, ε outside the root.
//!
//! ```text
//! g ← s·g    m ← β₁·m + (1 − β₁)·g    v ← β₂·v + (1 − β₂)·g²
//! w ← (1 − lr·λ)·w − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
//! ```
//!
//! The fused code rounds after the same operations as the reference, so that both give the same bits; it reads and writes
//! every buffer once, in place where nobody else holds it.

pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ShapeError;
use crate::ops::BlockOps;

pub use reference::adamw as reference;

/// The numbers of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWStep {
    /// s: what the gradient is multiplied by first, for clipping.
    pub scale: f64,
    /// lr.
    pub learning_rate: f64,
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// ε.
    pub eps: f64,
    /// λ.
    pub weight_decay: f64,
    /// t, from 1.
    pub step: u64,
}

impl AdamWStep {
    /// 1 − βᵗ for both moments.
    pub(crate) fn corrections(&self) -> [f64; 2] {
        self.betas.map(|beta| 1.0 - beta.powf(self.step as f64))
    }
}

/// A parameter with its moments.
#[derive(Debug)]
pub struct Updated {
    /// w.
    pub weight: Tensor<1>,
    /// m.
    pub first: Tensor<1>,
    /// v.
    pub second: Tensor<1>,
}

/// The parameter and its moments after a step. None of them is tracked for gradients.
///
/// # Shapes
/// - all `[n]`
///
/// # Errors
/// When the lengths differ.
pub fn adamw(parameter: Updated, gradient: Tensor<1>, step: AdamWStep) -> Result<Updated, ShapeError> {
    const OP: &str = "adamw";
    let n = parameter.weight.dims();
    ShapeError::check(OP, "gradient", &gradient.dims(), &n)?;
    ShapeError::check(OP, "first", &parameter.first.dims(), &n)?;
    ShapeError::check(OP, "second", &parameter.second.dims(), &n)?;
    let Updated { weight, first, second } = parameter;
    let (weight, gradient) = (crate::plain(weight), crate::plain(gradient));
    if !crate::fused_block(OP, &weight)? {
        return Ok(reference::adamw(Updated { weight, first, second }, gradient, step));
    }
    let (weight, first, second) = <Dispatch as BlockOps>::adamw(
        weight.into_dispatch(),
        first.into_dispatch(),
        second.into_dispatch(),
        gradient.into_dispatch(),
        step,
    );
    let [weight, first, second] = [weight, first, second].map(Tensor::from_dispatch);
    Ok(Updated { weight, first, second })
}
