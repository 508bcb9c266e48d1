//! Deterministic inputs and comparisons.

use burn::tensor::{Device, Tensor, TensorData};

/// The device under test, with gradients.
pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}

/// Pseudo-random values of standard deviation about `scale`, different for every `seed`.
pub(crate) fn values(n: usize, seed: u64, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| scale * 2.0 * (next() + next() + next())).collect()
}

/// A leaf tensor of [`values`].
pub(crate) fn leaf<const D: usize>(shape: [usize; D], seed: u64, scale: f32) -> Tensor<D> {
    let data = TensorData::new(values(shape.iter().product(), seed, scale), shape);
    Tensor::from_data(data, &device()).require_grad()
}

/// The tensor's values.
pub(crate) fn read<const D: usize>(t: &Tensor<D>) -> Vec<f32> {
    t.to_data().try_to_vec().expect("f32 tensor")
}

/// Asserts max|a − b| ≤ tolerance · max(|b|, 0.1).
pub(crate) fn close(what: &str, ours: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), expected.len(), "{what}: lengths differ");
    let scale = expected.iter().fold(0.1f32, |m, v| m.max(v.abs()));
    for (i, (a, b)) in ours.iter().zip(expected).enumerate() {
        let error = (a - b).abs() / scale;
        assert!(error <= tolerance, "{what}[{i}]: {a} instead of {b}, relative error {error:e}");
    }
}

/// Runs `f` on the leaves, seeds its output with fixed pseudo-random gradients, and returns the output with the
/// gradient of every leaf.
pub(crate) fn with_gradients<const D: usize, const O: usize, const N: usize>(
    leaves: &[Tensor<D>; N],
    f: impl FnOnce() -> Tensor<O>,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let out = f();
    let upstream = leaf(out.dims(), 99, 1.0).detach();
    let grads = (out.clone() * upstream).sum().backward();
    (read(&out), leaves.iter().map(|l| read(&l.grad(&grads).expect("tracked"))).collect())
}
