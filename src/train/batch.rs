use std::ops::Range;

use burn::tensor::{Int, Tensor, TensorData};
use rlver_models::qwen2::{Packed, Qwen2};

use crate::Error;
use crate::rollout::Episode;

/// A token sequence to train on, cut after its last action.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainRow {
    /// Index of the episode within the step.
    pub episode: usize,
    /// Token ids.
    pub ids: Vec<u32>,
    /// Positions of the action tokens within `ids`; never 0, since an action is predicted from what precedes it.
    pub actions: Vec<usize>,
    /// Where turns end: index of a turn's last action within `actions`, and the turn.
    pub turn_ends: Vec<(usize, usize)>,
    /// Log-probabilities of the actions as sampled.
    pub rollout_logprobs: Vec<f32>,
}

impl TrainRow {
    /// The rows of scored episodes, in order. Rows without an action are left out.
    pub fn from_episodes(episodes: &[Episode]) -> Vec<TrainRow> {
        let mut rows = Vec::new();
        for (index, episode) in episodes.iter().enumerate().filter(|(_, e)| e.reward.is_some()) {
            for row in &episode.rows {
                let actions: Vec<usize> =
                    row.action_mask().iter().enumerate().filter(|(_, a)| **a).map(|(i, _)| i).collect();
                let Some(&last) = actions.last() else { continue };
                let mut ids = row.ids();
                ids.truncate(last + 1);
                let mut taken = 0;
                let turn_ends = row
                    .segments
                    .iter()
                    .filter(|s| s.is_action())
                    .map(|s| {
                        taken += s.ids.len();
                        (taken - 1, s.turn)
                    })
                    .collect();
                rows.push(TrainRow { episode: index, ids, actions, turn_ends, rollout_logprobs: row.logprobs() });
            }
        }
        rows
    }

    /// Positions from the first action to the last: the policy's tokens and what users said in between.
    pub fn response(&self) -> Range<usize> {
        self.actions.first().map_or(0..0, |first| *first..self.ids.len())
    }
}

/// Splits rows, in order, into groups of at most `max_tokens` tokens (one row at least).
pub fn micro_batches<'a>(rows: &[&'a TrainRow], max_tokens: usize) -> Vec<Vec<&'a TrainRow>> {
    let mut batches: Vec<Vec<&TrainRow>> = Vec::new();
    let mut tokens = 0;
    for &row in rows {
        if batches.is_empty() || tokens + row.ids.len() > max_tokens {
            batches.push(Vec::new());
            tokens = 0;
        }
        tokens += row.ids.len();
        batches.last_mut().expect("just pushed").push(row);
    }
    batches
}

/// The states that predict the tokens at `positions` of each row, rows one after another: `[n, hidden]`.
fn states_before<P: IntoIterator<Item = usize>>(
    model: &Qwen2,
    rows: &[&TrainRow],
    positions: impl Fn(&TrainRow) -> P,
) -> Result<Tensor<2>, Error> {
    let hidden = model.forward(&Packed::new(rows.iter().map(|r| r.ids.as_slice())))?;
    let (mut predictors, mut offset) = (Vec::new(), 0);
    for row in rows {
        predictors.extend(positions(row).into_iter().map(|at| (offset + at - 1) as i32));
        offset += row.ids.len();
    }
    let n = predictors.len();
    let index = Tensor::<1, Int>::from_data(TensorData::new(predictors, [n]), &hidden.device());
    Ok(hidden.select(0, index))
}

/// The states that predict the action tokens of `rows`, and the action tokens: `[n, hidden]` and n ids.
///
/// # Errors
/// When the network refuses an id.
pub(super) fn action_states(model: &Qwen2, rows: &[&TrainRow]) -> Result<(Tensor<2>, Vec<u32>), Error> {
    let targets = rows.iter().flat_map(|row| row.actions.iter().map(|a| row.ids[*a])).collect();
    Ok((states_before(model, rows, |row| row.actions.clone())?, targets))
}

/// Log-probabilities of every row's actions under a network, without gradients.
///
/// # Errors
/// When the network refuses an id.
pub fn score(
    model: &Qwen2,
    rows: &[TrainRow],
    temperature: f32,
    vocabulary: usize,
    max_tokens: usize,
) -> Result<Vec<Vec<f32>>, Error> {
    let rows: Vec<&TrainRow> = rows.iter().collect();
    score_some(model, &rows, temperature, vocabulary, max_tokens)
}

/// As [`score`], for rows out of several.
pub(super) fn score_some(
    model: &Qwen2,
    rows: &[&TrainRow],
    temperature: f32,
    vocabulary: usize,
    max_tokens: usize,
) -> Result<Vec<Vec<f32>>, Error> {
    let count = |row: &TrainRow| row.actions.len();
    per_row(rows, max_tokens, count, |batch| {
        let (hidden, targets) = action_states(model, batch)?;
        Ok(model.logprob(hidden, &targets, temperature, vocabulary)?.logprob)
    })
}

/// A critic's values of the states that every row's actions were taken in, without gradients.
///
/// # Errors
/// When the network refuses an id.
pub fn evaluate(critic: &Qwen2, rows: &[TrainRow], max_tokens: usize) -> Result<Vec<Vec<f32>>, Error> {
    let rows: Vec<&TrainRow> = rows.iter().collect();
    let count = |row: &TrainRow| row.actions.len();
    per_row(&rows, max_tokens, count, |batch| Ok(critic.values(action_states(critic, batch)?.0)?))
}

/// A critic's values of the states before every token of every row's [`TrainRow::response`], without gradients.
///
/// # Errors
/// When the network refuses an id.
pub(crate) fn evaluate_response(critic: &Qwen2, rows: &[TrainRow], max_tokens: usize) -> Result<Vec<Vec<f32>>, Error> {
    let rows: Vec<&TrainRow> = rows.iter().collect();
    let count = |row: &TrainRow| row.response().len();
    per_row(&rows, max_tokens, count, |batch| Ok(critic.values(states_before(critic, batch, TrainRow::response)?)?))
}

fn per_row(
    rows: &[&TrainRow],
    max_tokens: usize,
    count: impl Fn(&TrainRow) -> usize,
    f: impl Fn(&[&TrainRow]) -> Result<Tensor<1>, Error>,
) -> Result<Vec<Vec<f32>>, Error> {
    let mut out = Vec::with_capacity(rows.len());
    for batch in micro_batches(rows, max_tokens) {
        let values = floats(f(&batch)?);
        let mut rest = values.as_slice();
        for row in batch {
            let (mine, others) = rest.split_at(count(row));
            out.push(mine.to_vec());
            rest = others;
        }
    }
    Ok(out)
}

/// What a tensor holds.
pub(super) fn floats(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("f32 results")
}
