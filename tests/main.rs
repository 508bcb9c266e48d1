//! Integration tests of the `rlver` crate, in one binary: links are slow.

mod builtin_user;
mod cli;
mod metrics;
mod objectives;
mod parity;
mod pico;
mod profiles;
mod regression;
mod rules;
mod supporter;
mod tensors;
mod tiny;
