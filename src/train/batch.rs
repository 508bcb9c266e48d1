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

/// The states that predict the action tokens of `rows`, and the action tokens: `[n, hidden]` and n ids.
///
/// # Errors
/// When the network refuses an id.
pub(super) fn action_states(model: &Qwen2, rows: &[&TrainRow]) -> Result<(Tensor<2>, Vec<u32>), Error> {
    let hidden = model.forward(&Packed::new(rows.iter().map(|r| r.ids.as_slice())))?;
    let (mut predictors, mut targets, mut offset) = (Vec::new(), Vec::new(), 0);
    for row in rows {
        predictors.extend(row.actions.iter().map(|a| (offset + a - 1) as i32));
        targets.extend(row.actions.iter().map(|a| row.ids[*a]));
        offset += row.ids.len();
    }
    let n = predictors.len();
    let index = Tensor::<1, Int>::from_data(TensorData::new(predictors, [n]), &hidden.device());
    Ok((hidden.select(0, index), targets))
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
    per_row(rows, max_tokens, |batch| {
        let (hidden, targets) = action_states(model, batch)?;
        Ok(model.logprob(hidden, &targets, temperature, vocabulary)?.logprob)
    })
}

/// A critic's values of the states that every row's actions were taken in, without gradients.
///
/// # Errors
/// When the network refuses an id.
pub fn evaluate(critic: &Qwen2, rows: &[TrainRow], max_tokens: usize) -> Result<Vec<Vec<f32>>, Error> {
    per_row(rows, max_tokens, |batch| {
        let (hidden, _) = action_states(critic, batch)?;
        Ok(critic.values(hidden)?)
    })
}

fn per_row(
    rows: &[TrainRow],
    max_tokens: usize,
    f: impl Fn(&[&TrainRow]) -> Result<Tensor<1>, Error>,
) -> Result<Vec<Vec<f32>>, Error> {
    let all: Vec<&TrainRow> = rows.iter().collect();
    let mut out = Vec::with_capacity(rows.len());
    for batch in micro_batches(&all, max_tokens) {
        let values: Vec<f32> = f(&batch)?.into_data().try_into_vec().expect("f32 results");
        let mut rest = values.as_slice();
        for row in batch {
            let (mine, others) = rest.split_at(row.actions.len());
            out.push(mine.to_vec());
            rest = others;
        }
    }
    Ok(out)
}
