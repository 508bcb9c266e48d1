use burn::tensor::{Int, Tensor, TensorData};
use rlver_kernels::logprob::linear_logprob;

use crate::common::{close, device, error, gradients, leaf, leaf_of, narrow, read, same_bits, values, wide};
use crate::oracle::Projection;

pub(crate) fn ids(n: usize, vocabulary: usize) -> Vec<usize> {
    (0..n).map(|i| i * 7919 % vocabulary).collect()
}

fn targets(ids: &[usize]) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|i| *i as i32).collect();
    let n = ids.len();
    Tensor::from_data(TensorData::new(ids, [n]), &device())
}

/// Shape is `[n, width, rows]`; upstream are the gradients of log-probability and entropy.
pub(crate) struct Problem {
    pub(crate) shape: [usize; 3],
    pub(crate) vocabulary: usize,
    pub(crate) temperature: f32,
    pub(crate) hidden: Vec<f32>,
    pub(crate) weight: Vec<f32>,
    pub(crate) upstream: [Vec<f32>; 2],
}

impl Problem {
    pub(crate) fn new([n, width, rows]: [usize; 3], vocabulary: usize, scale: f32, temperature: f32) -> Problem {
        Problem {
            shape: [n, width, rows],
            vocabulary,
            temperature,
            hidden: values(n * width, 1, scale),
            weight: values(rows * width, 2, 0.5),
            upstream: [values(n, 3, 1.0), values(n, 4, 1.0)],
        }
    }

    /// Log-probability, entropy and both gradients on the device under test.
    fn run(&self) -> [Vec<f32>; 4] {
        let [n, width, rows] = self.shape;
        let (x, w) = (leaf_of(&self.hidden, [n, width]), leaf_of(&self.weight, [rows, width]));
        let t = targets(&ids(n, self.vocabulary));
        let out = linear_logprob(x.clone(), w.clone(), t, self.temperature, self.vocabulary).unwrap();
        let both = Tensor::cat(vec![out.logprob, out.entropy], 0);
        let [dx, dw] = gradients([&x, &w], &both, &self.upstream.concat());
        let both = read(&both);
        [both[..n].to_vec(), both[n..].to_vec(), dx, dw]
    }

    pub(crate) fn expected(&self) -> [Vec<f32>; 4] {
        let [n, width, _] = self.shape;
        let targets = ids(n, self.vocabulary);
        let p = Projection {
            width,
            vocabulary: self.vocabulary,
            temperature: f64::from(self.temperature),
            targets: &targets,
        };
        let (x, w) = (wide(&self.hidden), wide(&self.weight));
        let (logp, entropy) = p.forward(&x, &w);
        let [dx, dw] = p.backward(&x, &w, &wide(&self.upstream[0]), &wide(&self.upstream[1]));
        [&logp, &entropy, &dx, &dw].map(|v| narrow(v))
    }

    fn check(&self, tolerances: [f32; 4]) {
        let name = format!("{:?}, vocabulary {}, T {}", self.shape, self.vocabulary, self.temperature);
        let (ours, expected) = (self.run(), self.expected());
        for (i, what) in ["logprob", "entropy", "dhidden", "dweight"].iter().enumerate() {
            close(&format!("{name} {what}"), &ours[i], &expected[i], tolerances[i]);
        }
    }
}

#[test]
fn values_and_gradients_equal_host_loops() {
    for (shape, vocabulary) in
        [([1, 8, 1], 1), ([37, 48, 7], 7), ([5, 16, 4_099], 4_099), ([130, 8, 300], 290), ([33, 24, 5_000], 4_321)]
    {
        for (scale, temperature) in [(1.0, 1.0), (3.0, 0.7)] {
            Problem::new(shape, vocabulary, scale, temperature).check([4e-6, 1e-5, 2e-5, 2e-5]);
        }
    }
}

/// More hidden rows than a block and, together with the vocabulary, more logits than a chunk.
#[test]
fn blocks_and_chunks_join_without_a_seam() {
    Problem::new([1_100, 8, 2_500], 2_500, 1.0, 1.0).check([4e-6, 1e-5, 2e-5, 2e-5]);
}

/// The vocabulary of the smaller Qwen2.5 models.
#[test]
fn a_real_vocabulary_works() {
    Problem::new([3, 8, 151_936], 151_665, 2.0, 1.0).check([4e-6, 1e-5, 2e-5, 1e-5]);
}

#[test]
fn no_rows_give_no_numbers_and_no_gradient() {
    let x = Tensor::<2>::from_data(TensorData::new(Vec::<f32>::new(), [0, 8]), &device());
    let out = linear_logprob(x, leaf([10, 8], 2, 1.0), targets(&[]), 1.0, 10).unwrap();
    assert_eq!((out.logprob.dims(), out.entropy.dims()), ([0], [0]));
}

#[test]
fn only_the_gradients_that_are_asked_for_exist() {
    let (x, w) = (leaf([9, 16], 1, 1.0), leaf([50, 16], 2, 1.0));
    let t = targets(&ids(9, 50));
    let both = |x: &Tensor<2>, w: &Tensor<2>| {
        linear_logprob(x.clone(), w.clone(), t.clone(), 1.0, 50).unwrap().logprob.backward()
    };
    let all = both(&x, &w);
    let constant = |t: &Tensor<2>| Tensor::<2>::from_data(t.to_data(), &device());
    let fixed = constant(&w);
    let hidden_only = both(&x, &fixed);
    assert!(fixed.grad(&hidden_only).is_none());
    same_bits("dhidden", &read(&x.grad(&hidden_only).unwrap()), &read(&x.grad(&all).unwrap()));
    let fixed = constant(&x);
    let weight_only = both(&fixed, &w);
    same_bits("dweight", &read(&w.grad(&weight_only).unwrap()), &read(&w.grad(&all).unwrap()));
}

#[test]
fn rows_beyond_the_vocabulary_are_never_read_and_get_no_gradient() {
    let run = |poison: f32| {
        let mut problem = Problem::new([9, 16, 64], 50, 1.0, 1.0);
        problem.weight[50 * 16..].fill(poison);
        let out = problem.run();
        assert!(out[3][50 * 16..].iter().all(|g| *g == 0.0));
        out
    };
    let clean = run(0.0);
    for poison in [1e30, f32::NAN] {
        for (a, b) in run(poison).iter().zip(&clean) {
            same_bits("rows beyond the vocabulary", a, b);
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_neighbours() {
    let clean = Problem::new([3, 8, 40], 40, 1.0, 1.0).run();
    let mut problem = Problem::new([3, 8, 40], 40, 1.0, 1.0);
    problem.hidden[8..16].fill(f32::NAN);
    let poisoned = problem.run();
    for i in [0, 2] {
        assert_eq!((poisoned[0][i], poisoned[1][i]), (clean[0][i], clean[1][i]));
        same_bits("dhidden", &poisoned[2][i * 8..(i + 1) * 8], &clean[2][i * 8..(i + 1) * 8]);
    }
}

#[test]
fn extreme_logits_stay_finite() {
    for scale in [1e-4, 1e4] {
        let problem = Problem::new([6, 8, 100], 100, scale, 1.0);
        let (ours, expected) = (problem.run(), problem.expected());
        assert!(ours.iter().flatten().all(|v| v.is_finite()));
        assert!(ours[0].iter().all(|v| *v <= 1e-3));
        // Rounding of a logit of 1e4 in f32 is 1e-3, absolute.
        let (a, b) = (error(&ours[0], &expected[0]), error(&ours[1], &expected[1]));
        let bound = if scale > 1.0 { 0.02 } else { 4e-6 };
        assert!(a <= bound && b <= bound, "scale {scale}: errors {a:e} and {b:e}");
    }
}

#[test]
fn a_vocabulary_larger_than_the_head_is_refused() {
    let t = targets(&ids(2, 10));
    let error = linear_logprob(leaf([2, 8], 1, 1.0), leaf([10, 8], 2, 1.0), t, 1.0, 11).unwrap_err();
    assert!(error.to_string().contains("vocabulary"), "{error}");
}
