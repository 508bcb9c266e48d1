//! Logprob and entropy of one position from its logits, with temperature, and their gradients.
//!
//! `p = softmax(z/T)`, `log p = z/T − lse(z/T)`, `H = lse(z/T) − Σ p·z/T`. The trainer divides *logits* by the rollout's
//! temperature; dividing logprobs is another distribution. Source: verl `logprobs_from_logits`, `entropy_from_logits`.
//! A logit of −∞ (a masked vocabulary entry) has probability 0 and contributes nothing.

use super::error::{ObjectiveError, in_range};

/// `log p` of one label.
///
/// # Errors
/// When the label is not in the vocabulary or the temperature is not positive.
pub fn logprob(logits: &[f64], label: usize, temperature: f64) -> Result<f64, ObjectiveError> {
    check_label(logits, label)?;
    Ok(log_softmax(logits, temperature)?[label])
}

/// `∂ log p[label] / ∂z = (1[label] − p)/T`.
///
/// # Errors
/// When the label is not in the vocabulary or the temperature is not positive.
pub fn logprob_grad(logits: &[f64], label: usize, temperature: f64) -> Result<Vec<f64>, ObjectiveError> {
    check_label(logits, label)?;
    let mut grad: Vec<f64> = log_softmax(logits, temperature)?.iter().map(|l| -l.exp() / temperature).collect();
    grad[label] += 1.0 / temperature;
    Ok(grad)
}

/// `H = −Σ p·log p` in nats.
///
/// # Errors
/// When the temperature is not positive.
pub fn entropy(logits: &[f64], temperature: f64) -> Result<f64, ObjectiveError> {
    Ok(log_softmax(logits, temperature)?.iter().map(|l| -plogp(*l)).sum())
}

/// `∂H/∂z = −p·(log p + H)/T`.
///
/// # Errors
/// When the temperature is not positive.
pub fn entropy_grad(logits: &[f64], temperature: f64) -> Result<Vec<f64>, ObjectiveError> {
    let log_p = log_softmax(logits, temperature)?;
    let total: f64 = log_p.iter().map(|l| -plogp(*l)).sum();
    Ok(log_p.iter().map(|l| -(plogp(*l) + l.exp() * total) / temperature).collect())
}

fn plogp(log_p: f64) -> f64 {
    if log_p == f64::NEG_INFINITY { 0.0 } else { log_p.exp() * log_p }
}

fn log_softmax(logits: &[f64], temperature: f64) -> Result<Vec<f64>, ObjectiveError> {
    let accepted = temperature.is_finite() && temperature > 0.0;
    in_range("temperature", temperature, accepted, "a positive number")?;
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max) / temperature;
    let lse = top + logits.iter().map(|z| (z / temperature - top).exp()).sum::<f64>().ln();
    Ok(logits.iter().map(|z| z / temperature - lse).collect())
}

fn check_label(logits: &[f64], label: usize) -> Result<(), ObjectiveError> {
    in_range("label", label as f64, label < logits.len(), "an id below the number of logits")
}
