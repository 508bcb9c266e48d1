//! Shape and element type of every operation's outputs, from those of its inputs.
//!
//! Burn's fusion layer defers operations and hands out their results before they ran, so it has to be told what they
//! will be; it never compares that with what comes. `tests/fusion.rs` does, for every operation. Each function takes its
//! operation's arguments in order and says what [`CubeBackend`](burn_cubecl::CubeBackend) returns for them.

use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};

use crate::Segments;
use crate::ppo::{PPO_SUMS, PpoLossConfig, VALUE_SUMS};
use crate::sample::{SampleConfig, Stream};
use crate::spans::{Slots, Spans};

fn spec<const D: usize>(shape: [usize; D], dtype: DType) -> TensorSpec {
    TensorSpec::new(Shape::from(shape), dtype)
}

/// The shape of one, the element type of the other.
fn like(shape: &TensorSpec, dtype: &TensorSpec) -> TensorSpec {
    TensorSpec::new(shape.shape.clone(), dtype.dtype)
}

pub(crate) fn attention(q: &TensorSpec, k: &TensorSpec, _v: &TensorSpec, _segments: &Segments) -> TensorSpec {
    like(q, k)
}

pub(crate) fn attention_forward(
    q: &TensorSpec,
    k: &TensorSpec,
    _v: &TensorSpec,
    _segments: &Segments,
) -> (TensorSpec, TensorSpec) {
    let [tokens, heads, _] = q.shape.dims();
    (like(q, k), spec([tokens, heads], DType::F32))
}

pub(crate) fn attention_backward(
    q: &TensorSpec,
    k: &TensorSpec,
    _v: &TensorSpec,
    _out: &TensorSpec,
    _lse: &TensorSpec,
    _grad: &TensorSpec,
    _segments: &Segments,
) -> (TensorSpec, TensorSpec, TensorSpec) {
    (like(q, k), k.clone(), k.clone())
}

pub(crate) fn linear_logprob(
    hidden: &TensorSpec,
    _weight: &TensorSpec,
    _targets: &TensorSpec,
    _temperature: &f32,
    _vocabulary: &usize,
) -> TensorSpec {
    spec([3, hidden.shape[0]], DType::F32)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn linear_logprob_backward(
    hidden: &TensorSpec,
    weight: &TensorSpec,
    _targets: &TensorSpec,
    _out: &TensorSpec,
    _grad: &TensorSpec,
    _temperature: &f32,
    _vocabulary: &usize,
    needed: &[bool; 2],
) -> (TensorSpec, TensorSpec) {
    let gradient = |of: &TensorSpec, needed: bool| {
        let [rows, width] = of.shape.dims();
        spec([if needed { rows } else { 0 }, width], hidden.dtype)
    };
    (gradient(hidden, needed[0]), gradient(weight, needed[1]))
}

pub(crate) fn cache_write(cache: &TensorSpec, _new: &TensorSpec, _slots: &Slots) -> TensorSpec {
    cache.clone()
}

pub(crate) fn cached_attention(q: &TensorSpec, keys: &TensorSpec, _values: &TensorSpec, _spans: &Spans) -> TensorSpec {
    like(q, keys)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn ppo_loss(
    logprob: &TensorSpec,
    _entropy: &TensorSpec,
    _old_logprob: &TensorSpec,
    _advantage: &TensorSpec,
    _weight: &TensorSpec,
    _reference: &TensorSpec,
    _importance: &TensorSpec,
    _config: &PpoLossConfig,
    _has: &[bool; 2],
) -> (TensorSpec, TensorSpec) {
    (spec([PPO_SUMS], DType::F32), spec([logprob.shape[0]], DType::F32))
}

pub(crate) fn value_loss(
    values: &TensorSpec,
    _old_values: &TensorSpec,
    _returns: &TensorSpec,
    _weight: &TensorSpec,
    _clip: &Option<f32>,
) -> (TensorSpec, TensorSpec) {
    (spec([VALUE_SUMS], DType::F32), spec([values.shape[0]], DType::F32))
}

pub(crate) fn gae(
    rewards: &TensorSpec,
    _values: &TensorSpec,
    _segments: &Segments,
    _gamma: &f32,
    _lambda: &f32,
) -> (TensorSpec, TensorSpec) {
    let each = spec([rewards.shape[0]], DType::F32);
    (each.clone(), each)
}

#[allow(clippy::ptr_arg)] // The macro passes the argument as it is.
pub(crate) fn sample(logits: &TensorSpec, _config: &SampleConfig, _streams: &Vec<Stream>) -> (TensorSpec, TensorSpec) {
    let batch = logits.shape[0];
    (spec([batch], DType::I32), spec([batch], DType::F32))
}
