//! A decoder for generation on the CPU: a whole network in one call, without tensors in between.
//!
//! Weights lie in panels (`packed.rs`), keys and values in the same order (`cache.rs`), and the threads wait for each other by
//! spinning (`team.rs`). A few tokens at once, as in decoding, share out the outputs of every product; many, as in a prompt, are
//! cut into chunks that go through a layer each on its own. What comes out has the bits of the operations that the trainer
//! runs, so that a sampled token's log-probability is the trainer's.

mod cache;
mod decoder;
mod packed;
mod team;
mod weights;

pub use cache::KeyValueCache;
pub use decoder::{Decoder, DecoderShape};
pub use packed::WeightFormat;
pub use weights::{DecoderWeights, LayerWeights, Projection};
