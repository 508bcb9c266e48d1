use burn::tensor::{Int, Tensor, TensorData};
use rlver_kernels::logprob::{linear_logprob, reference};

use crate::common::{close, device, leaf, read, with_gradients};

fn targets(n: usize, vocabulary: usize) -> Tensor<1, Int> {
    let ids: Vec<i32> = (0..n).map(|i| (i * 7919 % vocabulary) as i32).collect();
    Tensor::from_data(TensorData::new(ids, [n]), &device())
}

#[test]
fn values_and_gradients_equal_the_reference() {
    for (n, width, rows, vocabulary) in
        [(1, 8, 1, 1), (37, 48, 7, 7), (5, 16, 4_099, 4_099), (1_030, 8, 300, 290), (33, 24, 5_000, 4_321)]
    {
        for (scale, temperature) in [(1.0, 1.0), (3.0, 0.7)] {
            let (x, w) = (leaf([n, width], 1, scale), leaf([rows, width], 2, 0.5));
            let leaves = [x.clone(), w.clone()];
            let t = targets(n, vocabulary);
            let (out, grads) = with_gradients(&leaves, || {
                let out = linear_logprob(x.clone(), w.clone(), t.clone(), temperature, vocabulary).unwrap();
                Tensor::stack::<2>(vec![out.logprob, out.entropy], 0)
            });
            let (expected, expected_grads) = with_gradients(&leaves, || {
                reference(x.clone(), w.clone(), t.clone(), temperature, vocabulary).narrow(0, 0, 2)
            });
            let name = format!("n {n}, width {width}, vocabulary {vocabulary}/{rows}, T {temperature}");
            close(&name, &out, &expected, 3e-6);
            close(&format!("{name} dhidden"), &grads[0], &expected_grads[0], 1e-5);
            close(&format!("{name} dweight"), &grads[1], &expected_grads[1], 1e-5);
        }
    }
}

#[test]
fn rows_beyond_the_vocabulary_are_never_read_and_get_no_gradient() {
    let run = |poison: f32| {
        let x = leaf([9, 16], 1, 1.0);
        let w = Tensor::cat(vec![leaf([50, 16], 2, 1.0).detach(), Tensor::full([14, 16], poison, &device())], 0)
            .detach()
            .require_grad();
        let out = linear_logprob(x.clone(), w.clone(), targets(9, 50), 1.0, 50).unwrap();
        let grads = (out.logprob.clone() + out.entropy.clone()).sum().backward();
        let dw = read(&w.grad(&grads).unwrap());
        assert!(dw[50 * 16..].iter().all(|g| *g == 0.0));
        [read(&out.logprob), read(&out.entropy), read(&x.grad(&grads).unwrap()), dw]
    };
    assert_eq!(run(0.0), run(1e30));
}

#[test]
fn extreme_logits_stay_finite() {
    let x = leaf([6, 8], 1, 1e4);
    let w = leaf([100, 8], 2, 1.0);
    let out = linear_logprob(x, w, targets(6, 100), 1.0, 100).unwrap();
    assert!(read(&out.logprob).iter().chain(&read(&out.entropy)).all(|v| v.is_finite()));
    assert!(read(&out.logprob).iter().all(|v| *v <= 0.0));
}

#[test]
fn a_vocabulary_larger_than_the_head_is_refused() {
    let error = linear_logprob(leaf([2, 8], 1, 1.0), leaf([10, 8], 2, 1.0), targets(2, 10), 1.0, 11).unwrap_err();
    assert!(error.to_string().contains("vocabulary"), "{error}");
}
