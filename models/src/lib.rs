//! Language models for rlver: Qwen2.5 in Burn with its weights, tokenizer, chat format and generation engine.
//!
//! Models know tokens, not emotions. A model folder is a Hugging Face checkpoint: [`hub::resolve`] finds or downloads
//! it, [`weights::load`] reads it into a [`qwen2::Qwen2`], [`tokenizer::Tokenizer::load`] its tokenizer, and a
//! [`generate::Engine`] makes it talk.

mod error;
pub mod generate;
pub mod hub;
pub mod qwen2;
pub mod tokenizer;
pub mod weights;

pub use error::ModelError;
