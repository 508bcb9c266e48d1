//! The algorithm room: advantages, losses, KL, aggregation and schedules as small pure functions in `f64`.
//!
//! A *row* is one training row: one dialogue in direct mode, one turn in think mode. Losses and weights see action
//! tokens only; where a function takes a mask, slots with `false` are never read, so whatever they hold (user tokens,
//! padding, NaN) changes nothing. `docs/objectives.md` lists every key with its formula, source and golden cases.
//!
//! How the pieces fit in one optimizer mini-batch:
//!
//! 1. rewards: [`place_terminal_reward`], optionally [`penalize_rewards`];
//! 2. advantages on the full batch: [`gae`], [`group_advantages`], [`reinforce_plus_plus`], [`remax`], and turn credit;
//! 3. weights for the whole mini-batch, before it is split: [`token_weights`];
//! 4. per micro-batch: [`policy_loss`], [`value_loss`], [`kl_loss`], each returning `Σ w·L` and its gradient. Sums of
//!    micro-batches equal the mini-batch, whatever the split.

mod advantage;
mod aggregation;
mod entropy;
mod error;
mod importance;
mod kl;
mod masked;
mod policy_loss;
mod schedule;
mod shaping;
mod value_loss;

pub use advantage::{
    AdvantageEstimator, DistancePotential, Gae, GroupAdvantages, GroupScale, GroupStats, REWARD_TOLERANCE,
    ReinforcePlusPlus, StdConvention, TurnAdvantages, TurnCredit, TurnRewards, TurnTrace, distance_potential, gae,
    gae_actions, gae_rlver, group_advantages, last_action, place_terminal_reward, reinforce_plus_plus, remax,
    reward_to_go, turn_centred, turn_rloo,
};
pub use aggregation::{Aggregation, RowShape, token_weights};
pub use entropy::{entropy, entropy_grad, logprob, logprob_grad};
pub use error::ObjectiveError;
pub use importance::{CorrectionLevel, CorrectionMode, RolloutCorrection, RolloutWeights};
pub use kl::{KlClamp, KlController, KlEstimator, KlLoss, KlRow, PenalizedRewards, kl_loss, penalize_rewards};
pub use masked::{
    MaskedRow, VERL_COUNT_EPS, WHITEN_EPS, action_values, masked_mean, masked_variance, scatter_actions, whiten,
};
pub use policy_loss::{
    CispoBounds, PolicyLoss, PolicyLossConfig, PolicyLossKind, PolicyMetrics, PolicyRow, policy_loss,
};
pub use schedule::{LrDecay, LrSchedule};
pub use shaping::{BatchDecision, OverlongPenalty, SampleBudget, group_is_informative, informative_groups};
pub use value_loss::{ValueLoss, ValueMetrics, ValueRow, value_loss};
