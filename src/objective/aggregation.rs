//! From per-token losses to one number: a weight per row, so that `loss = Σ_rows w_row · Σ_tokens L`.
//!
//! Weights are computed once for the whole optimizer mini-batch, before it is split: gradients then cannot depend on
//! micro-batch size, packing or order. Rows without action tokens are not counted and weigh 0.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::error::{ObjectiveError, in_range};
use super::masked::VERL_COUNT_EPS;

/// Recipe key `loss_agg_mode`: what the loss is a mean of.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// `1/N`: every action token of the mini-batch weighs the same. verl default; TRL `dapo`, `bnpo`.
    #[default]
    TokenMean,
    /// `1/B`: mean over rows of the sum over tokens.
    SeqMeanTokenSum,
    /// `1/(B·n)`: mean over rows of the mean over tokens (DeepSeekMath eq. 3; TRL `grpo`). `n + 1e-8`, as in verl.
    SeqMeanTokenMean,
    /// `1/(B·L)` with a constant `L`: no length bias (Dr. GRPO section 3.2; TRL `dr_grpo`; verl 0.9).
    SeqMeanTokenSumNorm,
    /// `1/(D·n_d)`: mean over dialogues of the mean over all action tokens of the dialogue's rows. In think mode a
    /// dialogue is several rows; with this mode long dialogues do not weigh more.
    DialogueMean,
}

/// What aggregation has to know about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// The dialogue the row is from.
    pub dialogue: u64,
    /// Number of action tokens.
    pub action_tokens: usize,
}

/// One weight per row, the same for all its action tokens.
///
/// `norm_length` is `L` of [`Aggregation::SeqMeanTokenSumNorm`] (usually the longest allowed response) and ignored by
/// the others. `N`, `B` and `D` count action tokens, rows and dialogues with at least one action token. When there is
/// none at all every weight is 0.
///
/// # Errors
/// When `norm_length` is needed and not positive.
pub fn token_weights(mode: Aggregation, rows: &[RowShape], norm_length: f64) -> Result<Vec<f64>, ObjectiveError> {
    if mode == Aggregation::SeqMeanTokenSumNorm {
        let accepted = norm_length.is_finite() && norm_length > 0.0;
        in_range("norm_length", norm_length, accepted, "a positive number of tokens")?;
    }
    let filled = || rows.iter().filter(|row| row.action_tokens > 0);
    let tokens: usize = rows.iter().map(|row| row.action_tokens).sum();
    let sequences = filled().count() as f64;
    let dialogues = filled().map(|row| row.dialogue).collect::<BTreeSet<_>>().len() as f64;
    let mut per_dialogue: BTreeMap<u64, usize> = BTreeMap::new();
    for row in rows {
        *per_dialogue.entry(row.dialogue).or_default() += row.action_tokens;
    }
    let weight = |row: &RowShape| match mode {
        _ if row.action_tokens == 0 => 0.0,
        Aggregation::TokenMean => 1.0 / tokens as f64,
        Aggregation::SeqMeanTokenSum => 1.0 / sequences,
        Aggregation::SeqMeanTokenMean => 1.0 / (sequences * (row.action_tokens as f64 + VERL_COUNT_EPS)),
        Aggregation::SeqMeanTokenSumNorm => 1.0 / (sequences * norm_length),
        Aggregation::DialogueMean => 1.0 / (dialogues * per_dialogue[&row.dialogue] as f64),
    };
    Ok(rows.iter().map(weight).collect())
}
