use burn::tensor::{DType, Tensor, TensorData};
use rlver_kernels::Segments;
use rlver_kernels::attention::attention;
use rlver_kernels::cache::{Span, Spans, cached_attention, reference as cached_reference, write};

use crate::common::{close, gradients, leaf, leaf_of, narrow, on_flex, plain_device, read, same_bits, values, wide};
use crate::oracle::{self, Heads};

/// Grouped queries of 1, 2 and 7, and every width of head that checkpoints have.
const HEADS: [(usize, usize, usize); 6] = [(1, 1, 8), (4, 2, 32), (7, 1, 64), (2, 2, 96), (3, 1, 128), (2, 1, 256)];

/// q, k, v and the gradient of the output.
pub(crate) struct Problem {
    pub(crate) heads: Heads,
    pub(crate) segments: Segments,
    pub(crate) data: [Vec<f32>; 4],
}

impl Problem {
    pub(crate) fn new((heads, kv_heads, head_dim): (usize, usize, usize), lengths: &[usize], scale: f32) -> Problem {
        let segments = Segments::from_lengths(lengths.iter().copied());
        let n = segments.tokens();
        let make = |heads: usize, seed, scale| values(n * heads * head_dim, seed, scale);
        let data = [make(heads, 1, scale), make(kv_heads, 2, scale), make(kv_heads, 3, 1.0), make(heads, 4, 1.0)];
        Problem { heads: Heads { heads, kv_heads, head_dim }, segments, data }
    }

    pub(crate) fn shapes(&self) -> [[usize; 3]; 3] {
        let Heads { heads, kv_heads, head_dim } = self.heads;
        [heads, kv_heads, kv_heads].map(|h| [self.segments.tokens(), h, head_dim])
    }

    /// Output and gradients on the device under test.
    fn run(&self) -> [Vec<f32>; 4] {
        let [q, k, v] = [0, 1, 2].map(|i| leaf_of(&self.data[i], self.shapes()[i]));
        let out = attention(q.clone(), k.clone(), v.clone(), &self.segments).unwrap();
        let [dq, dk, dv] = gradients([&q, &k, &v], &out, &self.data[3]);
        [read(&out), dq, dk, dv]
    }

    /// The same in f64.
    pub(crate) fn expected(&self) -> [Vec<f32>; 4] {
        let [q, k, v, grad] = self.data.each_ref().map(|x| wide(x));
        let out = oracle::attention(self.heads, &q, &k, &v, &self.segments);
        let [dq, dk, dv] = oracle::attention_backward(self.heads, [&q, &k, &v], &grad, &self.segments);
        [&out, &dq, &dk, &dv].map(|x| narrow(x))
    }

    fn check(&self, name: &str, tolerances: [f32; 2]) {
        let (ours, expected) = (self.run(), self.expected());
        for (i, what) in ["o", "dq", "dk", "dv"].iter().enumerate() {
            close(&format!("{name} {what}"), &ours[i], &expected[i], tolerances[usize::from(i > 0)]);
        }
    }
}

#[test]
fn packed_attention_equals_host_loops_for_every_layout() {
    for heads in HEADS {
        for lengths in [vec![1], vec![5, 0, 1, 37], vec![63, 64, 65], vec![130]] {
            let name = format!("heads {heads:?}, lengths {lengths:?}");
            Problem::new(heads, &lengths, 1.5).check(&name, [3e-6, 2e-5]);
        }
    }
}

#[test]
fn tiny_and_huge_scores_stay_exact() {
    for scale in [1e-3f32, 30.0, 100.0] {
        // With scores of thousands, f32 rounding of a score alone moves a probability by 1e-3.
        let tolerance = 3e-6 * (scale * scale).max(1.0);
        Problem::new((4, 2, 32), &[3, 70], scale).check(&format!("scale {scale}"), [tolerance, 10.0 * tolerance]);
    }
}

#[test]
fn results_are_the_same_every_time() {
    let problem = Problem::new((4, 2, 64), &[100, 1, 33], 1.5);
    let (first, second) = (problem.run(), problem.run());
    for (a, b) in first.iter().zip(&second) {
        same_bits("run twice", a, b);
    }
}

#[test]
fn a_neighbouring_segment_is_never_read() {
    let (heads, d) = (2, 16);
    let run = |poison: f32| {
        let mut problem = Problem::new((heads, heads, d), &[9, 20, 11], 1.0);
        for data in &mut problem.data {
            data[..9 * heads * d].fill(poison);
            data[29 * heads * d..].fill(poison);
        }
        problem.run().map(|x| x[9 * heads * d..29 * heads * d].to_vec())
    };
    let clean = run(0.0);
    for poison in [1e30, f32::NAN] {
        for (a, b) in run(poison).iter().zip(&clean) {
            same_bits("the middle segment must not depend on its neighbours", a, b);
        }
    }
}

#[test]
fn batches_without_tokens_come_back_empty() {
    let shapes = [[0, 4, 16], [0, 2, 16], [0, 2, 16]];
    let [q, k, v] =
        shapes.map(|shape| Tensor::<3>::from_data(TensorData::new(Vec::<f32>::new(), shape), &plain_device()));
    let out = attention(q.clone(), k, v, &Segments::from_lengths([0, 0])).unwrap();
    assert_eq!(out.dims(), [0, 4, 16]);
    let cache = Tensor::<4>::zeros([1, 4, 2, 16], &plain_device());
    let out = cached_attention(q, cache.clone(), cache, &Spans::new(vec![])).unwrap();
    assert_eq!(out.dims(), [0, 4, 16]);
}

#[test]
fn inputs_that_are_views_are_read_right() {
    let problem = Problem::new((4, 2, 16), &[20, 13], 1.0);
    let plain = problem.run();
    // The same numbers behind transposed strides.
    let [q, k, v] = [0, 1, 2].map(|i| {
        let [n, h, d] = problem.shapes()[i];
        let moved: Vec<f32> =
            (0..h * n * d).map(|x| problem.data[i][(x / d % n) * h * d + x / (n * d) * d + x % d]).collect();
        leaf_of(&moved, [h, n, d]).swap_dims(0, 1)
    });
    let out = attention(q, k, v, &problem.segments).unwrap();
    same_bits("views", &read(&out), &plain[0]);
}

#[test]
fn a_type_the_device_cannot_compute_in_is_refused() {
    let device = plain_device();
    if device.supports_dtype(DType::BF16) {
        return;
    }
    let make = || {
        let data = TensorData::new(vec![0f32; 16], [2, 1, 8]).convert_dtype(DType::BF16);
        Tensor::<3>::from_data(data, (&device, DType::BF16))
    };
    let error = attention(make(), make(), make(), &Segments::from_lengths([2])).unwrap_err();
    assert!(error.to_string().contains("cast"), "{error}");
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused() {
    let q = leaf([4, 3, 8], 1, 1.0);
    let k = leaf([4, 2, 8], 2, 1.0);
    let error = attention(q.clone(), k.clone(), k.clone(), &Segments::from_lengths([4])).unwrap_err();
    assert!(error.to_string().contains("key/value heads"), "{error}");
    let k = leaf([4, 3, 8], 2, 1.0);
    let error = attention(q.clone(), k.clone(), k.clone(), &Segments::from_lengths([3])).unwrap_err();
    assert!(error.to_string().contains("cu_seqlens"), "{error}");
    assert!(Segments::from_offsets(vec![0, 5, 3]).is_err());
    if plain_device().supports_dtype(DType::F16) {
        let half = k.clone().cast(DType::F16);
        let error = attention(q, k, half, &Segments::from_lengths([4])).unwrap_err();
        assert!(error.to_string().contains("element type"), "{error}");
    }
}

/// Feeding a sequence in pieces through the cache gives what packed attention gives for the whole, whatever the cache
/// holds beyond what was written.
#[test]
fn cached_attention_equals_packed_attention_and_ignores_what_lies_beyond() {
    for (heads, kv_heads, d) in [(4, 2, 16), (7, 1, 64), (2, 2, 8)] {
        let capacity = 100;
        let lengths = [70usize, 33];
        let tokens = 103;
        let data = [heads, kv_heads, kv_heads].map(|h| values(tokens * h * d, h as u64 + 5, 1.0));
        let [q, k, v] = data.each_ref().map(|x| wide(x));
        let layout = Heads { heads, kv_heads, head_dim: d };
        let whole = narrow(&oracle::attention(layout, &q, &k, &v, &Segments::from_lengths(lengths)));
        let rows = [2usize, 0];
        let starts = [0usize, 70];
        let run = |poison: f32| {
            let mut keys = Tensor::<4>::full([3, capacity, kv_heads, d], poison, &plain_device());
            let mut vals = Tensor::<4>::full([3, capacity, kv_heads, d], poison, &plain_device());
            let mut outputs = Vec::new();
            for (pieces, at) in [([66usize, 1usize], [0usize, 0usize]), ([1, 31], [66, 1]), ([3, 1], [67, 32])] {
                let spans =
                    Spans::new((0..2).map(|i| Span { row: rows[i], start: at[i], length: pieces[i] }).collect());
                let cut = |data: &[f32], h: usize| {
                    let width = h * d;
                    let from = |i: usize| (starts[i] + at[i]) * width;
                    [0, 1]
                        .iter()
                        .flat_map(|&i| data[from(i)..from(i) + pieces[i] * width].to_vec())
                        .collect::<Vec<f32>>()
                };
                let tensor = |data: &[f32], h: usize| {
                    let n: usize = pieces.iter().sum();
                    Tensor::<3>::from_data(TensorData::new(cut(data, h), [n, h, d]), &plain_device())
                };
                keys = write(keys, tensor(&data[1], kv_heads), &spans).unwrap();
                vals = write(vals, tensor(&data[2], kv_heads), &spans).unwrap();
                let q = tensor(&data[0], heads);
                let out = read(&cached_attention(q.clone(), keys.clone(), vals.clone(), &spans).unwrap());
                close("cached", &out, &cut(&whole, heads), 3e-6);
                if poison == 0.0 && on_flex() {
                    let plain = cached_reference(q, keys.clone(), vals.clone(), &spans);
                    close("cached reference", &read(&plain), &out, 3e-6);
                }
                outputs.push(out);
            }
            outputs
        };
        let clean = run(0.0);
        for poison in [1e30, f32::NAN] {
            for (a, b) in run(poison).iter().zip(&clean) {
                same_bits("the cache beyond its length", a, b);
            }
        }
    }
}

/// One row against a long cache is cut into shares that are merged afterwards.
#[test]
fn a_long_cache_is_attended_as_a_whole() {
    let (heads, kv_heads, d, length) = (14, 2, 64, 1_500);
    let data =
        [values(heads * d, 1, 1.5), values(length * kv_heads * d, 2, 1.5), values(length * kv_heads * d, 3, 1.0)];
    let [q, k, v] = data.each_ref().map(|x| wide(x));
    // The last row of a causal problem whose other queries are zero.
    let mut all = vec![0.0; length * heads * d];
    all[(length - 1) * heads * d..].copy_from_slice(&q);
    let layout = Heads { heads, kv_heads, head_dim: d };
    let expected = oracle::attention(layout, &all, &k, &v, &Segments::from_lengths([length]));
    let cache = |data: &[f32]| {
        Tensor::<4>::from_data(TensorData::new(data.to_vec(), [1, length, kv_heads, d]), &plain_device())
    };
    let q = Tensor::<3>::from_data(TensorData::new(data[0].clone(), [1, heads, d]), &plain_device());
    let spans = Spans::new(vec![Span { row: 0, start: length - 1, length: 1 }]);
    let out = cached_attention(q, cache(&data[1]), cache(&data[2]), &spans).unwrap();
    close("long cache", &read(&out), &narrow(&expected[(length - 1) * heads * d..]), 3e-6);
}

#[test]
fn spans_beyond_the_capacity_are_refused() {
    let keys = Tensor::<4>::zeros([1, 4, 2, 16], &plain_device());
    let new = Tensor::<3>::zeros([2, 2, 16], &plain_device());
    let spans = Spans::new(vec![Span { row: 0, start: 3, length: 2 }]);
    assert!(write(keys, new, &spans).is_err());
}

/// Training compares the log-probability of a sampled token with the one it recomputes: on the CPU they are to be the
/// same number, so a token decoded alone gets the bits of the packed pass. Lengths lie around every block of the code.
#[test]
fn one_decoded_token_has_the_bits_of_packed_attention_on_flex() {
    if !on_flex() {
        return;
    }
    for (heads, kv_heads) in [(1, 1), (3, 3), (4, 2), (7, 1), (14, 2), (20, 1)] {
        for d in [8, 24, 32, 64, 96] {
            for length in [1, 2, 8, 9, 33, 65, 511, 512, 513, 1030] {
                let plain = |n: usize, h: usize, seed: u64| {
                    let data = TensorData::new(values(n * h * d, seed, 1.0), [n, h, d]);
                    Tensor::<3>::from_data(data, &plain_device())
                };
                let (k, v) = (plain(length, kv_heads, 1), plain(length, kv_heads, 2));
                let q = plain(length, heads, 3);
                let packed = attention(q.clone(), k.clone(), v.clone(), &Segments::from_lengths([length])).unwrap();
                let spans = Spans::new(vec![Span { row: 0, start: length - 1, length: 1 }]);
                let last = |t: Tensor<3>| t.narrow(0, length - 1, 1);
                let cached = cached_attention(last(q), k.unsqueeze::<4>(), v.unsqueeze::<4>(), &spans).unwrap();
                let what = format!("{heads} heads, {kv_heads} of keys, width {d}, {length} tokens");
                same_bits(&what, &read(&cached), &read(&last(packed)));
            }
        }
    }
}
