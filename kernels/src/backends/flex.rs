//! Flex: unwraps tensors to slices, calls the host code of each operation, wraps the results.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Bytes, DType, Shape};
use burn_flex::{FlexTensor, Layout};

use crate::adamw::AdamWStep;
use crate::cache::{Slots, Spans};
use crate::ops::{BlockOps, KernelOps};
use crate::ppo::PpoLossConfig;
use crate::sample::{SampleConfig, Stream};
use crate::simd::View;
use crate::{Segments, adamw, attention, cache, gae, linear, logprob, norm, ppo, rotary, sample, swiglu};

/// A contiguous f32 tensor that can be read as a slice.
fn dense(t: FlexTensor) -> FlexTensor {
    debug_assert_eq!(t.dtype(), DType::F32);
    if t.as_slice::<f32>().is_some() { t } else { t.to_contiguous() }
}

/// As [`dense`], and nothing in the buffer but the tensor, so that it can be written to.
fn whole(t: FlexTensor) -> FlexTensor {
    let t = dense(t);
    let n = t.shape().num_elements();
    if t.storage::<f32>().len() == n {
        t
    } else {
        FlexTensor::new(Bytes::from_elems(data(&t).to_vec()), Layout::contiguous(t.shape()), DType::F32)
    }
}

/// A matrix whose columns are rows in memory, and nothing else is there: what [`BlockOps::streamed_weight`] makes.
fn streamed(t: &FlexTensor) -> Option<View<'_>> {
    let [rows, columns] = dims(t);
    let layout = t.layout();
    let columns_adjacent =
        layout.strides() == [1, rows as isize] && layout.start_offset() == 0 && rows > 1 && columns > 1;
    columns_adjacent.then(|| View::rows(t.storage(), rows).t())
}

fn data(t: &FlexTensor) -> &[f32] {
    t.as_slice().expect("made dense before")
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(Shape::from(shape)), DType::F32)
}

fn dims<const D: usize>(t: &FlexTensor) -> [usize; D] {
    t.shape().dims()
}

fn indices(t: &FlexTensor) -> Vec<usize> {
    let t = t.to_contiguous();
    match t.dtype() {
        DType::I32 => t.as_slice::<i32>().expect("contiguous").iter().map(|&i| i as usize).collect(),
        DType::I64 => t.as_slice::<i64>().expect("contiguous").iter().map(|&i| i as usize).collect(),
        other => unreachable!("int tensors on Flex are i32 or i64, not {other:?}"),
    }
}

impl BlockOps for Flex {
    fn fused_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let (x, bias) = (dense(x), dense(bias));
        let shape: [usize; 2] = dims(&weight);
        let out = match streamed(&weight) {
            Some(view) => linear::flex::forward(data(&x), view, data(&bias), shape),
            None => {
                let weight = dense(weight);
                linear::flex::forward(data(&x), View::rows(data(&weight), shape[1]), data(&bias), shape)
            }
        };
        tensor(out, [dims::<2>(&x)[0], shape[0]])
    }

    fn streamed_weight(weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let weight = dense(weight);
        let [outputs, inputs] = dims(&weight);
        let columns = linear::flex::transposed(data(&weight), [outputs, inputs]);
        tensor(columns, [inputs, outputs]).transpose(0, 1)
    }

    fn linear_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        needed: [bool; 3],
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (x, weight, grad) = (dense(x), dense(weight), dense(grad));
        let [outputs, inputs] = dims(&weight);
        let g = linear::flex::backward(data(&x), data(&weight), data(&grad), dims(&weight), needed);
        let keep = |need: bool, n: usize| if need { n } else { 0 };
        let [rows, _] = dims::<2>(&x);
        (
            tensor(g.x, [keep(needed[0], rows), inputs]),
            tensor(g.weight, [keep(needed[1], outputs), inputs]),
            tensor(g.bias, [keep(needed[2], outputs)]),
        )
    }

    fn rms_norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, eps: f32) -> FloatTensor<Self> {
        let (x, weight) = (dense(x), dense(weight));
        tensor(norm::flex::forward(data(&x), data(&weight), eps), dims::<2>(&x))
    }

    fn rms_norm_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        eps: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (x, weight, grad) = (dense(x), dense(weight), dense(grad));
        let (dx, dweight) = norm::flex::backward(data(&x), data(&weight), data(&grad), eps);
        (tensor(dx, dims::<2>(&x)), tensor(dweight, dims::<1>(&weight)))
    }

    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        inverse: bool,
    ) -> FloatTensor<Self> {
        let (x, cos, sin) = (dense(x), dense(cos), dense(sin));
        let shape: [usize; 3] = dims(&x);
        tensor(rotary::flex::rotate(data(&x), data(&cos), data(&sin), shape, inverse), shape)
    }

    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        let (gate, up) = (dense(gate), dense(up));
        tensor(swiglu::flex::forward(data(&gate), data(&up)), dims::<2>(&gate))
    }

    fn swiglu_backward(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (gate, up, grad) = (dense(gate), dense(up), dense(grad));
        let (dgate, dup) = swiglu::flex::backward(data(&gate), data(&up), data(&grad));
        (tensor(dgate, dims::<2>(&gate)), tensor(dup, dims::<2>(&up)))
    }

    fn adamw(
        weight: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (mut weight, mut first, mut second) = (whole(weight), whole(first), whole(second));
        let gradient = dense(gradient);
        adamw::flex::adamw(weight.storage_mut(), first.storage_mut(), second.storage_mut(), data(&gradient), step);
        (weight, first, second)
    }
}

impl KernelOps for Flex {
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        segments: Segments,
    ) -> FloatTensor<Self> {
        Self::attention_forward(q, k, v, segments).0
    }

    fn attention_forward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        segments: Segments,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (q, k, v) = (dense(q), dense(k), dense(v));
        let [tokens, heads, head_dim] = dims(&q);
        let [_, kv_heads, _] = dims(&k);
        let shape = attention::problem::Heads { heads, kv_heads, head_dim };
        let (out, lse) = attention::flex::forward(data(&q), data(&k), data(&v), &segments, shape);
        (tensor(out, [tokens, heads, head_dim]), tensor(lse, [tokens, heads]))
    }

    fn attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        out: FloatTensor<Self>,
        lse: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        segments: Segments,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (q, k, v, out, lse, grad) = (dense(q), dense(k), dense(v), dense(out), dense(lse), dense(grad));
        let [_, heads, head_dim] = dims(&q);
        let [_, kv_heads, _] = dims(&k);
        let shape = attention::problem::Heads { heads, kv_heads, head_dim };
        let saved = attention::flex::Saved { q: data(&q), k: data(&k), v: data(&v), out: data(&out), lse: data(&lse) };
        let (dq, dk, dv) = attention::flex::backward(saved, data(&grad), &segments, shape);
        (tensor(dq, dims::<3>(&q)), tensor(dk, dims::<3>(&k)), tensor(dv, dims::<3>(&v)))
    }

    fn linear_logprob(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        temperature: f32,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let (hidden, weight, targets) = (dense(hidden), dense(weight), indices(&targets));
        let n = targets.len();
        let head = logprob::flex::Head { weight: data(&weight), width: dims::<2>(&weight)[1], vocabulary, temperature };
        tensor(logprob::flex::forward(data(&hidden), head, &targets), [3, n])
    }

    fn linear_logprob_backward(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        out: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        temperature: f32,
        vocabulary: usize,
        needed: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (hidden, weight, out, grad) = (dense(hidden), dense(weight), dense(out), dense(grad));
        let targets = indices(&targets);
        let [rows, width] = dims(&weight);
        let head = logprob::flex::Head { weight: data(&weight), width, vocabulary, temperature };
        let (dhidden, dweight) =
            logprob::flex::backward(data(&hidden), head, &targets, data(&out), data(&grad), rows, needed);
        let keep = |need: bool, n: usize| if need { n } else { 0 };
        (tensor(dhidden, [keep(needed[0], targets.len()), width]), tensor(dweight, [keep(needed[1], rows), width]))
    }

    fn cache_write(cache: FloatTensor<Self>, new: FloatTensor<Self>, slots: Slots) -> FloatTensor<Self> {
        let new = dense(new);
        let shape: [usize; 4] = dims(&cache);
        let mut cache = dense(cache);
        cache::flex::write(cache.storage_mut(), data(&new), shape, &slots);
        cache
    }

    fn cached_attention(
        q: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        spans: Spans,
    ) -> FloatTensor<Self> {
        let (q, keys, values) = (dense(q), dense(keys), dense(values));
        let shape: [usize; 3] = dims(&q);
        let out = cache::flex::attention(data(&q), data(&keys), data(&values), shape, dims(&keys), &spans);
        tensor(out, shape)
    }

    fn ppo_loss_forward(
        logprob: FloatTensor<Self>,
        entropy: FloatTensor<Self>,
        old_logprob: FloatTensor<Self>,
        advantage: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        reference: FloatTensor<Self>,
        importance: FloatTensor<Self>,
        config: PpoLossConfig,
        has: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [logprob, entropy, old_logprob, advantage, weight, reference, importance].map(dense);
        let [logprob, entropy, old, advantage, weight, reference, importance] = inputs.each_ref().map(data);
        let tokens = ppo::flex::Tokens {
            logprob,
            entropy,
            old,
            advantage,
            weight,
            reference: has[0].then_some(reference),
            importance: has[1].then_some(importance),
        };
        let (sums, slopes) = ppo::flex::policy(tokens, config);
        let n = slopes.len();
        (tensor(sums, [ppo::PPO_SUMS]), tensor(slopes, [n]))
    }

    fn value_loss_forward(
        values: FloatTensor<Self>,
        old_values: FloatTensor<Self>,
        returns: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        clip: Option<f32>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [values, old_values, returns, weight].map(dense);
        let (sums, slopes) = ppo::flex::value(inputs.each_ref().map(data), clip);
        let n = slopes.len();
        (tensor(sums, [ppo::VALUE_SUMS]), tensor(slopes, [n]))
    }

    fn gae(
        rewards: FloatTensor<Self>,
        values: FloatTensor<Self>,
        segments: Segments,
        gamma: f32,
        lambda: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (rewards, values) = (dense(rewards), dense(values));
        let (advantages, returns) = gae::flex::gae(data(&rewards), data(&values), &segments, gamma, lambda);
        let n = advantages.len();
        (tensor(advantages, [n]), tensor(returns, [n]))
    }

    fn sample(
        logits: FloatTensor<Self>,
        config: SampleConfig,
        streams: Vec<Stream>,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        let logits = dense(logits);
        let [batch, columns] = dims(&logits);
        let (ids, logprob) = sample::flex::sample(data(&logits), columns, config, &streams);
        let ids = FlexTensor::new(Bytes::from_elems(ids), Layout::contiguous(Shape::from([batch])), DType::I32);
        (ids, tensor(logprob, [batch]))
    }
}
