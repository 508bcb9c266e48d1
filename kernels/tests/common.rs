//! The device under test, deterministic inputs, comparisons.

use burn::tensor::{DType, Device, Tensor, TensorData};

/// The device under test without gradients: `RLVER_TEST_DEVICE` is `flex` (the default), `wgpu`, `vulkan`, `cpu` or
/// `cuda`; the last four need the cargo feature of that name.
pub(crate) fn plain_device() -> Device {
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

/// The device under test, with gradients.
pub(crate) fn device() -> Device {
    plain_device().autodiff()
}

/// Whether the device under test is Flex.
pub(crate) fn on_flex() -> bool {
    matches!(plain_device().as_dispatch(), burn::backend::DispatchDevice::Flex(_))
}

/// The half-precision types that the device under test has fused code for.
pub(crate) fn half_types() -> Vec<DType> {
    let device = plain_device();
    let types = [DType::F16, DType::BF16];
    if on_flex() { vec![] } else { types.into_iter().filter(|t| device.supports_dtype(*t)).collect() }
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

/// A leaf of the device under test with these values.
pub(crate) fn leaf_of<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &device()).require_grad()
}

/// A leaf tensor of [`values`].
pub(crate) fn leaf<const D: usize>(shape: [usize; D], seed: u64, scale: f32) -> Tensor<D> {
    leaf_of(&values(shape.iter().product(), seed, scale), shape)
}

/// The tensor's values.
pub(crate) fn read<const D: usize>(t: &Tensor<D>) -> Vec<f32> {
    t.to_data().convert::<f32>().try_to_vec().expect("converted to f32")
}

/// The values in double precision.
pub(crate) fn wide(v: &[f32]) -> Vec<f64> {
    v.iter().map(|x| f64::from(*x)).collect()
}

/// The values in single precision.
pub(crate) fn narrow(v: &[f64]) -> Vec<f32> {
    v.iter().map(|x| *x as f32).collect()
}

/// Largest |a − b| over max(|b|, 0.1).
pub(crate) fn error(ours: &[f32], expected: &[f32]) -> f32 {
    let scale = expected.iter().fold(0.1f32, |m, v| m.max(v.abs()));
    // Not `max`, which would swallow NaN.
    ours.iter().zip(expected).fold(0.0, |m, (a, b)| {
        let e = (a - b).abs() / scale;
        if e <= m { m } else { e }
    })
}

/// Asserts [`error`] ≤ tolerance.
pub(crate) fn close(what: &str, ours: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), expected.len(), "{what}: lengths differ");
    let scale = expected.iter().fold(0.1f32, |m, v| m.max(v.abs()));
    for (i, (a, b)) in ours.iter().zip(expected).enumerate() {
        let error = (a - b).abs() / scale;
        assert!(error <= tolerance, "{what}[{i}]: {a} instead of {b}, relative error {error:e}");
    }
}

/// Asserts equal bits (NaN equals itself).
pub(crate) fn same_bits(what: &str, ours: &[f32], expected: &[f32]) {
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(ours), bits(expected), "{what}");
}

/// The gradients of `leaves` when the gradient of `out` is `upstream`.
pub(crate) fn gradients<const D: usize, const O: usize, const N: usize>(
    leaves: [&Tensor<D>; N],
    out: &Tensor<O>,
    upstream: &[f32],
) -> [Vec<f32>; N] {
    let upstream =
        Tensor::from_data(TensorData::new(upstream.to_vec(), out.dims()).convert_dtype(out.dtype()), &device());
    // Backward seeds a tensor with ones.
    let grads = (out.clone() * upstream).backward();
    leaves.map(|l| read(&l.grad(&grads).expect("tracked")))
}

/// Runs `f` on the leaves, seeds its output with fixed pseudo-random gradients, and returns the output with the
/// gradient of every leaf.
pub(crate) fn with_gradients<const D: usize, const O: usize, const N: usize>(
    leaves: &[Tensor<D>; N],
    f: impl FnOnce() -> Tensor<O>,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let out = f();
    let upstream = values(out.dims().iter().product(), 99, 1.0);
    let grads = gradients(leaves.each_ref(), &out, &upstream);
    (read(&out), grads.to_vec())
}

/// d f/d x by central differences.
pub(crate) fn numeric_gradient(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    (0..x.len())
        .map(|i| {
            let at = |step: f64| {
                let mut moved = x.to_vec();
                moved[i] += step;
                f(&moved)
            };
            (at(STEP) - at(-STEP)) / (2.0 * STEP)
        })
        .collect()
}
