use burn::tensor::{Tensor, TensorData};
use rlver_kernels::Segments;
use rlver_kernels::attention::{attention, reference};
use rlver_kernels::cache::{Span, Spans, cached_attention, reference as cached_reference, write};

use crate::common::{close, device, leaf, read, values, with_gradients};

#[test]
fn packed_attention_equals_the_reference_for_every_layout() {
    for (heads, kv_heads, head_dim) in [(1, 1, 8), (4, 2, 32), (7, 1, 64), (2, 2, 96), (3, 1, 128)] {
        for lengths in [vec![1], vec![5, 0, 1, 37], vec![63, 64, 65], vec![130]] {
            let segments = Segments::from_lengths(lengths.clone());
            let tokens = segments.tokens();
            let q = leaf([tokens, heads, head_dim], 1, 1.5);
            let k = leaf([tokens, kv_heads, head_dim], 2, 1.5);
            let v = leaf([tokens, kv_heads, head_dim], 3, 1.0);
            let leaves = [q.clone(), k.clone(), v.clone()];
            let (out, grads) =
                with_gradients(&leaves, || attention(q.clone(), k.clone(), v.clone(), &segments).unwrap());
            let (expected, expected_grads) =
                with_gradients(&leaves, || reference(q.clone(), k.clone(), v.clone(), &segments));
            let name = format!("heads {heads}/{kv_heads}x{head_dim}, lengths {lengths:?}");
            close(&name, &out, &expected, 2e-6);
            for (what, (a, b)) in ["dq", "dk", "dv"].iter().zip(grads.iter().zip(&expected_grads)) {
                close(&format!("{name} {what}"), a, b, 2e-5);
            }
        }
    }
}

#[test]
fn a_neighbouring_segment_is_never_read() {
    let (heads, d) = (2, 16);
    let run = |poison: f32| {
        let segments = Segments::from_lengths([9, 20, 11]);
        let make = |seed| {
            let mut data = values(40 * heads * d, seed, 1.0);
            data[..9 * heads * d].fill(poison);
            data[29 * heads * d..].fill(poison);
            Tensor::<3>::from_data(TensorData::new(data, [40, heads, d]), &device()).require_grad()
        };
        let (q, k, v) = (make(1), make(2), make(3));
        let out = attention(q.clone(), k.clone(), v.clone(), &segments).unwrap().narrow(0, 9, 20);
        let grads = out.clone().sum().backward();
        let inner = |t: &Tensor<3>| read(&t.grad(&grads).unwrap().narrow(0, 9, 20));
        [read(&out), inner(&q), inner(&k), inner(&v)]
    };
    assert_eq!(run(0.0), run(1e30), "the middle segment must not depend on its neighbours");
}

#[test]
fn gradients_match_finite_differences() {
    let (segments, d) = (Segments::from_lengths([5, 3]), 8);
    let inputs = [values(8 * 2 * d, 1, 0.8), values(8 * d, 2, 0.8), values(8 * d, 3, 0.8)];
    // The host loop in f64 that defines the operation.
    let host = |x: &[Vec<f64>; 3]| -> f64 {
        let mut total = 0.0;
        for range in segments.ranges() {
            for i in range.clone() {
                for h in 0..2 {
                    let dot = |j: usize| -> f64 {
                        (0..d).map(|c| x[0][(i * 2 + h) * d + c] * x[1][j * d + c]).sum::<f64>() / (d as f64).sqrt()
                    };
                    let total_weight: f64 = (range.start..=i).map(|j| dot(j).exp()).sum();
                    for c in 0..d {
                        let o: f64 = (range.start..=i).map(|j| dot(j).exp() / total_weight * x[2][j * d + c]).sum();
                        total += o * (1.0 + ((i * 2 + h) * d + c) as f64 * 0.01);
                    }
                }
            }
        }
        total
    };
    let leaves = [
        Tensor::<3>::from_data(TensorData::new(inputs[0].clone(), [8, 2, d]), &device()).require_grad(),
        Tensor::<3>::from_data(TensorData::new(inputs[1].clone(), [8, 1, d]), &device()).require_grad(),
        Tensor::<3>::from_data(TensorData::new(inputs[2].clone(), [8, 1, d]), &device()).require_grad(),
    ];
    let out = attention(leaves[0].clone(), leaves[1].clone(), leaves[2].clone(), &segments).unwrap();
    let upstream: Vec<f32> = (0..8 * 2 * d).map(|i| 1.0 + i as f32 * 0.01).collect();
    let grads = (out * Tensor::from_data(TensorData::new(upstream, [8, 2, d]), &device())).sum().backward();
    let exact: [Vec<f64>; 3] = inputs.clone().map(|v| v.into_iter().map(f64::from).collect());
    for (which, leaf) in leaves.iter().enumerate() {
        let numeric: Vec<f32> = (0..exact[which].len())
            .map(|i| {
                let shifted = |step: f64| {
                    let mut x = exact.clone();
                    x[which][i] += step;
                    host(&x)
                };
                ((shifted(1e-5) - shifted(-1e-5)) / 2e-5) as f32
            })
            .collect();
        close("finite differences", &read(&leaf.grad(&grads).unwrap()), &numeric, 1e-5);
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let q = leaf([4, 3, 8], 1, 1.0);
    let k = leaf([4, 2, 8], 2, 1.0);
    let error = attention(q.clone(), k.clone(), k.clone(), &Segments::from_lengths([4])).unwrap_err();
    assert!(error.to_string().contains("key/value heads"), "{error}");
    let k = leaf([4, 3, 8], 2, 1.0);
    let error = attention(q, k.clone(), k, &Segments::from_lengths([3])).unwrap_err();
    assert!(error.to_string().contains("cu_seqlens"), "{error}");
    assert!(Segments::from_offsets(vec![0, 5, 3]).is_err());
}

/// Feeding a sequence in pieces through the cache gives what packed attention gives for the whole.
#[test]
fn cached_attention_equals_packed_attention_and_ignores_what_lies_beyond() {
    let (heads, kv_heads, d, capacity) = (4, 2, 16, 100);
    let device = burn::tensor::Device::flex();
    let lengths = [70usize, 33];
    let tokens = 103;
    let make = |n: usize, seed| {
        Tensor::<3>::from_data(TensorData::new(values(tokens * n * d, seed, 1.0), [tokens, n, d]), &device)
    };
    let (q, k, v) = (make(heads, 1), make(kv_heads, 2), make(kv_heads, 3));
    let whole = attention(q.clone(), k.clone(), v.clone(), &Segments::from_lengths(lengths)).unwrap();
    let rows = [2usize, 0];
    let starts = [0usize, 70];
    for poison in [0.0f32, f32::NAN] {
        let mut keys = Tensor::<4>::full([3, capacity, kv_heads, d], poison, &device);
        let mut vals = keys.clone();
        for (pieces, at) in [([66usize, 1usize], [0usize, 0usize]), ([1, 31], [66, 1]), ([3, 1], [67, 32])] {
            let spans = Spans::new((0..2).map(|i| Span { row: rows[i], start: at[i], length: pieces[i] }).collect());
            let cut = |t: &Tensor<3>| {
                Tensor::cat((0..2).map(|i| t.clone().narrow(0, starts[i] + at[i], pieces[i])).collect::<Vec<_>>(), 0)
            };
            keys = write(keys, cut(&k), &spans).unwrap();
            vals = write(vals, cut(&v), &spans).unwrap();
            let out = cached_attention(cut(&q), keys.clone(), vals.clone(), &spans).unwrap();
            close("cached", &read(&out), &read(&cut(&whole)), 3e-6);
            if poison == 0.0 {
                let plain = cached_reference(cut(&q), keys.clone(), vals.clone(), &spans);
                close("cached reference", &read(&plain), &read(&out), 3e-6);
            }
        }
    }
    let keys = Tensor::<4>::zeros([1, 4, kv_heads, d], &device);
    let spans = Spans::new(vec![Span { row: 0, start: 3, length: 2 }]);
    assert!(write(keys, k.narrow(0, 0, 2), &spans).is_err(), "beyond the capacity");
}
