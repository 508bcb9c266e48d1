//! The operations a backend can implement natively. Forward and backward are both primitives, so that the autodiff
//! wrapper calls whichever backend it wraps.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

use crate::Segments;
use crate::adamw::AdamWStep;
use crate::ppo::PpoLossConfig;
use crate::sample::{SampleConfig, Stream};
use crate::spans::{Slots, Spans};
#[cfg(feature = "fusion")]
use crate::specs;

/// The operations with an implementation on every device. Methods named `*_forward` and `*_backward` run on the inner
/// backend only.
#[backend_extension(Cube: cfg(feature = "cubecl"), Flex, Autodiff, Fusion: cfg(feature = "fusion"))]
pub trait KernelOps: Backend {
    /// See [`crate::attention::attention`].
    #[fusion(meta = specs::attention)]
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        segments: Segments,
    ) -> FloatTensor<Self>;
    /// Output `[tokens, heads, head_dim]` and log-sum-exp `[tokens, heads]`.
    #[fusion(meta = specs::attention_forward)]
    fn attention_forward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        segments: Segments,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
    /// Gradients of q, k and v.
    #[fusion(meta = specs::attention_backward)]
    fn attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        out: FloatTensor<Self>,
        lse: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        segments: Segments,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Log-probability, entropy and log-sum-exp as the rows of `[3, n]`; see [`crate::logprob::linear_logprob`].
    #[fusion(meta = specs::linear_logprob)]
    fn linear_logprob(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        temperature: f32,
        vocabulary: usize,
    ) -> FloatTensor<Self>;
    /// Gradients of hidden and weight; those not in `needed` come back empty.
    #[allow(clippy::too_many_arguments)]
    #[fusion(meta = specs::linear_logprob_backward)]
    fn linear_logprob_backward(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        out: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        temperature: f32,
        vocabulary: usize,
        needed: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// See [`crate::cache::write`].
    #[fusion(meta = specs::cache_write)]
    fn cache_write(cache: FloatTensor<Self>, new: FloatTensor<Self>, slots: Slots) -> FloatTensor<Self>;
    /// See [`crate::cache::cached_attention`].
    #[fusion(meta = specs::cached_attention)]
    fn cached_attention(
        q: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        spans: Spans,
    ) -> FloatTensor<Self>;

    /// Loss and metrics `[6]` of [`crate::ppo::ppo_loss`]. `has` says whether reference log-probabilities and
    /// importance weights are there; those that are not have length 1.
    #[allow(clippy::too_many_arguments)]
    #[fusion(default)]
    fn ppo_loss(
        logprob: FloatTensor<Self>,
        entropy: FloatTensor<Self>,
        old_logprob: FloatTensor<Self>,
        advantage: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        reference: FloatTensor<Self>,
        importance: FloatTensor<Self>,
        config: PpoLossConfig,
        has: [bool; 2],
    ) -> FloatTensor<Self> {
        Self::ppo_loss_forward(logprob, entropy, old_logprob, advantage, weight, reference, importance, config, has).0
    }
    /// The same, and d loss/d logprob `[n]`.
    #[allow(clippy::too_many_arguments)]
    #[fusion(meta = specs::ppo_loss)]
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
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Loss and clipped tokens `[2]` of [`crate::ppo::value_loss`].
    #[fusion(default)]
    fn value_loss(
        values: FloatTensor<Self>,
        old_values: FloatTensor<Self>,
        returns: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        clip: Option<f32>,
    ) -> FloatTensor<Self> {
        Self::value_loss_forward(values, old_values, returns, weight, clip).0
    }
    /// The same, and d loss/d values `[n]`.
    #[fusion(meta = specs::value_loss)]
    fn value_loss_forward(
        values: FloatTensor<Self>,
        old_values: FloatTensor<Self>,
        returns: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        clip: Option<f32>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Advantages and returns; see [`crate::gae::gae`].
    #[fusion(meta = specs::gae)]
    fn gae(
        rewards: FloatTensor<Self>,
        values: FloatTensor<Self>,
        segments: Segments,
        gamma: f32,
        lambda: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Ids and log-probabilities; see [`crate::sample::sample`].
    #[fusion(meta = specs::sample)]
    fn sample(
        logits: FloatTensor<Self>,
        config: SampleConfig,
        streams: Vec<Stream>,
    ) -> (IntTensor<Self>, FloatTensor<Self>);
}

/// The rest of a transformer block, native on Flex only: on GPUs they are a few elementwise kernels or a matrix product
/// that the tensor library has already.
#[backend_extension(Flex, Autodiff)]
pub trait BlockOps: Backend {
    /// See [`crate::linear::linear`]; `bias` has length 0 when there is none.
    fn fused_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;
    /// See [`crate::linear::streamed`].
    fn streamed_weight(weight: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Gradients of x, weight and bias; those not in `needed` come back empty.
    fn linear_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        needed: [bool; 3],
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// See [`crate::norm::rms_norm`].
    fn rms_norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, eps: f32) -> FloatTensor<Self>;
    /// Gradients of x and weight.
    fn rms_norm_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        eps: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// See [`crate::rotary::rotate`]; `inverse` turns the other way, which is its own gradient.
    fn rotate(x: FloatTensor<Self>, cos: FloatTensor<Self>, sin: FloatTensor<Self>, inverse: bool)
    -> FloatTensor<Self>;

    /// See [`crate::swiglu::swiglu`].
    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Gradients of gate and up.
    fn swiglu_backward(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Weight and moments after a step; see [`crate::adamw::adamw`].
    fn adamw(
        weight: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}
