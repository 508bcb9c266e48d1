//! A preallocated key/value cache, written in place, and attention of new tokens against it.

pub(crate) mod flex;
mod reference;

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ShapeError;
use crate::attention::check_heads;
use crate::ops::KernelOps;

pub use reference::{cached_attention as reference, write as reference_write};

/// Consecutive new tokens of one cache row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The cache row.
    pub row: usize,
    /// Position of the first new token in the row; everything before it is in the cache already.
    pub start: usize,
    /// Number of new tokens.
    pub length: usize,
}

/// The spans of a step, in the order in which their tokens are packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans(pub(crate) Arc<[Span]>);

/// Where each packed token goes: (row, position).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots(pub(crate) Arc<[(usize, usize)]>);

impl Spans {
    /// Spans in packing order.
    pub fn new(spans: Vec<Span>) -> Spans {
        Spans(spans.into())
    }

    /// Number of packed tokens.
    pub fn tokens(&self) -> usize {
        self.0.iter().map(|s| s.length).sum()
    }

    /// Each packed token's position in its row.
    pub fn positions(&self) -> Vec<usize> {
        self.0.iter().flat_map(|s| s.start..s.start + s.length).collect()
    }

    /// The cache slot of every packed token.
    pub fn slots(&self) -> Slots {
        Slots(self.0.iter().flat_map(|s| (s.start..s.start + s.length).map(|p| (s.row, p))).collect())
    }

    fn check(&self, op: &'static str, cache: [usize; 4], tokens: usize) -> Result<(), ShapeError> {
        ShapeError::check(op, "new tokens", &[tokens], &[self.tokens()])?;
        match self.0.iter().find(|s| s.row >= cache[0] || s.start + s.length > cache[1]) {
            Some(span) => {
                let expected = format!("room for {span:?}");
                Err(ShapeError { op, what: "cache", found: cache.to_vec(), expected })
            }
            None => Ok(()),
        }
    }
}

/// Writes new keys or values into the cache, in place when the caller held the only reference.
///
/// # Shapes
/// - `cache`: `[rows, capacity, kv_heads, head_dim]`, `new`: `[tokens, kv_heads, head_dim]` → the cache
///
/// # Errors
/// When the spans do not fit the cache or the tokens.
pub fn write(cache: Tensor<4>, new: Tensor<3>, spans: &Spans) -> Result<Tensor<4>, ShapeError> {
    let [_, _, kv_heads, head_dim] = cache.dims();
    let tokens = new.dims()[0];
    spans.check("cache write", cache.dims(), tokens)?;
    ShapeError::check("cache write", "new", &new.dims(), &[tokens, kv_heads, head_dim])?;
    if !crate::fused(&new) {
        return Ok(reference::write(cache, new, spans));
    }
    let out = <Dispatch as KernelOps>::cache_write(cache.into_dispatch(), new.into_dispatch(), spans.slots());
    Ok(Tensor::from_dispatch(out))
}

/// Attention of new tokens, whose keys and values are already in the cache: each sees its row up to itself.
///
/// # Shapes
/// - `q`: `[tokens, heads, head_dim]`, `keys`, `values`: `[rows, capacity, kv_heads, head_dim]` → as `q`
///
/// # Errors
/// When the spans do not fit the cache or the tokens.
pub fn cached_attention(
    q: Tensor<3>,
    keys: Tensor<4>,
    values: Tensor<4>,
    spans: &Spans,
) -> Result<Tensor<3>, ShapeError> {
    let [rows, capacity, kv_heads, _] = keys.dims();
    let [tokens, _, head_dim] = q.dims();
    check_heads("cached_attention", q.dims(), kv_heads)?;
    ShapeError::check("cached_attention", "keys", &keys.dims(), &[rows, capacity, kv_heads, head_dim])?;
    ShapeError::check("cached_attention", "values", &values.dims(), &keys.dims())?;
    spans.check("cached_attention", keys.dims(), tokens)?;
    if !crate::fused(&q) {
        return Ok(reference::cached_attention(q, keys, values, spans));
    }
    let out = <Dispatch as KernelOps>::cached_attention(
        q.into_dispatch(),
        keys.into_dispatch(),
        values.into_dispatch(),
        spans.clone(),
    );
    Ok(Tensor::from_dispatch(out))
}
