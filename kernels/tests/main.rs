//! The kernel suite: every operation against its plain-Burn reference, values and gradients.

mod attention;
mod blocks;
mod common;
mod logprob;
mod ppo;
