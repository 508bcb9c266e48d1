//! Generalized advantage estimation on action tokens, and the recursion of RLVER's release for parity.
//!
//! `δ_t = r_t + γ·V_{t+1} − V_t`, `A_t = δ_t + γλ·A_{t+1}`, `R_t = A_t + V_t`, with `V = A = 0` after the last token.
//! `V_t` is the value of the state *before* token `t`. Source: Schulman et al. 2015, eq. 11–16.

use crate::objective::error::{ObjectiveError, same_length};
use crate::objective::masked::{action_values, scatter_actions};

/// Advantages and returns of one row, `[tokens]` each; 0 at masked tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Gae {
    /// `A_t`, not whitened.
    pub advantages: Vec<f64>,
    /// `R_t = A_t + V_t`, the critic's target.
    pub returns: Vec<f64>,
}

/// Index of the last action token of a row, if it has one.
#[must_use]
pub fn last_action(mask: &[bool]) -> Option<usize> {
    mask.iter().rposition(|action| *action)
}

/// A row of rewards that is 0 but for `score` on the last action token.
///
/// A dialogue often ends with a user turn. Rewards on its tokens would be dropped by the recursion (verl #6392), so the
/// score belongs on the last token the policy chose. A row without actions stays 0.
#[must_use]
pub fn place_terminal_reward(mask: &[bool], score: f64) -> Vec<f64> {
    let mut rewards = vec![0.0; mask.len()];
    if let Some(last) = last_action(mask) {
        rewards[last] = score;
    }
    rewards
}

/// Generalized advantages over the action tokens of one row; user tokens are skipped as if they were not there.
///
/// Equal to verl's masked recursion (verl #2337) at action tokens. Rewards and values at masked tokens are never read:
/// put the reward where [`place_terminal_reward`] does.
///
/// # Errors
/// When the slices differ in length.
pub fn gae(rewards: &[f64], values: &[f64], mask: &[bool], gamma: f64, lambda: f64) -> Result<Gae, ObjectiveError> {
    same_length("rewards", rewards.len(), "mask", mask.len())?;
    same_length("values", values.len(), "mask", mask.len())?;
    let row = gae_actions(&action_values(rewards, mask)?, &action_values(values, mask)?, gamma, lambda)?;
    Ok(Gae { advantages: scatter_actions(&row.advantages, mask)?, returns: scatter_actions(&row.returns, mask)? })
}

/// Generalized advantages of a row that holds action tokens only.
///
/// # Errors
/// When the slices differ in length.
pub fn gae_actions(rewards: &[f64], values: &[f64], gamma: f64, lambda: f64) -> Result<Gae, ObjectiveError> {
    same_length("rewards", rewards.len(), "values", values.len())?;
    let mut advantages = vec![0.0; values.len()];
    let (mut next_value, mut next_advantage) = (0.0, 0.0);
    for t in (0..values.len()).rev() {
        let delta = rewards[t] + gamma * next_value - values[t];
        next_advantage = delta + gamma * lambda * next_advantage;
        next_value = values[t];
        advantages[t] = next_advantage;
    }
    let returns = advantages.iter().zip(values).map(|(a, v)| a + v).collect();
    Ok(Gae { advantages, returns })
}

/// The recursion of RLVER's release: over every response token, user text included.
///
/// With `γ = λ = 1` it agrees with [`gae`] at action tokens; otherwise the values of user tokens bootstrap and the
/// decay runs through user text. For parity runs only.
///
/// Source: `compute_gae_advantage_return` in RLVER's release (verl before 2025-07).
///
/// # Errors
/// When the slices differ in length.
pub fn gae_rlver(rewards: &[f64], values: &[f64], gamma: f64, lambda: f64) -> Result<Gae, ObjectiveError> {
    gae_actions(rewards, values, gamma, lambda)
}
