//! That tensor cores are what computes where the device has them, and nothing but them differs when they are switched off.
//! In the library's own test binary, since the switch is process-wide.

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::Segments;
use crate::fragment::Fragment;

/// The device that `RLVER_TEST_DEVICE` names, when it is one of CubeCL's.
fn device() -> Option<Device> {
    match std::env::var("RLVER_TEST_DEVICE").as_deref() {
        #[cfg(feature = "wgpu")]
        Ok("wgpu") => Some(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "vulkan")]
        Ok("vulkan") => Some(Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "cuda")]
        Ok("cuda") => Some(Device::cuda(0)),
        _ => None,
    }
}

fn values(n: usize, seed: usize, scale: f32) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).map(|x| x * scale).collect()
}

fn leaf<const D: usize>(device: &Device, dtype: DType, shape: [usize; D], seed: usize) -> Tensor<D> {
    let data = TensorData::new(values(shape.iter().product(), seed, 1.0), shape).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype)).require_grad()
}

fn read<const D: usize>(t: Tensor<D>) -> Vec<f32> {
    t.into_data().convert::<f32>().try_to_vec().expect("converted to f32")
}

/// Output and gradients of attention, 3 heads to a key head, ragged segments.
fn attention(device: &Device, dtype: DType, d: usize) -> Vec<Vec<f32>> {
    let segments = Segments::from_lengths([37, 0, 1, 70]);
    let q = leaf(device, dtype, [108, 6, d], 1);
    let [k, v] = [2, 3].map(|seed| leaf(device, dtype, [108, 2, d], seed));
    let out = crate::attention::attention(q.clone(), k.clone(), v.clone(), &segments).expect("fits");
    let grads = (out.clone() * leaf(device, dtype, [108, 6, d], 4).detach()).backward();
    let mut all = vec![read(out)];
    all.extend([q, k, v].map(|leaf| read(leaf.grad(&grads).expect("tracked"))));
    all
}

/// Log-probability and entropy with their gradients; `width` and the vocabulary are no multiples of a tile.
fn projection(device: &Device, dtype: DType, width: usize) -> Vec<Vec<f32>> {
    let (n, vocabulary) = (70, 601);
    let (x, w) = (leaf(device, dtype, [n, width], 1), leaf(device, dtype, [vocabulary + 9, width], 2));
    let targets: Vec<i32> = (0..n as i32).map(|i| i * 37 % vocabulary as i32).collect();
    let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [n]), device);
    let out = crate::logprob::linear_logprob(x.clone(), w.clone(), targets, 1.3, vocabulary).expect("fits");
    let both = Tensor::cat(vec![out.logprob, out.entropy], 0);
    let grads = (both.clone() * leaf(device, DType::F32, [2 * n], 3).detach() * 1e-3).backward();
    vec![read(both), read(x.grad(&grads).expect("tracked")), read(w.grad(&grads).expect("tracked"))]
}

/// Largest difference over the largest number.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    let scale = b.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    assert!(scale > 0.0 && a.iter().chain(b).all(|x| x.is_finite()));
    a.iter().zip(b).fold(0.0f32, |m, (a, b)| m.max((a - b).abs())) / scale
}

#[test]
fn tensor_cores_compute_where_there_are_some_and_agree_with_the_plain_path() {
    let Some(device) = device() else { return };
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { panic!("not a device of CubeCL") };
    let client = cube.client();
    let ours = device.clone().autodiff();
    for dtype in [DType::F32, DType::F16, DType::BF16].into_iter().filter(|t| device.supports_dtype(*t)) {
        let fragment = Fragment::of(&client, dtype);
        if fragment.is_none() && dtype != DType::F32 {
            println!("SKIPPED: this device has no tensor cores for {dtype:?}");
        }
        assert!(dtype != DType::F32 || fragment.is_none(), "f32 would be rounded to TF32");
        let run = |on: bool| {
            crate::set_tensor_cores(on);
            let of_attention = [16, 64, 128].map(|d| (format!("attention, width {d}"), attention(&ours, dtype, d)));
            let of_projection = [48, 41].map(|w| (format!("linear_logprob, width {w}"), projection(&ours, dtype, w)));
            [of_attention.to_vec(), of_projection.to_vec()].concat()
        };
        let (with, without) = (run(true), run(false));
        crate::set_tensor_cores(true);
        let tolerance = if dtype == DType::BF16 { 2e-2 } else { 3e-3 };
        for ((what, a), (_, b)) in with.iter().zip(&without) {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                let what = format!("{what}, {dtype:?}, result {i}, {fragment:?}");
                if fragment.is_some() {
                    assert!(a != b, "{what}: the same bits, so tensor cores did not compute it");
                    assert!(difference(a, b) <= tolerance, "{what}: {:e}", difference(a, b));
                } else {
                    assert!(a == b, "{what}: a switch without effect changed the numbers");
                }
            }
        }
    }
}
