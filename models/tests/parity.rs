//! Parity with transformers and torch on two tiny models (`fixtures/qwen2_tiny_*`, written by torch 2.15).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use rlver_models::generate::{Engine, Sampler, SamplingSettings};
use rlver_models::qwen2::{HeadKind, Packed, Parameter, Qwen2};
use rlver_models::weights;

/// `RLVER_TEST_DEVICE`: `flex` (the default), `wgpu`, `cpu` or `cuda`; the last three need the cargo feature.
fn device() -> Device {
    match std::env::var("RLVER_TEST_DEVICE").as_deref() {
        Err(_) | Ok("" | "flex") => Device::flex(),
        #[cfg(feature = "wgpu")]
        Ok("wgpu") => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cpu")]
        Ok("cpu") => Device::cpu(),
        #[cfg(feature = "cuda")]
        Ok("cuda") => Device::cuda(0),
        Ok(other) => panic!("RLVER_TEST_DEVICE={other}: no such device in this build; add the cargo feature"),
    }
}

const MODELS: [&str; 2] = ["qwen2_tiny_tied", "qwen2_tiny_untied"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The golden tensors of a fixture.
struct Golden(BTreeMap<String, (Vec<usize>, Vec<f64>)>);

impl Golden {
    fn load(name: &str) -> Golden {
        let bytes = std::fs::read(folder(name).join("fixture.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let read = |view: &safetensors::tensor::TensorView<'_>| -> Vec<f64> {
            match view.dtype() {
                safetensors::Dtype::F32 => {
                    view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect()
                }
                _ => view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
            }
        };
        Golden(file.iter().map(|(n, v)| (n.to_string(), (v.shape().to_vec(), read(&v)))).collect())
    }

    fn get(&self, name: &str) -> &[f64] {
        &self.0[name].1
    }

    fn rows<T>(&self, name: &str, f: impl Fn(f64) -> T) -> Vec<Vec<T>> {
        let (shape, values) = &self.0[name];
        values.chunks(shape[1]).map(|row| row.iter().map(|v| f(*v)).collect()).collect()
    }

    fn batch(&self) -> (Vec<Vec<u32>>, Vec<Vec<bool>>) {
        (self.rows("input_ids", |v| v as u32), self.rows("attention_mask", |v| v != 0.0))
    }
}

fn values<const D: usize>(t: &Tensor<D>) -> Vec<f32> {
    t.to_data().try_to_vec().unwrap()
}

/// Largest difference between our packed rows and the golden padded ones, at the slots whose mask is 1.
fn worst(ours: &[f32], golden: &[f64], mask: &[Vec<bool>]) -> f64 {
    let slots: usize = mask.iter().map(Vec::len).sum();
    let width = golden.len() / slots;
    let kept: Vec<&[f64]> =
        golden.chunks(width).zip(mask.iter().flatten()).filter(|(_, m)| **m).map(|(v, _)| v).collect();
    assert_eq!(ours.len(), kept.len() * width);
    ours.chunks(width)
        .zip(kept)
        .flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| (f64::from(*a) - b).abs()))
        .fold(0.0, f64::max)
}

fn load(name: &str, head: HeadKind) -> Qwen2 {
    weights::load(&folder(name), head, &device()).unwrap()
}

#[test]
fn hidden_states_and_logits_match() {
    for name in MODELS {
        let (golden, model) = (Golden::load(name), load(name, HeadKind::Vocabulary));
        let (ids, mask) = golden.batch();
        let positions = golden.rows("position_ids", |v| v as usize);
        let arange: Vec<Vec<usize>> = ids.iter().map(|row| (0..row.len()).collect()).collect();
        for (positions, key) in [(&positions, "logits"), (&arange, "logits_arange_pos")] {
            let packed = Packed::from_padded(&ids, &mask, Some(positions));
            let states = model.hidden_states(&packed).unwrap();
            let error = worst(&values(&model.logits(states[2].clone()).unwrap()), golden.get(key), &mask);
            println!("{name} {key}: max error {error:.2e}");
            assert!(error < 1e-4, "{name} {key}: {error}");
            if key == "logits" {
                for (i, state) in states.iter().enumerate() {
                    let error = worst(&values(state), golden.get(&format!("hidden.{i}")), &mask);
                    println!("{name} hidden.{i}: max error {error:.2e}");
                    assert!(error < 1e-4, "{name} hidden.{i}: {error}");
                }
            }
        }
    }
}

/// (packed index of the predicting state, target id, golden index in `[rows, slots − 1]`) of every real transition.
fn transitions(ids: &[Vec<u32>], mask: &[Vec<bool>]) -> Vec<(usize, u32, usize)> {
    let mut out = Vec::new();
    let mut packed = 0;
    for (r, (ids, mask)) in ids.iter().zip(mask).enumerate() {
        for i in 0..ids.len() {
            if mask[i] && i + 1 < ids.len() && mask[i + 1] {
                out.push((packed, ids[i + 1], r * (ids.len() - 1) + i));
            }
            packed += usize::from(mask[i]);
        }
    }
    out
}

fn select(hidden: &Tensor<2>, rows: &[usize]) -> Tensor<2> {
    let rows: Vec<i32> = rows.iter().map(|r| *r as i32).collect();
    let n = rows.len();
    hidden.clone().select(0, Tensor::from_data(TensorData::new(rows, [n]), &hidden.device()))
}

#[test]
fn token_logprobs_and_entropies_match() {
    for name in MODELS {
        let (golden, model) = (Golden::load(name), load(name, HeadKind::Vocabulary));
        let (ids, mask) = golden.batch();
        let steps = transitions(&ids, &mask);
        let hidden = model.forward(&Packed::from_padded(&ids, &mask, None)).unwrap();
        let hidden = select(&hidden, &steps.iter().map(|s| s.0).collect::<Vec<_>>());
        let targets: Vec<u32> = steps.iter().map(|s| s.1).collect();
        let out = model.logprob(hidden, &targets, 1.0, 512).unwrap();
        for (key, ours) in [("token_logprob", values(&out.logprob)), ("entropy", values(&out.entropy))] {
            let error =
                ours.iter().zip(&steps).map(|(v, s)| (f64::from(*v) - golden.get(key)[s.2]).abs()).fold(0.0, f64::max);
            println!("{name} {key}: max error {error:.2e}");
            assert!(error < 1e-4, "{name} {key}: {error}");
        }
    }
}

#[test]
fn critic_values_match() {
    for name in MODELS {
        let (golden, mut critic) = (Golden::load(name), load(name, HeadKind::Vocabulary).to_critic());
        critic.visit(&mut |name, shape, mut slot| {
            if name.starts_with("score.") {
                slot.set(golden.get(name).iter().map(|v| *v as f32).collect(), shape, &device());
            }
        });
        let (ids, mask) = golden.batch();
        let hidden = critic.forward(&Packed::from_padded(&ids, &mask, None)).unwrap();
        let error = worst(&values(&critic.values(hidden).unwrap()), golden.get("values"), &mask);
        println!("{name} values: max error {error:.2e}");
        assert!(error < 1e-4, "{name}: {error}");
    }
}

/// Mean NLL over the golden loss mask, and the model it was computed with.
fn nll(model: &Qwen2, golden: &Golden) -> Tensor<1> {
    let (ids, mask) = golden.batch();
    let loss_mask = golden.get("loss_mask");
    let steps: Vec<_> = transitions(&ids, &mask).into_iter().filter(|s| loss_mask[s.2] != 0.0).collect();
    assert_eq!(steps.len() as f64, loss_mask.iter().sum::<f64>());
    let hidden = model.forward(&Packed::from_padded(&ids, &mask, None)).unwrap();
    let hidden = select(&hidden, &steps.iter().map(|s| s.0).collect::<Vec<_>>());
    let targets: Vec<u32> = steps.iter().map(|s| s.1).collect();
    model.logprob(hidden, &targets, 1.0, 512).unwrap().logprob.mean().neg()
}

fn gradient(parameter: &Parameter, grads: &burn::tensor::Gradients) -> Vec<f32> {
    match parameter {
        Parameter::Vector(t) => values(&t.grad(grads).unwrap()),
        Parameter::Matrix(t) => values(&t.grad(grads).unwrap()),
    }
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn every_gradient_matches() {
    for name in MODELS {
        let (golden, model) = (Golden::load(name), load(name, HeadKind::Vocabulary).tracked());
        let loss = nll(&model, &golden);
        let loss_error = (f64::from(values(&loss)[0]) - golden.get("mean_nll")[0]).abs();
        assert!(loss_error < 1e-4, "{name} mean NLL: {loss_error}");
        let grads = loss.backward();
        let info: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder(name).join("fixture.json")).unwrap()).unwrap();
        let (mut worst_norm, mut worst_full, mut full, mut total) = (0f64, 0f64, 0, 0f64);
        for (parameter_name, parameter) in model.parameters() {
            let ours = gradient(&parameter, &grads);
            let golden_norm = info["grad_norms"][&parameter_name].as_f64().unwrap();
            worst_norm = worst_norm.max((norm(&ours) / golden_norm - 1.0).abs());
            total += norm(&ours).powi(2);
            if let Some((_, golden)) = golden.0.get(&format!("grad.{parameter_name}")) {
                let scale = golden.iter().fold(0f64, |m, v| m.max(v.abs()));
                let error = ours.iter().zip(golden).map(|(a, b)| (f64::from(*a) - b).abs() / scale).fold(0.0, f64::max);
                worst_full = worst_full.max(error);
                full += 1;
            }
        }
        println!("{name}: gradient norms {worst_norm:.2e}, {full} full gradients {worst_full:.2e} (relative)");
        assert!(worst_norm < 1e-4 && worst_full < 1e-4 && full == 7, "{name}: {worst_norm} {worst_full} {full}");
        assert!((total.sqrt() / golden.get("grad_total_norm")[0] - 1.0).abs() < 1e-4);
    }
}

#[test]
fn greedy_left_padded_generation_is_exact() {
    for name in MODELS {
        let (golden, model) = (Golden::load(name), load(name, HeadKind::Vocabulary));
        let prompts = golden.rows("gen_input_ids", |v| v as u32);
        let mask = golden.rows("gen_attention_mask", |v| v != 0.0);
        let outputs = golden.rows("gen_output_ids", |v| v as u32);
        let mut engine = Engine::new(&model, 512, prompts.len(), 64);
        let mut rows = Vec::new();
        for (prompt, mask) in prompts.iter().zip(&mask) {
            let row = engine.open().unwrap();
            engine.set_prompt(row, prompt.iter().zip(mask).filter(|(_, m)| **m).map(|(id, _)| *id).collect());
            engine.start_turn(row, Sampler::new(SamplingSettings::GREEDY, 0), 16, &[511]);
            rows.push((row, mask.iter().filter(|m| **m).count()));
        }
        while engine.is_busy() {
            engine.step().unwrap();
        }
        for ((row, prompt), golden) in rows.iter().zip(&outputs) {
            let ours = &engine.ids(*row)[*prompt..];
            assert_eq!(ours, &golden[prompts[0].len()..][..ours.len()], "{name}");
        }
    }
}
