//! The critic's loss, clipped around the values at the start of the update.
//!
//! `L = ½·max((V − R)², (V_c − R)²)` with `V_c = clip(V, V_old − ε, V_old + ε)`. Source: OpenAI Baselines PPO2; verl
//! `compute_value_loss`. Rows hold action tokens only, so `V_old` is never the 0 of a masked slot.

use super::error::{ObjectiveError, in_range, same_length};

/// One row's action tokens, `[action_tokens]` each.
#[derive(Clone, Copy, Debug)]
pub struct ValueRow<'a> {
    /// `V`: values under the critic being updated.
    pub values: &'a [f64],
    /// `V_old`: values at the start of the update.
    pub old_values: &'a [f64],
    /// `R`: targets from [`gae`](super::gae).
    pub returns: &'a [f64],
    /// The row's weight from [`token_weights`](super::token_weights).
    pub weight: f64,
}

/// Loss, gradient and metrics of some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueLoss {
    /// `Σ w·L`.
    pub loss: f64,
    /// `∂(Σ w·L)/∂V` per action token, rows one after another.
    pub grad: Vec<f64>,
    /// Sums for the metrics.
    pub metrics: ValueMetrics,
}

/// Sums over action tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ValueMetrics {
    /// Action tokens seen.
    pub tokens: usize,
    /// Tokens whose loss was decided by the clip range.
    pub clipped: usize,
    /// `Σ V`.
    pub value_sum: f64,
    /// `Σ (V − R)²`.
    pub squared_error_sum: f64,
}

impl ValueMetrics {
    /// Adds the sums of another micro-batch.
    pub fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.value_sum += other.value_sum;
        self.squared_error_sum += other.squared_error_sum;
    }

    /// Share of tokens clipped: verl `vf_clipfrac`.
    #[must_use]
    pub fn clip_fraction(&self) -> f64 {
        self.mean(self.clipped as f64)
    }

    /// Mean value: verl `vpred_mean`.
    #[must_use]
    pub fn mean_value(&self) -> f64 {
        self.mean(self.value_sum)
    }

    /// Mean of `(V − R)²`.
    #[must_use]
    pub fn mean_squared_error(&self) -> f64 {
        self.mean(self.squared_error_sum)
    }

    fn mean(&self, sum: f64) -> f64 {
        if self.tokens == 0 { 0.0 } else { sum / self.tokens as f64 }
    }
}

/// The clipped value loss of whole rows; without `clip` plain `½·(V − R)²`.
///
/// # Errors
/// When the slices of a row differ in length or `clip` is not positive.
pub fn value_loss(clip: Option<f64>, rows: &[ValueRow<'_>]) -> Result<ValueLoss, ObjectiveError> {
    let range = clip.unwrap_or(f64::INFINITY);
    in_range("cliprange_value", range, range > 0.0, "a positive number")?;
    let mut total = ValueLoss::default();
    for row in rows {
        same_length("old_values", row.old_values.len(), "values", row.values.len())?;
        same_length("returns", row.returns.len(), "values", row.values.len())?;
        for ((value, old), target) in row.values.iter().zip(row.old_values).zip(row.returns) {
            // `max` before `min` instead of `clamp`: a NaN in `old` must not panic.
            let held = value.max(old - range).min(old + range);
            let (free_error, held_error) = ((value - target).powi(2), (held - target).powi(2));
            let clipped = held_error > free_error;
            total.loss += row.weight * 0.5 * free_error.max(held_error);
            total.grad.push(if clipped { 0.0 } else { row.weight * (value - target) });
            total.metrics.merge(&ValueMetrics {
                tokens: 1,
                clipped: usize::from(clipped),
                value_sum: *value,
                squared_error_sum: free_error,
            });
        }
    }
    Ok(total)
}
