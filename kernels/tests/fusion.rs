//! With Burn's fusion layer between: what it is told about every operation's outputs is what comes.

use std::any::TypeId;

use burn::backend::{DispatchDevice, TensorMetadata};
use burn::tensor::{DType, Shape, TensorData};
use burn_cubecl::{Cube, CubeBackend};
use rlver_kernels::Segments;
use rlver_kernels::cache::{Span, Spans};
use rlver_kernels::ops::KernelOps;
use rlver_kernels::ppo::{KlPenalty, PpoLossConfig};
use rlver_kernels::sample::{SampleConfig, Stream};

use crate::common::{half_types, on_flex, plain_device, values};

/// An output: what it says of itself before it is read, and its numbers.
type Output = (Shape, DType, TensorData);

/// Operations of one backend, on inputs made from the same numbers every time.
struct Bench<'a, B: KernelOps> {
    device: &'a B::Device,
    dtype: DType,
    outputs: Vec<(String, Output)>,
}

impl<B: KernelOps> Bench<'_, B> {
    fn floats<const D: usize>(&self, shape: [usize; D], seed: u64, dtype: DType) -> B::FloatTensorPrimitive {
        let data = TensorData::new(values(shape.iter().product(), seed, 1.0), shape).convert_dtype(dtype);
        B::float_from_data(data, self.device)
    }

    fn ints(&self, values: Vec<i32>) -> B::IntTensorPrimitive {
        let n = values.len();
        B::int_from_data(TensorData::new(values, [n]), self.device)
    }

    fn float(&mut self, what: &str, t: B::FloatTensorPrimitive) {
        let (shape, dtype) = (t.shape(), t.dtype());
        let data = burn::tensor::read_sync(B::float_into_data(t)).expect("the operation ran");
        self.outputs.push((format!("{what}, {:?}", self.dtype), (shape, dtype, data)));
    }

    fn int(&mut self, what: &str, t: B::IntTensorPrimitive) {
        let (shape, dtype) = (t.shape(), t.dtype());
        let data = burn::tensor::read_sync(B::int_into_data(t)).expect("the operation ran");
        self.outputs.push((format!("{what}, {:?}", self.dtype), (shape, dtype, data)));
    }

    fn attention(&mut self) {
        let (heads, kv_heads, d) = (6, 2, 16);
        for lengths in [vec![5, 0, 1, 13], vec![]] {
            let segments = Segments::from_lengths(lengths);
            let tokens = segments.tokens();
            let q = self.floats([tokens, heads, d], 1, self.dtype);
            let [k, v] = [2, 3].map(|seed| self.floats([tokens, kv_heads, d], seed, self.dtype));
            let grad = self.floats([tokens, heads, d], 4, self.dtype);
            let only = B::fused_attention(q.clone(), k.clone(), v.clone(), segments.clone());
            self.float("attention", only);
            let (out, lse) = B::attention_forward(q.clone(), k.clone(), v.clone(), segments.clone());
            self.float("attention forward, output", out.clone());
            self.float("attention forward, log-sum-exp", lse.clone());
            let (dq, dk, dv) = B::attention_backward(q, k, v, out, lse, grad, segments);
            self.float("attention backward, q", dq);
            self.float("attention backward, k", dk);
            self.float("attention backward, v", dv);
        }
    }

    fn cache(&mut self) {
        let (heads, kv_heads, d) = (6, 2, 16);
        let spans = Spans::new(vec![Span { row: 2, start: 3, length: 2 }, Span { row: 0, start: 0, length: 1 }]);
        let cache = |seed| self.floats([3, 8, kv_heads, d], seed, self.dtype);
        let (keys, vals) = (cache(1), cache(2));
        let new = self.floats([3, kv_heads, d], 3, self.dtype);
        let q = self.floats([3, heads, d], 4, self.dtype);
        let written = B::cache_write(keys.clone(), new, spans.slots());
        let out = B::cached_attention(q, written.clone(), vals, spans);
        self.float("cache write", written);
        self.float("the cache that was kept", keys);
        self.float("cached attention", out);
    }

    fn projection(&mut self) {
        for n in [7, 0] {
            let (width, rows, vocabulary) = (24, 50, 41);
            let (hidden, weight) = (self.floats([n, width], 1, self.dtype), self.floats([rows, width], 2, self.dtype));
            let targets = self.ints((0..n as i32).map(|i| i * 5 % 41).collect());
            let out = B::linear_logprob(hidden.clone(), weight.clone(), targets.clone(), 0.9, vocabulary);
            self.float("linear_logprob", out.clone());
            for needed in [[true, true], [true, false], [false, true]] {
                let (dhidden, dweight) = B::linear_logprob_backward(
                    hidden.clone(),
                    weight.clone(),
                    targets.clone(),
                    out.clone(),
                    self.floats([3, n], 3, DType::F32),
                    0.9,
                    vocabulary,
                    needed,
                );
                self.float(&format!("linear_logprob backward {needed:?}, hidden"), dhidden);
                self.float(&format!("linear_logprob backward {needed:?}, weight"), dweight);
            }
        }
    }

    fn sample(&mut self) {
        let logits = self.floats([3, 50], 1, self.dtype);
        let config = SampleConfig { temperature: 0.8, top_k: 9, top_p: 0.9, min_p: 0.01, vocabulary: 44 };
        let (ids, logprob) = B::sample(logits, config, vec![Stream { seed: 7, draw: 2 }; 3]);
        self.int("sample, ids", ids);
        self.float("sample, logprob", logprob);
    }

    /// Those that compute in f32 only.
    fn losses(&mut self) {
        let config = PpoLossConfig {
            clip_low: 0.2,
            clip_high: 0.3,
            dual_clip: Some(3.0),
            entropy_coef: 0.01,
            kl_coef: 0.1,
            kl: KlPenalty::K3,
        };
        for n in [300, 0] {
            let vector = |seed| self.floats([n], seed, DType::F32);
            let [a, b, c, d, e, f, g] = [1, 2, 3, 4, 5, 6, 7].map(vector);
            let policy = |x: [&B::FloatTensorPrimitive; 7]| x.map(Clone::clone);
            let [lp, en, old, adv, w, reference, importance] = policy([&a, &b, &c, &d, &e, &f, &g]);
            let only = B::ppo_loss(lp, en, old, adv, w, reference, importance, config, [true, true]);
            let [lp, en, old, adv, w, reference, importance] = policy([&a, &b, &c, &d, &e, &f, &g]);
            let (loss, slopes) = B::ppo_loss_forward(lp, en, old, adv, w, reference, importance, config, [true, true]);
            let [x, y, z, w] = [&a, &b, &c, &d].map(Clone::clone);
            let only_value = B::value_loss(x.clone(), y.clone(), z.clone(), w.clone(), Some(0.2));
            let (value, value_slopes) = B::value_loss_forward(x, y, z, w, Some(0.2));
            let (advantages, returns) = B::gae(a, b, Segments::from_lengths([n / 3, 0, n - n / 3]), 0.99, 0.95);
            self.float("ppo_loss", only);
            self.float("ppo_loss forward, sums", loss);
            self.float("ppo_loss forward, slopes", slopes);
            self.float("value_loss", only_value);
            self.float("value_loss forward, sums", value);
            self.float("value_loss forward, slopes", value_slopes);
            self.float("gae, advantages", advantages);
            self.float("gae, returns", returns);
        }
    }
}

/// Every operation of [`KernelOps`], in a fixed order.
fn outputs<B: KernelOps>(device: &B::Device) -> Vec<(String, Output)> {
    let mut bench = Bench::<B> { device, dtype: DType::F32, outputs: Vec::new() };
    bench.losses();
    for dtype in [vec![DType::F32], half_types()].concat() {
        bench.dtype = dtype;
        bench.attention();
        bench.cache();
        bench.projection();
        bench.sample();
    }
    bench.outputs
}

#[test]
fn every_operation_returns_what_fusion_was_told_and_the_same_numbers() {
    assert_ne!(TypeId::of::<Cube>(), TypeId::of::<CubeBackend>(), "fusion is off");
    if on_flex() {
        return;
    }
    let device = plain_device();
    let DispatchDevice::Cube(device) = device.as_dispatch() else { panic!("not a device of CubeCL") };
    let (promised, direct) = (outputs::<Cube>(device), outputs::<CubeBackend>(device));
    assert_eq!(promised.len(), direct.len());
    for ((what, fused), (_, real)) in promised.iter().zip(&direct) {
        assert_eq!((&fused.0, fused.1), (&real.0, real.1), "{what}");
        assert_eq!((real.2.shape(), real.2.dtype()), (&real.0, real.1), "{what}, as read");
        assert_eq!(fused.2.as_bytes(), real.2.as_bytes(), "{what}: other numbers");
    }
}
