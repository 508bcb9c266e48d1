//! Integration tests of the `rlver` crate, in one binary: links are slow.

// A test that skips itself says so on standard error.
#![allow(clippy::print_stderr)]

mod audit;
mod builtin_user;
mod cli;
mod evaluate;
mod judge;
mod llm_user;
mod metrics;
mod objectives;
mod parity;
mod pico;
mod plan;
mod profiles;
mod readme;
mod regression;
mod report;
mod rules;
mod supporter;
mod tensors;
mod tiny;
#[cfg(feature = "wgpu")]
mod wgpu;
