//! The fused operations beside their references and beside what the machine can do at best, as one table.
//!
//! ```sh
//! cargo bench -p rlver-kernels --bench table              # everything, on Flex
//! cargo bench -p rlver-kernels --bench table -- ppo       # rows whose name contains "ppo"
//! RLVER_TEST_DEVICE=wgpu cargo bench -p rlver-kernels --features wgpu --bench table
//! ```
//!
//! Rivals take turns in the same process on the same inputs, so that their ratio holds when the machine's speed drifts. Times are the best of
//! the samples, ratios the median over pairs; CPU seconds (of all threads) are shown beside, because they do not
//! grow when other programs compete. Floating-point operations and bytes are counted from the problem. Extra memory is
//! the peak of what a run allocates on the host beyond its inputs, so it says nothing on other devices than Flex.
#![allow(missing_docs, clippy::print_stderr)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use rayon::prelude::*;
use rlver_kernels::Segments;
use rlver_kernels::attention::{self, attention};
use rlver_kernels::cache::{self, Span, Spans, cached_attention};
use rlver_kernels::gae::{self, gae};
use rlver_kernels::host::KeyValueCache;
use rlver_kernels::logprob::{self, linear_logprob};
use rlver_kernels::ppo::{self, ActionTokens, KlPenalty, PpoLossConfig, ppo_loss, value_loss};
use rlver_kernels::sample::{self, SampleConfig, Stream, sample};

/// Counts bytes in use and their peak.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is the system allocator's; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn device() -> Device {
    match std::env::var("RLVER_TEST_DEVICE").as_deref() {
        Err(_) | Ok("" | "flex") => Device::flex(),
        #[cfg(feature = "wgpu")]
        Ok("wgpu") => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "vulkan")]
        Ok("vulkan") => Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cpu")]
        Ok("cpu") => Device::cpu(),
        #[cfg(feature = "cuda")]
        Ok("cuda") => Device::cuda(0),
        Ok(other) => panic!("RLVER_TEST_DEVICE={other}: no such device in this build; add the cargo feature"),
    }
}

/// Seconds of CPU time this process's threads have used; 0 where /proc is missing.
fn cpu_seconds() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|t| {
        let text = std::fs::read_to_string(t.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// One run of one rival.
#[derive(Clone, Copy, Default)]
struct Run {
    wall: f64,
    cpu: f64,
    extra: usize,
}

fn run(f: &mut dyn FnMut()) -> Run {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    f();
    device().sync().expect("the device works");
    Run {
        wall: start.elapsed().as_secs_f64(),
        cpu: cpu_seconds() - cpu,
        extra: PEAK.load(Ordering::Relaxed).saturating_sub(before),
    }
}

/// What one run does at least.
enum Work {
    Flops(f64),
    Bytes(f64),
}

struct Bench {
    filter: String,
    samples: usize,
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Lets both rivals take turns and prints their row.
    fn compare(&self, name: &str, rival: &str, work: Work, mut ours: impl FnMut(), mut theirs: impl FnMut()) {
        // The first round warms caches and compiles kernels.
        ours();
        theirs();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..self.samples {
            a.push(run(&mut ours));
            b.push(run(&mut theirs));
        }
        let best = |runs: &[Run]| runs.iter().map(|r| r.wall).fold(f64::INFINITY, f64::min);
        let cpu = |runs: &[Run]| runs.iter().map(|r| r.cpu).fold(f64::INFINITY, f64::min);
        let extra = |runs: &[Run]| runs.iter().map(|r| r.extra).max().unwrap_or(0) as f64 / 1e6;
        let mut ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b.wall / a.wall).collect();
        ratios.sort_by(f64::total_cmp);
        let rate = match work {
            Work::Flops(n) => format!("{:.1} GFLOP/s", n / best(&a) / 1e9),
            Work::Bytes(n) => format!("{:.1} GB/s", n / best(&a) / 1e9),
        };
        println!(
            "| {name} | {rival} | {:.2} | {:.2} | {rate} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} |",
            best(&a) * 1e3,
            best(&b) * 1e3,
            ratios[ratios.len() / 2],
            cpu(&a) * 1e3,
            cpu(&b) * 1e3,
            cpu(&b) / cpu(&a).max(1e-9),
            extra(&a),
            extra(&b),
        );
    }
}

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 - 0.5
        })
        .collect()
}

fn plain<const D: usize>(shape: [usize; D], seed: u32) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values(shape.iter().product(), seed), shape), &device())
}

fn leaf<const D: usize>(shape: [usize; D], seed: u32) -> Tensor<D> {
    let data = TensorData::new(values(shape.iter().product(), seed), shape);
    Tensor::from_data(data, &device().autodiff()).require_grad()
}

/// Runs the backward; the gradients are dropped.
fn train<const D: usize>(out: Tensor<D>) {
    black_box(out.sum().backward());
}

const HEADS: usize = 14;
const KV_HEADS: usize = 2;
const HEAD: usize = 64;

fn attention_work(lengths: &[usize]) -> Work {
    let pairs: f64 = lengths.iter().map(|l| (l * (l + 1) / 2) as f64).sum();
    // Two products forward and five backward, two operations per multiply-add.
    Work::Flops(pairs * (HEADS * HEAD) as f64 * 2.0 * 7.0)
}

fn packed(lengths: &[usize]) -> (Segments, Tensor<3>, Tensor<3>, Tensor<3>) {
    let segments = Segments::from_lengths(lengths.iter().copied());
    let n = segments.tokens();
    (segments, leaf([n, HEADS, HEAD], 1), leaf([n, KV_HEADS, HEAD], 2), leaf([n, KV_HEADS, HEAD], 3))
}

fn bench_attention(b: &Bench) {
    let name = "attention fwd+bwd, 1 × 2,048";
    if b.wants(name) {
        let (segments, q, k, v) = packed(&[2048]);
        b.compare(
            name,
            "reference",
            attention_work(&[2048]),
            || train(attention(q.clone(), k.clone(), v.clone(), &segments).expect("shapes fit")),
            || train(attention::reference(q.clone(), k.clone(), v.clone(), &segments)),
        );
    }
    let name = "attention fwd+bwd, 16 × 64…1,024";
    if b.wants(name) {
        let lengths: Vec<usize> = (1..=16).map(|i| 64 * i).collect();
        let (segments, q, k, v) = packed(&lengths);
        let rows = |heads, seed| leaf([16, heads, 1024, HEAD], seed);
        let (pq, pk, pv) = (rows(HEADS, 1), rows(KV_HEADS, 2), rows(KV_HEADS, 3));
        b.compare(
            name,
            "padded reference",
            attention_work(&lengths),
            || train(attention(q.clone(), k.clone(), v.clone(), &segments).expect("shapes fit")),
            || train(padded(pq.clone(), pk.clone(), pv.clone())),
        );
    }
}

/// What a batch padded to its longest row costs with plain operations.
fn padded(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let [batch, heads, length, d] = q.dims();
    let expand = |x: Tensor<4>| {
        let [batch, kv, length, d] = x.dims();
        x.unsqueeze_dim::<5>(2).expand([batch, kv, heads / kv, length, d]).reshape([batch, heads, length, d])
    };
    let scores = q.matmul(expand(k).transpose()) / (d as f64).sqrt();
    let future = Tensor::<2, Bool>::tril_mask([length, length], 0, &scores.device());
    let scores = scores.mask_fill(future.unsqueeze::<4>().expand([batch, heads, length, length]), -1e30);
    softmax(scores, 3).matmul(expand(v))
}

fn bench_logprob(b: &Bench) {
    for (n, width, v) in [(512, 576, 49_152), (2048, 896, 151_936)] {
        let shape = format!("{n}×{width}×{v}");
        let gemm = 2.0 * n as f64 * width as f64 * v as f64;
        let names = [format!("linear_logprob fwd, {shape}"), format!("linear_logprob fwd+bwd, {shape}")];
        if !names.iter().any(|name| b.wants(name)) {
            continue;
        }
        let (x, w) = (leaf([n, width], 1), leaf([v, width], 2));
        let ids: Vec<i32> = (0..n).map(|i| (i * 7919 % v) as i32).collect();
        let t = Tensor::<1, Int>::from_data(TensorData::new(ids, [n]), &device());
        let (px, pw) = (x.clone().inner(), w.clone().inner());
        if b.wants(&names[0]) {
            b.compare(
                &names[0],
                "one plain gemm",
                Work::Flops(gemm),
                || drop(black_box(linear_logprob(px.clone(), pw.clone(), t.clone(), 1.0, v).expect("shapes fit"))),
                || drop(black_box(px.clone().matmul(pw.clone().transpose()))),
            );
        }
        let both = || {
            let out = linear_logprob(x.clone(), w.clone(), t.clone(), 1.0, v).expect("shapes fit");
            train(out.logprob + out.entropy);
        };
        if b.wants(&names[1]) {
            b.compare(&names[1], "its four gemms", Work::Flops(4.0 * gemm), both, || {
                let z = px.clone().matmul(pw.clone().transpose());
                drop(black_box(z));
                let z = px.clone().matmul(pw.clone().transpose());
                drop(black_box(z.clone().matmul(pw.clone())));
                drop(black_box(z.transpose().matmul(px.clone())));
            });
            if n < 1000 {
                b.compare(&names[1], "reference", Work::Flops(4.0 * gemm), both, || {
                    train(logprob::reference(x.clone(), w.clone(), t.clone(), 1.0, v).narrow(0, 0, 2));
                });
            }
        }
    }
}

fn bench_decode(b: &Bench) {
    let name = "cached_attention, 16 layers × 32 rows × 1,024";
    let decoder = "decoder's attention, 16 layers × 32 rows × 1,024";
    if !b.wants(name) && !b.wants(decoder) {
        return;
    }
    // The layers of a model in turn: together they pass every cache of the processor, as the weights between them would
    // see to in a model.
    let (layers, rows, length) = (16, 32, 1024);
    let q = plain([rows, HEADS, HEAD], 1);
    let caches: Vec<(Tensor<4>, Tensor<4>)> = (0..layers)
        .map(|layer| [2, 3].map(|seed| plain([rows, length, KV_HEADS, HEAD], seed + 2 * layer)).into())
        .collect();
    let spans = Spans::new((0..rows).map(|row| Span { row, start: length - 1, length: 1 }).collect());
    let numbers = layers as usize * 2 * rows * length * KV_HEADS * HEAD;
    let work = || Work::Bytes((4 * numbers) as f64);
    let ours = || {
        for (k, v) in &caches {
            black_box(cached_attention(q.clone(), k.clone(), v.clone(), &spans).expect("shapes fit"));
        }
    };
    let host = values(numbers, 4);
    let reading = || {
        // Sixteen sums side by side, so that memory and not addition is the limit.
        let sum: f32 = host
            .par_chunks(1 << 16)
            .map(|c| {
                let mut lanes = [0f32; 16];
                for chunk in c.chunks_exact(16) {
                    lanes.iter_mut().zip(chunk).for_each(|(l, v)| *l += v);
                }
                lanes.iter().sum::<f32>()
            })
            .sum();
        black_box(sum);
    };
    if b.wants(name) {
        b.compare(name, "reference", work(), ours, || {
            for (k, v) in &caches {
                black_box(cache::reference(q.clone(), k.clone(), v.clone(), &spans));
            }
        });
        b.compare(name, "reading as many bytes", work(), ours, reading);
    }
    if !b.wants(decoder) {
        return;
    }
    let shape = [layers as usize, rows, length, KV_HEADS, HEAD];
    let on_flex = rlver_kernels::is_flex(&device());
    let Some(mut cache) = on_flex.then(|| KeyValueCache::new(shape)).flatten() else { return };
    for layer in 0..layers as usize {
        for (row, position) in (0..rows).flat_map(|row| (0..length).map(move |position| (row, position))) {
            let at = ((layer * rows + row) * length + position) * 2 * KV_HEADS * HEAD;
            let (key, value) = host[at..at + 2 * KV_HEADS * HEAD].split_at(KV_HEADS * HEAD);
            cache.write(layer, row, position, key, value);
        }
    }
    let queries = values(rows * HEADS * HEAD, 5);
    let ours = || {
        for layer in 0..layers as usize {
            black_box(cache.attend(layer, &queries, HEADS, &vec![length; rows]));
        }
    };
    b.compare(decoder, "reading as many bytes", work(), ours, reading);
}

fn bench_losses(b: &Bench) {
    let n = 1 << 20;
    let [lp, h, old, advantage, reference] = [1, 2, 3, 4, 5].map(|seed| plain([n], seed));
    let weight = Tensor::<1>::full([n], 1.0 / n as f32, &device());
    let config = PpoLossConfig {
        clip_low: 0.2,
        clip_high: 0.2,
        dual_clip: Some(3.0),
        entropy_coef: 0.01,
        kl_coef: 0.1,
        kl: KlPenalty::K3,
    };
    let tokens = ActionTokens {
        old_logprob: old.clone(),
        advantage,
        weight: weight.clone(),
        reference_logprob: Some(reference),
        importance_weight: None,
    };
    let tracked = |t: &Tensor<1>| Tensor::from_inner(t.clone()).require_grad();
    // Forward: six inputs and the derivatives. Backward: derivatives and weights in, two gradients out.
    let (forward, both) = (7 * 4 * n, (7 + 4) * 4 * n);
    let copy = |bytes: usize| {
        let (from, mut to) = (vec![1u8; bytes / 2], vec![0u8; bytes / 2]);
        move || {
            let chunk = 1 << 18;
            to.par_chunks_mut(chunk).zip(from.par_chunks(chunk)).for_each(|(to, from)| to.copy_from_slice(from));
            black_box(&mut to);
        }
    };
    let name = "ppo_loss fwd, 1M tokens";
    if b.wants(name) {
        // Not tracked: what is tracked and never used in a backward stays in Burn's graph.
        let ours = || drop(black_box(ppo_loss(lp.clone(), h.clone(), &tokens, config).expect("shapes fit")));
        b.compare(name, "memcpy of its bytes", Work::Bytes(forward as f64), ours, copy(forward));
    }
    let name = "ppo_loss fwd+bwd, 1M tokens";
    if b.wants(name) {
        let (lp, h) = (tracked(&lp), tracked(&h));
        let ours = || {
            let out = ppo_loss(lp.clone(), h.clone(), &tokens, config).expect("shapes fit");
            black_box(out.loss.backward());
        };
        b.compare(name, "memcpy of its bytes", Work::Bytes(both as f64), ours, copy(both));
        b.compare(name, "reference", Work::Bytes(both as f64), ours, || {
            black_box(ppo::reference_ppo_loss(lp.clone(), h.clone(), &tokens, config).loss.backward());
        });
    }
    let name = "value_loss fwd+bwd, 1M tokens";
    if b.wants(name) {
        let v = tracked(&lp);
        b.compare(
            name,
            "reference",
            Work::Bytes((5 + 2) as f64 * 4.0 * n as f64),
            || {
                let out = value_loss(v.clone(), old.clone(), h.clone(), weight.clone(), Some(0.2)).expect("shapes fit");
                black_box(out.loss.backward());
            },
            || {
                let out = ppo::reference_value_loss(v.clone(), old.clone(), h.clone(), weight.clone(), Some(0.2));
                black_box(out.loss.backward());
            },
        );
    }
    let name = "gae, 1,024 rows × 1,024";
    if b.wants(name) {
        let segments = Segments::from_lengths(std::iter::repeat_n(1024, 1024));
        let work = || Work::Bytes(4.0 * 4.0 * n as f64);
        let ours = || drop(black_box(gae(lp.clone(), old.clone(), &segments, 0.99, 0.95).expect("shapes fit")));
        b.compare(name, "reference (host, f64)", work(), ours, || {
            drop(black_box(gae::reference(lp.clone(), old.clone(), &segments, 0.99, 0.95)));
        });
        b.compare(name, "memcpy of its bytes", work(), ours, copy(16 * n));
    }
}

fn bench_sample(b: &Bench) {
    let (batch, v) = (32, 151_936);
    for (what, top_k, top_p) in [("all ids", 0, 1.0), ("top-k 50, top-p 0.9", 50, 0.9)] {
        let name = format!("sample, 32 × 151,936, {what}");
        if !b.wants(&name) {
            continue;
        }
        let logits = plain([batch, v], 1);
        let config = SampleConfig { temperature: 0.9, top_k, top_p, min_p: 0.0, vocabulary: v };
        let streams: Vec<Stream> = (0..batch).map(|i| Stream { seed: i as u64, draw: 0 }).collect();
        b.compare(
            &name,
            "reference (host, f64)",
            Work::Bytes((4 * batch * v) as f64),
            || drop(black_box(sample(logits.clone(), config, &streams).expect("shapes fit"))),
            || drop(black_box(sample::reference(logits.clone(), config, &streams))),
        );
    }
}

fn main() {
    rlver_kernels::keep_freed_memory();
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let samples = std::env::var("RLVER_BENCH_SAMPLES").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    let bench = Bench { filter, samples };
    println!(
        "| operation | against | ours, ms | theirs, ms | rate of ours | speed ratio | CPU ms, ours | CPU ms, theirs | CPU ratio | extra MB, ours | \
         extra MB, theirs |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    bench_losses(&bench);
    bench_decode(&bench);
    bench_sample(&bench);
    bench_attention(&bench);
    bench_logprob(&bench);
}
