//! The losses that run against the losses that define them: on tensors in f32, value and gradient.
//!
//! Every golden case of verl and TRL that `tests/objectives` compares to 1e-9 with the definition is compared to 1e-5
//! here with [`policy_term`] and the value loss, which the update is made of.

mod losses;
mod properties;

use burn::tensor::{Device, Tensor, TensorData};
use rlver::recipe::ObjectiveSection;
use rlver::train::{LossRow, PolicyTerm, policy_term};

/// How close tensors have to be, relative to numbers above 1.
const CLOSE: f64 = 1e-5;

#[track_caller]
fn close(actual: f64, expected: f64, what: &str) {
    let error = (actual - expected).abs() / expected.abs().max(1.0);
    assert!(error <= CLOSE, "{what}: {actual} is not {expected}");
}

/// Values as a tensor that gradients are tracked for.
fn tracked(values: &[f32]) -> Tensor<1> {
    let n = values.len();
    let plain = Tensor::<1>::from_data(TensorData::new(values.to_vec(), [n]), &Device::flex());
    Tensor::from_inner(plain).require_grad()
}

/// Values as a constant.
fn constant(values: &[f32]) -> Tensor<1> {
    let n = values.len();
    let plain = Tensor::<1>::from_data(TensorData::new(values.to_vec(), [n]), &Device::flex());
    Tensor::from_inner(plain)
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|v| *v as f32).collect()
}

/// A row's numbers; [`LossRow`] borrows them.
#[derive(Clone, Debug, Default)]
struct Row {
    new: Vec<f32>,
    old: Vec<f32>,
    sampled: Vec<f32>,
    reference: Vec<f32>,
    advantage: Vec<f64>,
    weight: f64,
}

/// The term of some rows, and its gradient with respect to log-probabilities and entropies.
fn term(rows: &[Row], entropy: &[f32], objective: &ObjectiveSection) -> (PolicyTerm, Vec<f64>, Vec<f64>) {
    let logprob = tracked(&rows.iter().flat_map(|r| r.new.clone()).collect::<Vec<_>>());
    let entropy = tracked(entropy);
    let rows: Vec<LossRow<'_>> = rows
        .iter()
        .map(|row| LossRow {
            old_logprobs: (!row.old.is_empty()).then_some(row.old.as_slice()),
            rollout_logprobs: &row.sampled,
            reference_logprobs: (!row.reference.is_empty()).then_some(row.reference.as_slice()),
            advantages: &row.advantage,
            weight: row.weight,
        })
        .collect();
    let term = policy_term(logprob.clone(), entropy.clone(), &rows, objective, objective.kl_coef).unwrap();
    let gradients = term.loss.backward();
    let read = |t: &Tensor<1>| -> Vec<f64> {
        let n = t.dims()[0];
        let floats: Vec<f32> = match t.grad(&gradients) {
            Some(g) => g.into_data().try_into_vec().expect("f32 gradients"),
            None => vec![0.0; n],
        };
        floats.into_iter().map(f64::from).collect()
    };
    let (of_logprob, of_entropy) = (read(&logprob), read(&entropy));
    (term, of_logprob, of_entropy)
}
