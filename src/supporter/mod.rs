//! The scripted supporter: writes the replies a policy is warmed up on before it learns from emotion.
//!
//! A [`ReplyPlan`] says what a reply does and how well; [`Supporter::reply`] puts it into words. Good and bad replies are
//! mixed on purpose: the policy should be able to say all of them, and which ones help is left to reinforcement learning.

mod compose;
mod phrases;
mod plan;

pub use compose::{Reply, ReplyContext, Supporter};
pub use plan::{Quality, ReplyPlan, random_plan};
