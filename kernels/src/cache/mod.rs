//! A preallocated key/value cache, written in place, and attention of new tokens against it.

#[cfg(feature = "cubecl")]
pub(crate) mod cube;
mod decode;
pub(crate) mod flex;
mod reference;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::ShapeError;
use crate::error::check_heads;
use crate::ops::KernelOps;

pub use crate::spans::{Slots, Span, Spans};
pub use reference::{cached_attention as reference, write as reference_write};

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
    let (cache, new) = (crate::plain(cache), crate::plain(new));
    crate::same_type("cache write", cache.dtype(), &[("new", new.dtype())])?;
    if !crate::fused("cache write", &new)? {
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
    let (q, keys, values) = (crate::plain(q), crate::plain(keys), crate::plain(values));
    crate::same_type("cached_attention", q.dtype(), &[("keys", keys.dtype()), ("values", values.dtype())])?;
    if !crate::fused("cached_attention", &q)? || !crate::attention::fits(&q) {
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
