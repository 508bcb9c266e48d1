//! Advantages per token without a critic: REINFORCE++ and ReMax.

use crate::objective::error::{ObjectiveError, in_range, same_length};
use crate::objective::masked::{MaskedRow, action_values, scatter_actions, whiten};

/// Whitened advantages and plain returns of a batch, `[rows][tokens]`; 0 at masked tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct ReinforcePlusPlus {
    /// Returns, whitened over all action tokens of the batch.
    pub advantages: Vec<Vec<f64>>,
    /// `G_t = r_t + γ·G_{t+1}` over action tokens.
    pub returns: Vec<Vec<f64>>,
}

/// `G_t = r_t + γ·G_{t+1}` over the action tokens of one row; 0 at masked tokens.
///
/// The sum runs on across user turns, so every turn sees the outcome. (Implementations that reset it at masked tokens
/// credit the last turn only: verl #7278.)
///
/// # Errors
/// When the slices differ in length.
pub fn reward_to_go(rewards: &[f64], mask: &[bool], gamma: f64) -> Result<Vec<f64>, ObjectiveError> {
    let mut returns = action_values(rewards, mask)?;
    let mut running = 0.0;
    for value in returns.iter_mut().rev() {
        running = *value + gamma * running;
        *value = running;
    }
    scatter_actions(&returns, mask)
}

/// REINFORCE++: reward-to-go, whitened over all action tokens of the batch.
///
/// Source: Hu 2025 (REINFORCE++); verl `compute_reinforce_plus_plus_outcome_advantage`.
///
/// # Errors
/// When a mask has another length than its rewards, or `gamma` is outside `[0, 1]`.
pub fn reinforce_plus_plus(rewards: &[MaskedRow<'_>], gamma: f64) -> Result<ReinforcePlusPlus, ObjectiveError> {
    in_range("gamma", gamma, (0.0..=1.0).contains(&gamma), "a number in [0, 1]")?;
    let returns = rewards.iter().map(|row| reward_to_go(row.values, row.mask, gamma)).collect::<Result<Vec<_>, _>>()?;
    let rows: Vec<_> = returns.iter().zip(rewards).map(|(values, row)| MaskedRow { values, mask: row.mask }).collect();
    Ok(ReinforcePlusPlus { advantages: whiten(&rows, true)?, returns })
}

/// ReMax: undiscounted reward-to-go minus the score the greedy dialogue of the same profile got; 0 at masked tokens.
///
/// Source: Li et al. 2023 (ReMax).
///
/// # Errors
/// When the slices differ in length.
pub fn remax(rewards: &[f64], mask: &[bool], greedy_score: f64) -> Result<Vec<f64>, ObjectiveError> {
    same_length("rewards", rewards.len(), "mask", mask.len())?;
    let mut advantages = reward_to_go(rewards, mask, 1.0)?;
    for (advantage, action) in advantages.iter_mut().zip(mask) {
        if *action {
            *advantage -= greedy_score;
        }
    }
    Ok(advantages)
}
