//! Sums that a run's bytes depend on.

use burn::tensor::Tensor;
use rlver_kernels::ordered_sum;

use crate::common::{error, half_types, leaf, plain_device, read, values, wide};

#[test]
fn a_sum_has_the_same_bits_every_time_and_is_right() {
    for n in [0, 1, 255, 256, 257, 70_001] {
        let numbers = leaf([n], 1, 1.0);
        let expected: f64 = wide(&values(n, 1, 1.0)).iter().sum();
        let first = read(&ordered_sum(numbers.clone()));
        assert!((f64::from(first[0]) - expected).abs() < 1e-6 * (n as f64 + 1.0), "{n}: {first:?} {expected}");
        for _ in 0..20 {
            let again = read(&ordered_sum(numbers.clone()));
            assert_eq!((again.len(), again[0].to_bits()), (1, first[0].to_bits()), "{n}");
        }
    }
}

#[test]
fn half_precision_stays_what_it_is() {
    for dtype in half_types() {
        for n in [0, 320] {
            let ones = Tensor::<1>::ones([n], (&plain_device(), dtype));
            let sum = ordered_sum(ones);
            assert_eq!((sum.dtype(), read(&sum)), (dtype, vec![n as f32]), "{n}");
        }
    }
}

#[test]
fn every_number_has_the_gradient_of_the_sum() {
    let numbers = leaf([1000], 1, 1.0);
    let gradients = (ordered_sum(numbers.clone()) * 3.0).backward();
    assert!(error(&read(&numbers.grad(&gradients).unwrap()), &[3.0; 1000]) < 1e-6);
}
