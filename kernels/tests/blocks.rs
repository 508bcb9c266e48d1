//! The rest of a block is native on Flex; elsewhere these functions are their references.

use burn::tensor::Tensor;
use rlver_kernels::{linear, norm, rotary, swiglu};

use crate::common::{close, leaf, on_flex, read, same_bits, with_gradients};

#[test]
fn linear_equals_the_reference() {
    if !on_flex() {
        return;
    }
    for (rows, inputs, outputs) in [(1, 3, 5), (37, 48, 20), (130, 64, 257)] {
        let (x, w) = (leaf([rows, inputs], 1, 1.0), leaf([outputs, inputs], 2, 1.0));
        let bias: Tensor<1> = leaf([outputs], 3, 1.0);
        for with_bias in [true, false] {
            let b = with_bias.then(|| bias.clone());
            let leaves = [x.clone(), w.clone()];
            let (y, g) = with_gradients(&leaves, || linear::linear(x.clone(), w.clone(), b.clone()).unwrap());
            let (expected, eg) = with_gradients(&leaves, || linear::reference(x.clone(), w.clone(), b.clone()));
            close("y", &y, &expected, 3e-6);
            close("dx", &g[0], &eg[0], 3e-6);
            close("dw", &g[1], &eg[1], 3e-6);
            if with_bias {
                let (_, g) = with_gradients(std::array::from_ref(&bias), || {
                    linear::linear(x.clone(), w.clone(), b.clone()).unwrap()
                });
                let (_, eg) =
                    with_gradients(std::array::from_ref(&bias), || linear::reference(x.clone(), w.clone(), b.clone()));
                close("db", &g[0], &eg[0], 3e-6);
            }
        }
    }
}

/// Generation reads weights in another layout than the trainer; log-probabilities must not notice.
#[test]
fn a_streamed_weight_gives_the_same_bits() {
    for (inputs, outputs) in [(3, 5), (48, 20), (64, 257), (192, 512), (704, 256), (1536, 576), (576, 1536), (96, 1)] {
        let w: Tensor<2> = leaf([outputs, inputs], 2, 1.0).inner();
        let streamed = linear::streamed(w.clone()).unwrap();
        assert_eq!(read(&streamed), read(&w));
        let bias: Tensor<1> = leaf([outputs], 3, 1.0).inner();
        for rows in [1, 2, 3, 5, 8, 17, 64, 65, 200] {
            let x: Tensor<2> = leaf([rows, inputs], 1, 1.0).inner();
            for b in [Some(bias.clone()), None] {
                let ours = linear::linear(x.clone(), streamed.clone(), b.clone()).unwrap();
                let expected = linear::linear(x.clone(), w.clone(), b).unwrap();
                same_bits(&format!("{rows} × {inputs} → {outputs}"), &read(&ours), &read(&expected));
            }
        }
    }
}

#[test]
fn rms_norm_equals_the_reference() {
    if !on_flex() {
        return;
    }
    for (rows, width) in [(1, 8), (70, 48), (131, 65)] {
        let (x, w) = (leaf([rows, width], 1, 2.0), leaf([width], 2, 1.0));
        let run = |f: &dyn Fn() -> Tensor<2>| {
            (with_gradients(std::array::from_ref(&x), f), with_gradients(std::array::from_ref(&w), f))
        };
        let ((y, dx), (_, dw)) = run(&|| norm::rms_norm(x.clone(), w.clone(), 1e-6).unwrap());
        let ((ey, edx), (_, edw)) = run(&|| norm::reference(x.clone(), w.clone(), 1e-6));
        close("y", &y, &ey, 2e-6);
        close("dx", &dx[0], &edx[0], 5e-6);
        close("dw", &dw[0], &edw[0], 5e-6);
    }
}

#[test]
fn rotation_equals_the_reference_and_preserves_length() {
    if !on_flex() {
        return;
    }
    let positions: Vec<usize> = (0..70).map(|i| i * 37 % 4000).collect();
    let table = rotary::RotaryTable::new(&positions, 32, 1e6, &crate::common::device());
    let x = leaf([70, 3, 32], 1, 1.0);
    let (y, g) = with_gradients(std::array::from_ref(&x), || rotary::rotate(x.clone(), &table).unwrap());
    let (ey, eg) = with_gradients(std::array::from_ref(&x), || rotary::reference(x.clone(), &table));
    close("y", &y, &ey, 2e-6);
    close("dx", &g[0], &eg[0], 2e-6);
    let norm = |v: &[f32]| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    assert!((norm(&y) / norm(&read(&x)) - 1.0).abs() < 1e-5);
}

#[test]
fn swiglu_equals_the_reference_even_for_huge_inputs() {
    if !on_flex() {
        return;
    }
    for scale in [1.0, 60.0] {
        let (gate, up) = (leaf([70, 33], 1, scale), leaf([70, 33], 2, 1.0));
        let leaves = [gate.clone(), up.clone()];
        let (y, g) = with_gradients(&leaves, || swiglu::swiglu(gate.clone(), up.clone()).unwrap());
        let (ey, eg) = with_gradients(&leaves, || swiglu::reference(gate.clone(), up.clone()));
        close("y", &y, &ey, 2e-6);
        close("dgate", &g[0], &eg[0], 5e-6);
        close("dup", &g[1], &eg[1], 5e-6);
    }
}

/// Guards the suite: if the device under test took the references, every test would compare them with themselves.
#[test]
fn the_device_under_test_takes_the_fused_path() {
    use burn::backend::DispatchDevice;
    let device = crate::common::plain_device();
    #[cfg(any(feature = "wgpu", feature = "cpu", feature = "cuda"))]
    let fused = matches!(device.as_dispatch(), DispatchDevice::Flex(_) | DispatchDevice::Cube(_));
    #[cfg(not(any(feature = "wgpu", feature = "cpu", feature = "cuda")))]
    let fused = matches!(device.as_dispatch(), DispatchDevice::Flex(_));
    assert!(fused);
}
