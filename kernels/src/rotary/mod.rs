//! Rotary position embedding (Su et al., arXiv 2104.09864) in the half-split layout of Qwen2 and Llama:
//! y₁ = x₁·cos − x₂·sin, y₂ = x₂·cos + x₁·sin, where x₁ and x₂ are the halves of a head.

pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor, TensorData};

use crate::ShapeError;
use crate::ops::BlockOps;

pub use reference::rotate as reference;

/// The angles' cosines and sines for a list of positions, computed once per forward pass and shared by all layers.
#[derive(Debug, Clone)]
pub struct RotaryTable {
    cos: Tensor<2>,
    sin: Tensor<2>,
}

impl RotaryTable {
    /// Angles position · θ^(−2i/head_dim), in f64 before rounding to f32.
    pub fn new(positions: &[usize], head_dim: usize, theta: f64, device: &Device) -> RotaryTable {
        let half = head_dim / 2;
        let frequencies = frequencies(head_dim, theta);
        let (mut cos, mut sin) =
            (Vec::with_capacity(positions.len() * half), Vec::with_capacity(positions.len() * half));
        for &position in positions {
            for frequency in &frequencies {
                let (c, s) = angle(position, *frequency);
                cos.push(c);
                sin.push(s);
            }
        }
        let shape = [positions.len(), half];
        RotaryTable {
            cos: Tensor::from_data(TensorData::new(cos, shape), device),
            sin: Tensor::from_data(TensorData::new(sin, shape), device),
        }
    }
}

/// θ^(−2i/head_dim).
pub(crate) fn frequencies(head_dim: usize, theta: f64) -> Vec<f64> {
    (0..head_dim / 2).map(|i| theta.powf(-((2 * i) as f64) / head_dim as f64)).collect()
}

/// Cosine and sine at a position.
pub(crate) fn angle(position: usize, frequency: f64) -> (f32, f32) {
    let angle = position as f64 * frequency;
    (angle.cos() as f32, angle.sin() as f32)
}

/// Rotates every head of every token by its position's angles.
///
/// # Shapes
/// - `x`: `[tokens, heads, head_dim]` → the same; `table` made for `tokens` positions
///
/// # Errors
/// When the table is for another number of tokens or another head width.
pub fn rotate(x: Tensor<3>, table: &RotaryTable) -> Result<Tensor<3>, ShapeError> {
    let [tokens, _, head_dim] = x.dims();
    ShapeError::check("rotate", "table", &table.cos.dims(), &[tokens, head_dim / 2])?;
    if !crate::fused_block("rotate", &x)? {
        return Ok(reference::rotate(x, table));
    }
    let (cos, sin) = (table.cos.clone(), table.sin.clone());
    let out = <Dispatch as BlockOps>::rotate(x.into_dispatch(), cos.into_dispatch(), sin.into_dispatch(), false);
    Ok(Tensor::from_dispatch(out))
}
