//! CubeCL: one implementation for CUDA, Vulkan, WebGPU and CubeCL's CPU runtime.

use burn::backend::ops::IntTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{DType, IntDType};
use burn_cubecl::CubeBackend;

use crate::cache::{Slots, Spans};
use crate::cube::{dense, dense_as};
use crate::ops::KernelOps;
use crate::ppo::PpoLossConfig;
use crate::sample::{SampleConfig, Stream};
use crate::{Segments, attention, cache, gae, logprob, ppo, sample};

fn f32(t: FloatTensor<CubeBackend>) -> FloatTensor<CubeBackend> {
    dense_as(t, DType::F32)
}

fn i32(t: IntTensor<CubeBackend>) -> IntTensor<CubeBackend> {
    dense(CubeBackend::int_cast(t, IntDType::I32))
}

impl KernelOps for CubeBackend {
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        segments: Segments,
    ) -> FloatTensor<Self> {
        attention::cube::forward(q, k, v, &segments).0
    }

    fn attention_forward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        segments: Segments,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        attention::cube::forward(q, k, v, &segments)
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
        attention::cube::backward([q, k, v, out, grad], lse, &segments)
    }

    fn linear_logprob(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        temperature: f32,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let dtype = hidden.dtype;
        let (hidden, weight, targets) = (dense(hidden), dense_as(weight, dtype), i32(targets));
        logprob::cube::forward(&hidden, &weight, &targets, temperature, vocabulary)
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
        let dtype = hidden.dtype;
        let (hidden, weight, targets) = (dense(hidden), dense_as(weight, dtype), i32(targets));
        let (out, grad) = (f32(out), f32(grad));
        logprob::cube::backward([&hidden, &weight, &targets], &out, &grad, temperature, vocabulary, needed)
    }

    fn cache_write(cache: FloatTensor<Self>, new: FloatTensor<Self>, slots: Slots) -> FloatTensor<Self> {
        cache::cube::write(cache, new, &slots)
    }

    fn cached_attention(
        q: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        spans: Spans,
    ) -> FloatTensor<Self> {
        attention::cube::forward_cached(q, keys, values, &spans)
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
        let inputs = [logprob, entropy, old_logprob, advantage, weight, reference, importance].map(f32);
        ppo::cube::policy(inputs, config, has)
    }

    fn value_loss_forward(
        values: FloatTensor<Self>,
        old_values: FloatTensor<Self>,
        returns: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        clip: Option<f32>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        ppo::cube::value([values, old_values, returns, weight].map(f32), clip)
    }

    fn gae(
        rewards: FloatTensor<Self>,
        values: FloatTensor<Self>,
        segments: Segments,
        gamma: f32,
        lambda: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        gae::cube::gae(&f32(rewards), &f32(values), &segments, gamma, lambda)
    }

    fn sample(
        logits: FloatTensor<Self>,
        config: SampleConfig,
        streams: Vec<Stream>,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        sample::cube::sample(&dense(logits), config, &streams)
    }
}
