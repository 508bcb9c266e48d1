//! Gradient rules. Each operation saves what its backward needs and calls the wrapped backend's `*_backward`.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, Scalar};
use burn::tensor::Slice;

use crate::Segments;
use crate::adamw::AdamWStep;
use crate::cache::{Slots, Spans};
use crate::ops::{BlockOps, KernelOps};
use crate::ppo::PpoLossConfig;
use crate::sample::{SampleConfig, Stream};

const PLAIN: &str = "the public function strips autodiff first";
const INNER_ONLY: &str = "first-order gradients only: backward primitives run on the wrapped backend";

/// Defines an operation's `Backward`: `name<parents>(state) => |ops.parents, grad, state, grads| body`.
macro_rules! backward {
    ($name:ident: $ops:ident, $parents:literal, $state:ty, |$needed:ident, $grad:ident, $saved:ident| $gradients:expr) => {
        #[derive(Debug)]
        struct $name;

        impl<B: Backend + $ops> Backward<B, $parents> for $name {
            type State = $state;

            fn backward(self, ops: Ops<Self::State, $parents>, grads: &mut Gradients, _: &mut Checkpointer) {
                let $grad = grads.consume::<B>(&ops.node);
                let $saved = ops.state;
                let $needed: [bool; $parents] = ops.parents.each_ref().map(Option::is_some);
                let gradients: [FloatTensor<B>; $parents] = $gradients;
                for (node, gradient) in ops.parents.into_iter().zip(gradients) {
                    if let Some(node) = node {
                        grads.register::<B>(node.id, gradient);
                    }
                }
            }
        }
    };
}

backward!(Linear: BlockOps, 3, (FloatTensor<B>, FloatTensor<B>), |needed, grad, saved| {
    B::linear_backward(saved.0, saved.1, grad, needed).into()
});
backward!(RmsNorm: BlockOps, 2, (FloatTensor<B>, FloatTensor<B>, f32), |_needed, grad, saved| {
    B::rms_norm_backward(saved.0, saved.1, grad, saved.2).into()
});
backward!(Rotate: BlockOps, 1, (FloatTensor<B>, FloatTensor<B>, bool), |_needed, grad, saved| {
    [B::rotate(grad, saved.0, saved.1, !saved.2)]
});
backward!(SwiGlu: BlockOps, 2, (FloatTensor<B>, FloatTensor<B>), |_needed, grad, saved| {
    B::swiglu_backward(saved.0, saved.1, grad).into()
});
backward!(
    Attention: KernelOps,
    3,
    (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, Segments),
    |_needed, grad, saved| {
        let (q, k, v, out, lse, segments) = saved;
        B::attention_backward(q, k, v, out, lse, grad, segments).into()
    }
);
backward!(
    LinearLogprob: KernelOps,
    2,
    (FloatTensor<B>, FloatTensor<B>, IntTensor<B>, FloatTensor<B>, f32, usize),
    |needed, grad, saved| {
        let (hidden, weight, targets, out, temperature, vocabulary) = saved;
        B::linear_logprob_backward(hidden, weight, targets, out, grad, temperature, vocabulary, needed).into()
    }
);

backward!(PpoLoss: KernelOps, 2, (FloatTensor<B>, FloatTensor<B>, f32), |_needed, grad, saved| {
    let (slopes, weight, entropy_coef) = saved;
    // Only the first output is a loss; the metrics beside it have no gradient.
    let upstream = B::float_slice(grad, &[Slice::from(0..1)]);
    let entropy = B::float_mul_scalar(weight, Scalar::from(-entropy_coef));
    [B::float_mul(slopes, upstream.clone()), B::float_mul(entropy, upstream)]
});
backward!(ValueLoss: KernelOps, 1, FloatTensor<B>, |_needed, grad, slopes| {
    [B::float_mul(slopes, B::float_slice(grad, &[Slice::from(0..1)]))]
});

impl<B: Backend + BlockOps, C: CheckpointStrategy> BlockOps for Autodiff<B, C> {
    fn fused_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node(), bias.node()];
        let (x, weight, bias) = (x.into_primitive(), weight.into_primitive(), bias.into_primitive());
        match Linear.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let out = B::fused_linear(x.clone(), weight.clone(), bias);
                prep.finish((x, weight), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::fused_linear(x, weight, bias)),
        }
    }

    fn rms_norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, eps: f32) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node()];
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        match RmsNorm.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let out = B::rms_norm(x.clone(), weight.clone(), eps);
                prep.finish((x, weight, eps), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::rms_norm(x, weight, eps)),
        }
    }

    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        inverse: bool,
    ) -> FloatTensor<Self> {
        let nodes = [x.node()];
        let (x, cos, sin) = (x.into_primitive(), cos.into_primitive(), sin.into_primitive());
        match Rotate.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let out = B::rotate(x, cos.clone(), sin.clone(), inverse);
                prep.finish((cos, sin, inverse), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::rotate(x, cos, sin, inverse)),
        }
    }

    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [gate.node(), up.node()];
        let (gate, up) = (gate.into_primitive(), up.into_primitive());
        match SwiGlu.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let out = B::swiglu(gate.clone(), up.clone());
                prep.finish((gate, up), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::swiglu(gate, up)),
        }
    }

    fn streamed_weight(_: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("{PLAIN}")
    }

    fn linear_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: [bool; 3],
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn rms_norm_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn swiglu_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn adamw(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{PLAIN}")
    }
}

impl<B: Backend + KernelOps, C: CheckpointStrategy> KernelOps for Autodiff<B, C> {
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        segments: Segments,
    ) -> FloatTensor<Self> {
        let nodes = [q.node(), k.node(), v.node()];
        let (q, k, v) = (q.into_primitive(), k.into_primitive(), v.into_primitive());
        match Attention.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (out, lse) = B::attention_forward(q.clone(), k.clone(), v.clone(), segments.clone());
                prep.finish((q, k, v, out.clone(), lse, segments), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::fused_attention(q, k, v, segments)),
        }
    }

    fn linear_logprob(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        temperature: f32,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let nodes = [hidden.node(), weight.node()];
        let (hidden, weight) = (hidden.into_primitive(), weight.into_primitive());
        match LinearLogprob.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let out = B::linear_logprob(hidden.clone(), weight.clone(), targets.clone(), temperature, vocabulary);
                prep.finish((hidden, weight, targets, out.clone(), temperature, vocabulary), out)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::linear_logprob(hidden, weight, targets, temperature, vocabulary))
            }
        }
    }

    fn attention_forward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Segments,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn attention_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Segments,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn linear_logprob_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: IntTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: f32,
        _: usize,
        _: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn cache_write(_: FloatTensor<Self>, _: FloatTensor<Self>, _: Slots) -> FloatTensor<Self> {
        unreachable!("{PLAIN}")
    }

    fn cached_attention(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Spans,
    ) -> FloatTensor<Self> {
        unreachable!("{PLAIN}")
    }

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
        let nodes = [logprob.node(), entropy.node()];
        let [lp, h, old, a, w, r, i] =
            [logprob, entropy, old_logprob, advantage, weight, reference, importance].map(|t| t.into_primitive());
        match PpoLoss.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (out, slopes) = B::ppo_loss_forward(lp, h, old, a, w.clone(), r, i, config, has);
                prep.finish((slopes, w, config.entropy_coef), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::ppo_loss(lp, h, old, a, w, r, i, config, has)),
        }
    }

    fn value_loss(
        values: FloatTensor<Self>,
        old_values: FloatTensor<Self>,
        returns: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        clip: Option<f32>,
    ) -> FloatTensor<Self> {
        let nodes = [values.node()];
        let [v, old, r, w] = [values, old_values, returns, weight].map(|t| t.into_primitive());
        match ValueLoss.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (out, slopes) = B::value_loss_forward(v, old, r, w, clip);
                prep.finish(slopes, out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::value_loss(v, old, r, w, clip)),
        }
    }

    fn ppo_loss_forward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: PpoLossConfig,
        _: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn value_loss_forward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Option<f32>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{INNER_ONLY}")
    }

    fn gae(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Segments,
        _: f32,
        _: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{PLAIN}")
    }

    fn sample(_: FloatTensor<Self>, _: SampleConfig, _: Vec<Stream>) -> (IntTensor<Self>, FloatTensor<Self>) {
        unreachable!("{PLAIN}")
    }
}
