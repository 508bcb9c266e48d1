//! Drawing ids on the device.
//!
//! z = logits/T over the valid vocabulary; the filters keep ids with z at or above a threshold each, the strictest
//! wins: the k-th largest z (top-k), the smallest nucleus whose probability reaches p (top-p), the largest z + ln min_p
//! (min-p). Ids tied with the threshold are kept. Among what is left, argmax(z + g) with Gumbel noise
//! g = −ln(−ln u) is a draw from the renormalised softmax (Gumbel 1954; Maddison et al., arXiv 1411.0030). u comes from
//! a counter-based generator keyed by the row's [`Stream`] and the id, so that a draw depends on nothing else: not on
//! the batch, not on the order of execution, not on the device. Only `[batch]` numbers need to leave the device.

#[cfg(feature = "cubecl")]
pub(crate) mod cube;
pub(crate) mod flex;
mod random;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};

use crate::ShapeError;
use crate::ops::KernelOps;

pub use reference::sample as reference;

/// How ids are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleConfig {
    /// Logits are divided by this; 0 takes the largest logit (log-probabilities are then those at temperature 1).
    pub temperature: f32,
    /// Keep the k largest logits; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of most likely ids whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Keep ids at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Ids from here on are never drawn: rows of the head beyond the tokenizer's ids.
    pub vocabulary: usize,
}

impl SampleConfig {
    pub(crate) fn inverse_temperature(&self) -> f32 {
        if self.temperature == 0.0 { 1.0 } else { 1.0 / self.temperature }
    }

    pub(crate) fn filters(&self) -> (bool, bool, bool) {
        let drawn = self.temperature != 0.0;
        let top_k = self.top_k > 0 && self.top_k < self.vocabulary;
        (drawn && top_k, drawn && self.top_p < 1.0, drawn && self.min_p > 0.0)
    }
}

/// A row's stream of random numbers: every (seed, draw) is independent of every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// What the row's numbers are derived from.
    pub seed: u64,
    /// How many draws came before.
    pub draw: u32,
}

/// The result of [`sample`], each `[batch]`.
#[derive(Debug, Clone)]
pub struct Sampled {
    /// The drawn ids.
    pub ids: Tensor<1, Int>,
    /// Their log-probabilities at the temperature, before any filter.
    pub logprob: Tensor<1>,
}

/// Draws one id per row of logits.
///
/// # Shapes
/// - `logits`: `[batch, rows ≥ vocabulary]`, `streams`: one per row
///
/// # Errors
/// When the shapes do not fit together or a setting is out of its range.
pub fn sample(logits: Tensor<2>, config: SampleConfig, streams: &[Stream]) -> Result<Sampled, ShapeError> {
    const OP: &str = "sample";
    let [batch, rows] = logits.dims();
    ShapeError::check(OP, "streams", &[streams.len()], &[batch])?;
    let fail =
        |what, expected: &str| Err(ShapeError { op: OP, what, found: vec![batch, rows], expected: expected.into() });
    if config.vocabulary == 0 || config.vocabulary > rows {
        return fail("logits", "at least `vocabulary` columns, and a vocabulary above 0");
    }
    if !(config.temperature >= 0.0 && config.temperature.is_finite()) {
        return fail("temperature", "0 (greedy) or above");
    }
    if !(config.top_p > 0.0 && config.top_p <= 1.0) {
        return fail("top_p", "above 0, at most 1");
    }
    if !(0.0..1.0).contains(&config.min_p) {
        return fail("min_p", "at least 0, below 1");
    }
    let logits = crate::plain(logits);
    if !crate::fused(OP, &logits)? {
        return Ok(reference::sample(logits, config, streams));
    }
    let (ids, logprob) = <Dispatch as KernelOps>::sample(logits.into_dispatch(), config, streams.to_vec());
    Ok(Sampled { ids: Tensor::from_dispatch(ids), logprob: Tensor::from_dispatch(logprob) })
}
