//! The fused operations beside their plain-Burn references, forward and backward, on the Flex device.
//!
//! `cargo bench` runs all; `cargo bench -- attention` one. Both variants of a pair run in the same process on the same
//! inputs, so their ratio holds when the machine's speed drifts. Throughput is in floating-point operations counted from
//! the problem.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Int, Tensor, TensorData};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rlver_kernels::Segments;
use rlver_kernels::attention::{self, attention};
use rlver_kernels::logprob::{self, linear_logprob};
use rlver_kernels::{norm, swiglu};

fn leaf<const D: usize>(shape: [usize; D], seed: u32) -> Tensor<D> {
    let n: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let values: Vec<f32> = (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 - 0.5
        })
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex().autodiff()).require_grad()
}

/// Runs forward and backward; the gradients are dropped.
fn train<const D: usize>(out: Tensor<D>) {
    black_box(out.sum().backward());
}

fn bench_attention(c: &mut Criterion) {
    let mut group = c.benchmark_group("attention forward+backward");
    let (heads, kv_heads, d) = (14, 2, 64);
    for (name, lengths) in [
        ("one segment of 1024", vec![1024]),
        ("16 segments of 64 to 1024", (0..16).map(|i| 64 + i * 64).collect::<Vec<_>>()),
    ] {
        let segments = Segments::from_lengths(lengths.iter().copied());
        let tokens = segments.tokens();
        let pairs: u64 = lengths.iter().map(|l| (l * (l + 1) / 2) as u64).sum();
        // Two products forward and five backward, two operations per multiply-add.
        group.throughput(Throughput::Elements(pairs * (heads * d) as u64 * 2 * 7));
        let (q, k, v) = (leaf([tokens, heads, d], 1), leaf([tokens, kv_heads, d], 2), leaf([tokens, kv_heads, d], 3));
        group.bench_function(BenchmarkId::new("fused", name), |b| {
            b.iter(|| train(attention(q.clone(), k.clone(), v.clone(), &segments).expect("shapes fit")));
        });
        group.bench_function(BenchmarkId::new("reference", name), |b| {
            b.iter(|| train(attention::reference(q.clone(), k.clone(), v.clone(), &segments)));
        });
    }
    group.finish();
}

fn bench_logprob(c: &mut Criterion) {
    let mut group = c.benchmark_group("linear_logprob forward+backward");
    for (n, width, vocabulary) in [(2048, 192, 4096), (256, 576, 49_152)] {
        let (x, w) = (leaf([n, width], 1), leaf([vocabulary, width], 2));
        let ids: Vec<i32> = (0..n).map(|i| (i * 7919 % vocabulary) as i32).collect();
        let targets = Tensor::<1, Int>::from_data(TensorData::new(ids, [n]), &x.device());
        // One product forward, three backward with the recomputation.
        group.throughput(Throughput::Elements((2 * 4 * n * width * vocabulary) as u64));
        let name = format!("{n}x{width}x{vocabulary}");
        group.bench_function(BenchmarkId::new("fused", &name), |b| {
            b.iter(|| {
                let out = linear_logprob(x.clone(), w.clone(), targets.clone(), 1.0, vocabulary).expect("shapes fit");
                train(out.logprob + out.entropy);
            });
        });
        group.bench_function(BenchmarkId::new("reference", &name), |b| {
            b.iter(|| {
                let out = logprob::reference(x.clone(), w.clone(), targets.clone(), 1.0, vocabulary);
                train(out.narrow(0, 0, 2));
            });
        });
    }
    group.finish();
}

fn bench_elementwise(c: &mut Criterion) {
    let mut group = c.benchmark_group("elementwise forward+backward");
    let (x, w) = (leaf([4096, 576], 1), leaf([576], 2));
    group.throughput(Throughput::Elements(4096 * 576));
    group.bench_function("rms_norm fused", |b| {
        b.iter(|| train(norm::rms_norm(x.clone(), w.clone(), 1e-6).expect("shapes fit")));
    });
    group.bench_function("rms_norm reference", |b| b.iter(|| train(norm::reference(x.clone(), w.clone(), 1e-6))));
    let up = leaf([4096, 576], 3);
    group.bench_function("swiglu fused", |b| {
        b.iter(|| train(swiglu::swiglu(x.clone(), up.clone()).expect("shapes fit")));
    });
    group.bench_function("swiglu reference", |b| b.iter(|| train(swiglu::reference(x.clone(), up.clone()))));
    group.finish();
}

criterion_group! {
    name = kernels;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    targets = bench_attention, bench_logprob, bench_elementwise
}
criterion_main!(kernels);
