//! Tests of the models crate against golden values and real checkpoints.

mod parity;
mod smollm2;
mod tokenizer;
