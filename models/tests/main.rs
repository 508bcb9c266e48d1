//! Tests of the models crate against golden values and real checkpoints.

mod parity;
mod tokenizer;
