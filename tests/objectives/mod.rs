//! Golden values from verl 0.9.1 and TRL 1.16 (`tests/fixtures/ppo_*.json`), hand-computed numbers, and properties.
//!
//! `docs/objectives.md` says which fixture cases apply to which function. Every golden test asserts how many cases it
//! compared, so a renamed case cannot drop out unseen.

mod aggregation;
mod entropy;
mod gae;
mod group;
mod importance;
mod kl;
mod masked;
mod policy;
mod properties;
mod schedule;
mod shaping;
mod trl;
mod turn_credit;
mod value;

use std::path::Path;

use rlver::objective::{Aggregation, RowShape, action_values, token_weights};
use serde_json::Value;

/// How close golden values have to be.
const GOLDEN: f64 = 1e-9;

pub(crate) fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn cases(fixture: &Value) -> &[Value] {
    fixture["cases"].as_array().expect("a fixture has cases")
}

fn case<'a>(fixture: &'a Value, name: &str) -> &'a Value {
    cases(fixture).iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("no case {name}"))
}

pub(crate) fn name(case: &Value) -> &str {
    case["name"].as_str().expect("a case has a name")
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("expected a number, found {value}"))
}

pub(crate) fn vector(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("expected a list, found {value}")).iter().map(number).collect()
}

fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap_or_else(|| panic!("expected rows, found {value}")).iter().map(vector).collect()
}

pub(crate) fn mask(value: &Value) -> Vec<Vec<bool>> {
    matrix(value).iter().map(|row| row.iter().map(|m| *m == 1.0).collect()).collect()
}

/// Only the values at action tokens, row by row.
pub(crate) fn actions(value: &Value, mask: &[Vec<bool>]) -> Vec<Vec<f64>> {
    matrix(value).iter().zip(mask).map(|(row, mask)| action_values(row, mask).expect("same shape")).collect()
}

/// Weights of a fixture batch whose rows are padded to `length`; `token-sum` is verl's name for weight 1.
pub(crate) fn weights(mode: &str, mask: &[Vec<bool>], length: usize) -> Vec<f64> {
    if mode == "token-sum" {
        return vec![1.0; mask.len()];
    }
    let mode: Aggregation = serde_json::from_value(mode.into()).expect("a mode of ours");
    let rows: Vec<RowShape> = mask
        .iter()
        .enumerate()
        .map(|(row, mask)| RowShape { dialogue: row as u64, action_tokens: mask.iter().filter(|m| **m).count() })
        .collect();
    token_weights(mode, &rows, length as f64).expect("a positive length")
}

#[track_caller]
fn close(actual: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((actual - expected).abs() <= tolerance, "{what}: {actual} is not {expected} within {tolerance:e}");
}

#[track_caller]
fn all_close(actual: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}: number of values");
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        close(*actual, *expected, tolerance, &format!("{what}[{index}]"));
    }
}

/// Derivative of `f` with respect to each of `at`, by central differences.
fn numeric_grad(at: &[f64], mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-6;
    let mut point = at.to_vec();
    (0..at.len())
        .map(|index| {
            point[index] = at[index] + step;
            let above = f(&point);
            point[index] = at[index] - step;
            let below = f(&point);
            point[index] = at[index];
            (above - below) / (2.0 * step)
        })
        .collect()
}
