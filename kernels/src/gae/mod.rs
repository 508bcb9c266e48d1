//! Generalized advantage estimation (Schulman et al., arXiv 1506.02438, eq. 11–16) as a segmented reverse scan.
//!
//! Within each segment, with V = A = 0 after its last token: δ_t = r_t + γ·V_{t+1} − V_t, A_t = δ_t + γλ·A_{t+1},
//! R_t = A_t + V_t. On GPUs a cube owns a segment: every unit scans a stretch as if nothing followed, carries are
//! chained, and each unit adds what follows its stretch. Nothing crosses a segment's end.

#[cfg(feature = "cubecl")]
pub(crate) mod cube;
pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ops::KernelOps;
use crate::{Segments, ShapeError};

pub use reference::gae as reference;

/// The result of [`gae`], each `[n]`, without gradient.
#[derive(Debug, Clone)]
pub struct Gae {
    /// A_t, not whitened.
    pub advantages: Tensor<1>,
    /// R_t = A_t + V_t, the critic's target.
    pub returns: Tensor<1>,
}

/// Advantages and returns of action tokens, one segment per row. Gradients do not flow.
///
/// # Shapes
/// - `rewards`, `values`: `[n]`, covered by `segments`; `values[t]` is the value of the state before token t
///
/// # Errors
/// When the lengths differ or a factor is not in \[0, 1\].
pub fn gae(
    rewards: Tensor<1>,
    values: Tensor<1>,
    segments: &Segments,
    gamma: f32,
    lambda: f32,
) -> Result<Gae, ShapeError> {
    const OP: &str = "gae";
    ShapeError::check(OP, "values", &values.dims(), &rewards.dims())?;
    ShapeError::check(OP, "segments' last offset", &[segments.tokens()], &rewards.dims())?;
    for (what, factor) in [("gamma", gamma), ("lambda", lambda)] {
        if !(0.0..=1.0).contains(&factor) {
            let expected = format!("a number in [0, 1], not {factor}");
            return Err(ShapeError { op: OP, what, found: vec![], expected });
        }
    }
    let (rewards, values) = (crate::plain(rewards), crate::plain(values));
    if !crate::fused_f32(OP, &rewards)? {
        return Ok(reference::gae(rewards, values, segments, gamma, lambda));
    }
    let (advantages, returns) =
        <Dispatch as KernelOps>::gae(rewards.into_dispatch(), values.into_dispatch(), segments.clone(), gamma, lambda);
    Ok(Gae { advantages: Tensor::from_dispatch(advantages), returns: Tensor::from_dispatch(returns) })
}
