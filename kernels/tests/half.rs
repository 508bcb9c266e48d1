//! Half precision: on tensor cores where the device has them, and elsewhere.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rlver_kernels::attention::{attention, reference as attention_reference};
use rlver_kernels::logprob::{linear_logprob, reference as logprob_reference};

use crate::common::{device, error, half_types, read, same_bits};
use crate::{attention, logprob};

/// The numbers as the type holds them.
fn round(data: &mut [f32], dtype: DType) {
    let t = Tensor::<1>::from_data(TensorData::new(data.to_vec(), [data.len()]), &Device::flex());
    data.copy_from_slice(&read(&t.cast(dtype)));
}

fn leaf<const D: usize>(data: &[f32], shape: [usize; D], device: &Device, dtype: DType) -> Tensor<D> {
    let data = TensorData::new(data.to_vec(), shape).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype)).require_grad()
}

/// Error at most twice the plain operations' in the same precision, both against f64 on the rounded inputs.
fn errs_little(name: &str, ours: &[Vec<f32>; 4], plain: &[Vec<f32>; 4], expected: &[Vec<f32>; 4]) {
    for i in 0..4 {
        let (ours, plain) = (error(&ours[i], &expected[i]), error(&plain[i], &expected[i]));
        assert!(ours <= 2.0 * plain + 1e-5, "{name}, result {i}: error {ours:e}, plain operations {plain:e}");
    }
}

/// Output and gradients, fused or by plain operations.
fn run_attention(problem: &attention::Problem, device: &Device, dtype: DType, fused: bool) -> [Vec<f32>; 4] {
    let shapes = problem.shapes();
    let [q, k, v] = [0, 1, 2].map(|i| leaf(&problem.data[i], shapes[i], device, dtype));
    let (a, b, c) = (q.clone(), k.clone(), v.clone());
    let out = if fused {
        attention(a, b, c, &problem.segments).unwrap()
    } else {
        attention_reference(a, b, c, &problem.segments)
    };
    assert_eq!(out.dtype(), dtype);
    let grads = (out.clone() * leaf(&problem.data[3], shapes[0], device, dtype).detach()).backward();
    let grad = |t: &Tensor<3>| read(&t.grad(&grads).unwrap());
    [read(&out), grad(&q), grad(&k), grad(&v)]
}

#[test]
fn half_precision_attention_errs_no_more_than_twice_the_plain_operation() {
    // Widths that tensor cores take, one that they may not, one too wide for their backward; blocks of every kind.
    for (heads, lengths) in [
        ((4, 2, 64), vec![70, 1, 30]),
        ((7, 1, 128), vec![33, 0, 17]),
        ((2, 2, 96), vec![64]),
        ((3, 1, 16), vec![5, 65, 1]),
        ((2, 1, 24), vec![40]),
        ((2, 1, 256), vec![20, 3]),
    ] {
        for dtype in half_types() {
            let mut problem = attention::Problem::new(heads, &lengths, 1.0);
            problem.data.iter_mut().for_each(|data| round(data, dtype));
            let ours = run_attention(&problem, &device(), dtype, true);
            let plain = run_attention(&problem, &Device::flex().autodiff(), dtype, false);
            errs_little(&format!("{heads:?}, {dtype:?}"), &ours, &plain, &problem.expected());
        }
    }
}

#[test]
fn a_neighbouring_segment_is_never_read_in_half_precision() {
    for dtype in half_types() {
        for (lengths, d) in [([9, 20, 11], 16), ([40, 33, 7], 64)] {
            let heads = 2;
            let range = lengths[0] * heads * d..(lengths[0] + lengths[1]) * heads * d;
            let run = |poison: f32| {
                let mut problem = attention::Problem::new((heads, heads, d), &lengths, 1.0);
                for data in &mut problem.data {
                    data[..range.start].fill(poison);
                    data[range.end..].fill(poison);
                }
                run_attention(&problem, &device(), dtype, true).map(|x| x[range.clone()].to_vec())
            };
            let clean = run(0.0);
            assert!(clean.iter().flatten().all(|x| x.is_finite()));
            for poison in [0.0, f32::INFINITY, f32::NAN] {
                for (a, b) in run(poison).iter().zip(&clean) {
                    same_bits("the middle segment must not depend on its neighbours", a, b);
                }
            }
        }
    }
}

/// Log-probability, entropy and both gradients, fused or by plain operations.
fn run_logprob(problem: &logprob::Problem, device: &Device, dtype: DType, fused: bool) -> [Vec<f32>; 4] {
    let [n, width, rows] = problem.shape;
    let x = leaf(&problem.hidden, [n, width], device, dtype);
    let w = leaf(&problem.weight, [rows, width], device, dtype);
    let t: Vec<i32> = logprob::ids(n, problem.vocabulary).iter().map(|i| *i as i32).collect();
    let t = Tensor::<1, Int>::from_data(TensorData::new(t, [n]), device);
    let (temperature, vocabulary) = (problem.temperature, problem.vocabulary);
    let both = if fused {
        let out = linear_logprob(x.clone(), w.clone(), t, temperature, vocabulary).unwrap();
        Tensor::cat(vec![out.logprob, out.entropy], 0)
    } else {
        logprob_reference(x.clone(), w.clone(), t, temperature, vocabulary).narrow(0, 0, 2).reshape([2 * n])
    };
    assert_eq!(both.dtype(), DType::F32);
    let upstream = Tensor::<1>::from_data(TensorData::new(problem.upstream.concat(), [2 * n]), device);
    let grads = (both.clone() * upstream).backward();
    let both = read(&both);
    let (dx, dw) = (x.grad(&grads).unwrap(), w.grad(&grads).unwrap());
    assert_eq!((dx.dtype(), dw.dtype()), (dtype, dtype));
    [both[..n].to_vec(), both[n..].to_vec(), read(&dx), read(&dw)]
}

#[test]
fn half_precision_logprobs_err_no_more_than_twice_the_plain_operation() {
    for (shape, vocabulary, temperature) in [([37, 48, 500], 490, 1.0), ([130, 72, 300], 300, 0.7), ([1, 8, 5], 3, 1.0)]
    {
        for dtype in half_types() {
            let mut problem = logprob::Problem::new(shape, vocabulary, 1.0, temperature);
            round(&mut problem.hidden, dtype);
            round(&mut problem.weight, dtype);
            let ours = run_logprob(&problem, &device(), dtype, true);
            let plain = run_logprob(&problem, &Device::flex().autodiff(), dtype, false);
            errs_little(&format!("{shape:?}, {dtype:?}"), &ours, &plain, &problem.expected());
        }
    }
}

/// Upstream gradients as small as a mean over thousands of tokens makes them.
#[test]
fn small_gradients_do_not_vanish_in_half_precision() {
    for dtype in half_types() {
        let mut problem = logprob::Problem::new([37, 48, 500], 490, 1.0, 1.0);
        let whole = run_logprob(&problem, &device(), dtype, true);
        let factor = 2.0f32.powi(-10);
        problem.upstream.iter_mut().flatten().for_each(|g| *g *= factor);
        let small = run_logprob(&problem, &device(), dtype, true);
        for i in [2, 3] {
            let scaled: Vec<f32> = small[i].iter().map(|x| x / factor).collect();
            // The results themselves are halves: f16 holds numbers this small to an absolute 6e-8.
            let error = error(&scaled, &whole[i]);
            assert!(error <= 1e-3, "{dtype:?}, gradient {i}: {error:e}");
        }
    }
}

#[test]
fn rows_beyond_the_vocabulary_and_other_rows_are_never_read_in_half_precision() {
    for dtype in half_types() {
        let run = |poison: f32| {
            let mut problem = logprob::Problem::new([9, 16, 64], 50, 1.0, 1.0);
            problem.weight[50 * 16..].fill(poison);
            problem.hidden[16..32].fill(poison);
            let out = run_logprob(&problem, &device(), dtype, true);
            assert!(out[3][50 * 16..].iter().all(|g| *g == 0.0));
            let others = |x: &[f32], width: usize| [&x[..width], &x[2 * width..]].concat();
            [others(&out[0], 1), others(&out[1], 1), others(&out[2], 16), out[3][50 * 16..].to_vec()]
        };
        let clean = run(0.0);
        for poison in [f32::INFINITY, f32::NAN] {
            for (a, b) in run(poison).iter().zip(&clean) {
                same_bits("poison", a, b);
            }
        }
    }
}
