//! Dialogues between a policy and simulated users, many side by side.
//!
//! The result is one [`Episode`] per dialogue: the tokens exactly as the policy saw and sampled them, what the user
//! felt, and how it ended. Training reads these tokens; nothing is ever decoded and encoded again.

mod driver;
mod engine;
mod episode;
mod policy;
mod thinking;

pub use driver::{Job, Progress, RolloutSettings, run};
pub use engine::{RolloutEngine, TurnSettings};
pub use episode::{EndReason, Episode, Segment, TokenRow, Turn};
pub use policy::Policy;
