//! Generation: a preallocated key/value cache whose rows are shared out to sequences, continuous batching, and a
//! sampler that reports the log-probability the trainer will recompute.

mod cache;
mod engine;
mod on_device;
mod sampler;

pub use cache::KvCache;
pub use engine::{Engine, Finish, RowId, Sampled};
pub use sampler::{Sampler, SamplingError, SamplingSettings};
