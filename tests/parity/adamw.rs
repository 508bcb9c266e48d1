//! One step of torch's AdamW with global-norm clipping on the two tiny models (`models/tests/fixtures`, torch 2.15):
//! clip 1.0, lr 1e-3, β 0.9 and 0.95, ε 1e-8, weight decay 0.1 on every parameter.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{Int, Tensor, TensorData};
use rlver::recipe::{OptimizerSection, Recipe};
use rlver::train::{AdamW, GradientSum};
use rlver_models::qwen2::{HeadKind, Packed, Qwen2};
use rlver_models::weights;
use safetensors::{Dtype, SafeTensors};

use crate::tiny::test_device;

type Golden = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

fn golden(folder: &Path) -> Golden {
    let bytes = std::fs::read(folder.join("fixture.safetensors")).unwrap();
    let read = |dtype, data: &[u8]| -> Vec<f64> {
        match dtype {
            Dtype::F32 => data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect(),
            _ => data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
        }
    };
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter().map(|(name, view)| (name.into(), (view.shape().to_vec(), read(view.dtype(), view.data())))).collect()
}

fn nll(model: &Qwen2, golden: &Golden) -> Tensor<1> {
    let (shape, ids) = &golden["input_ids"];
    let width = shape[1];
    let (mask, loss_mask) = (&golden["attention_mask"].1, &golden["loss_mask"].1);
    let rows = |values: &[f64]| values.chunks(width).map(<[f64]>::to_vec).collect::<Vec<_>>();
    let ids: Vec<Vec<u32>> = rows(ids).iter().map(|r| r.iter().map(|v| *v as u32).collect()).collect();
    let mask: Vec<Vec<bool>> = rows(mask).iter().map(|r| r.iter().map(|v| *v != 0.0).collect()).collect();
    let hidden = model.forward(&Packed::from_padded(&ids, &mask, None)).unwrap();
    let (mut states, mut targets, mut packed) = (Vec::new(), Vec::new(), 0);
    for (r, (ids, mask)) in ids.iter().zip(&mask).enumerate() {
        for i in 0..width {
            if i + 1 < width && loss_mask[r * (width - 1) + i] != 0.0 {
                states.push(packed);
                targets.push(ids[i + 1]);
            }
            packed += i32::from(mask[i]);
        }
    }
    assert_eq!(targets.len() as f64, loss_mask.iter().sum::<f64>());
    let n = states.len();
    let index = Tensor::<1, Int>::from_data(TensorData::new(states, [n]), &hidden.device());
    model.logprob(hidden.select(0, index), &targets, 1.0, 512).unwrap().logprob.mean().neg()
}

#[test]
fn one_step_matches_torch() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tests/fixtures");
    for name in ["qwen2_tiny_tied", "qwen2_tiny_untied"] {
        let golden = golden(&fixtures.join(name));
        let mut model = weights::load(&fixtures.join(name), HeadKind::Vocabulary, &test_device()).unwrap();
        let settings = OptimizerSection {
            betas: [0.9, 0.95],
            eps: 1e-8,
            weight_decay: 0.1,
            max_grad_norm: 1.0,
            ..Recipe::default().optimizer
        };
        let mut optimizer = AdamW::new(&settings);
        let tracked = model.tracked();
        let mut gradients = GradientSum::default();
        gradients.add(&tracked, &mut nll(&tracked, &golden).backward());
        let norm = optimizer.update(&mut model, gradients, 1e-3);
        let norm_error = (norm / golden["grad_total_norm"].1[0] - 1.0).abs();
        let after = f64::from(nll(&model, &golden).into_scalar::<f32>());
        let nll_error = (after - golden["nll_after_adamw"].1[0]).abs();
        let mut weight_error = 0f64;
        let mut compared = 0;
        for (parameter, values) in model.parameters().iter().map(|(n, p)| (n, p.values())) {
            let Some((_, expected)) = golden.get(&format!("norm_after_adamw.{parameter}")) else { continue };
            compared += 1;
            let worst = values.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            weight_error = weight_error.max(worst);
        }
        println!("{name}: gradient norm {norm_error:.2e} (relative), NLL {nll_error:.2e}, weights {weight_error:.2e}");
        assert!(norm_error < 1e-4 && nll_error < 1e-4 && weight_error < 1e-4, "{name}");
        assert_eq!((compared, optimizer.steps()), (1, 1));
    }
}

/// Clipping is by the norm of all gradients together (torch's `clip_grad_norm_`), not parameter by parameter. A first
/// step hardly shows it, for Adam divides the scale out again; with a large ε it is plain to see.
#[test]
fn gradients_are_clipped_by_their_global_norm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tests/fixtures/qwen2_tiny_untied");
    let golden = golden(&folder);
    let start = weights::load(&folder, HeadKind::Vocabulary, &test_device()).unwrap();
    let values = |model: &Qwen2| -> Vec<f64> {
        model.parameters().iter().flat_map(|(_, p)| p.values()).map(f64::from).collect()
    };
    let before = values(&start);
    let tracked = start.tracked();
    // (gradient norm, steps taken with lr 1): a step is g/(|g| + 1), so a gradient can be read off it.
    let step = |max_grad_norm: f64| {
        let settings = OptimizerSection { eps: 1.0, weight_decay: 0.0, max_grad_norm, ..Recipe::default().optimizer };
        let (mut optimizer, mut model, mut gradients) = (AdamW::new(&settings), start.clone(), GradientSum::default());
        gradients.add(&tracked, &mut nll(&tracked, &golden).backward());
        let norm = optimizer.update(&mut model, gradients, 1.0);
        let read = |(a, b): (&f64, f64)| (a - b) / (1.0 - (a - b).abs());
        (norm, before.iter().zip(values(&model)).map(read).collect::<Vec<f64>>())
    };
    let (norm, free) = step(1e9);
    let (same, clipped) = step(0.5);
    assert!(norm > 2.0 && (norm - same).abs() < 1e-9, "the norm is reported as it was");
    let total = free.iter().map(|g| g * g).sum::<f64>().sqrt();
    assert!((total / norm - 1.0).abs() < 1e-3, "{total} {norm}");
    let worst = free.iter().zip(&clipped).map(|(g, c)| (g * 0.5 / norm - c).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-6, "{worst}");
}
