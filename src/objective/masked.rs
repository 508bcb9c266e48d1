//! Mean, variance and whitening over the action tokens of ragged rows.
//!
//! Convention: verl 0.9 (`verl.utils.torch_functional`). The mean divides by `N + 1e-8`, the variance carries Bessel's
//! correction `N / (N − 1)`, whitening adds `1e-8` to the variance. Statistics run over all tokens of all rows, so long
//! rows weigh more. Masked slots are never read.

use super::error::{ObjectiveError, same_length};

/// What verl adds to a token count before dividing by it.
pub const VERL_COUNT_EPS: f64 = 1e-8;

/// What verl adds to the variance when whitening.
pub const WHITEN_EPS: f64 = 1e-8;

/// One row of values with its action mask, `[tokens]` each.
#[derive(Clone, Copy, Debug)]
pub struct MaskedRow<'a> {
    /// One value per token.
    pub values: &'a [f64],
    /// `true` where the token is an action.
    pub mask: &'a [bool],
}

impl MaskedRow<'_> {
    fn actions(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().zip(self.mask).filter(|(_, action)| **action).map(|(value, _)| *value)
    }
}

/// The values at action tokens, in order.
///
/// # Errors
/// When the mask has another length.
pub fn action_values(values: &[f64], mask: &[bool]) -> Result<Vec<f64>, ObjectiveError> {
    same_length("mask", mask.len(), "values", values.len())?;
    Ok(MaskedRow { values, mask }.actions().collect())
}

/// Puts one value per action token back on the row's full length; all other slots are 0.
///
/// # Errors
/// When the number of values is not the number of action tokens.
pub fn scatter_actions(values: &[f64], mask: &[bool]) -> Result<Vec<f64>, ObjectiveError> {
    same_length("values", values.len(), "action tokens", mask.iter().filter(|action| **action).count())?;
    let mut next = values.iter();
    Ok(mask.iter().map(|action| if *action { next.next().copied().unwrap_or(0.0) } else { 0.0 }).collect())
}

/// `Σ m·x / (N + 1e-8)`; 0 when nothing is unmasked.
///
/// Source: verl `masked_mean`.
///
/// # Errors
/// When a mask has another length than its values.
pub fn masked_mean(rows: &[MaskedRow<'_>]) -> Result<f64, ObjectiveError> {
    check(rows)?;
    Ok(moments(rows).mean)
}

/// `masked_mean((x − μ)²) · N / (N − 1)`; 0 when fewer than two tokens are unmasked (verl raises there).
///
/// Source: verl `masked_var` with `unbiased=True`.
///
/// # Errors
/// When a mask has another length than its values.
pub fn masked_variance(rows: &[MaskedRow<'_>]) -> Result<f64, ObjectiveError> {
    check(rows)?;
    Ok(moments(rows).variance)
}

/// `(x − μ) / √(σ² + 1e-8)`, plus `μ` unless `shift_mean`; masked slots become 0.
///
/// With fewer than two action tokens there is no spread to scale by: the result is 0 everywhere, or the values
/// themselves when the mean is kept.
///
/// Source: verl `masked_whiten`. verl leaves scaled values in masked slots; here they are 0.
///
/// # Errors
/// When a mask has another length than its values.
pub fn whiten(rows: &[MaskedRow<'_>], shift_mean: bool) -> Result<Vec<Vec<f64>>, ObjectiveError> {
    check(rows)?;
    let Moments { count, mean, variance } = moments(rows);
    let scale = (variance + WHITEN_EPS).sqrt().recip();
    let offset = if shift_mean { 0.0 } else { mean };
    let one = |value: f64| match (count < 2, shift_mean) {
        (true, true) => 0.0,
        (true, false) => value,
        (false, _) => (value - mean) * scale + offset,
    };
    Ok(rows
        .iter()
        .map(|row| row.values.iter().zip(row.mask).map(|(v, action)| if *action { one(*v) } else { 0.0 }).collect())
        .collect())
}

struct Moments {
    count: usize,
    mean: f64,
    variance: f64,
}

fn moments(rows: &[MaskedRow<'_>]) -> Moments {
    let values = || rows.iter().flat_map(MaskedRow::actions);
    let count = values().count();
    let n = count as f64;
    let mean = values().sum::<f64>() / (n + VERL_COUNT_EPS);
    let variance = if count < 2 {
        0.0
    } else {
        values().map(|v| (v - mean).powi(2)).sum::<f64>() / (n + VERL_COUNT_EPS) * n / (n - 1.0)
    };
    Moments { count, mean, variance }
}

fn check(rows: &[MaskedRow<'_>]) -> Result<(), ObjectiveError> {
    rows.iter().try_for_each(|row| same_length("mask", row.mask.len(), "values", row.values.len()))
}
