//! Checkpoints in Hugging Face's layout: `config.json` and `model.safetensors`, whole or sharded.

mod load;
mod save;

pub use load::{load, load_embedded};
pub use save::{WeightType, save};
