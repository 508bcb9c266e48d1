//! The kernel suite: every operation on the device that `RLVER_TEST_DEVICE` names, values and gradients, against loops in
//! f64.

mod adamw;
mod attention;
mod blocks;
mod common;
mod fixtures;
#[cfg(feature = "fusion")]
mod fusion;
mod gae;
mod half;
mod logprob;
mod oracle;
mod ppo;
mod sample;
mod sum;
