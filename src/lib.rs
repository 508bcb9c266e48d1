//! Train empathetic language models with verifiable emotion rewards.

pub mod objective;
