//! Speed and memory of what a run spends its time in: prefill, decoding, the update and whole training steps.
//!
//! Nothing here computes on its own: generation is [`rlver_models::generate::Engine`], the update is
//! [`crate::train::update`], and a step is [`crate::train::run`] with a recipe. Each stage runs in a fresh child process
//! of the same program, so that its peak of memory is its own; [`serve`] is the child's side, [`measure`] the parent's.
//! The two speak in lines of JSON, which `benches/peers/` uses too, to let rivals take turns with us.

mod cost;
mod error;
mod generation;
mod memory;
mod parent;
mod protocol;
mod report;
mod shape;
mod stage;
mod step;
mod update;

pub use cost::Flops;
pub use error::BenchError;
pub use memory::{available_bytes, load_average, peak_rss_bytes};
pub use parent::{Plan, measure};
pub use protocol::{Sample, serve};
pub use report::{Report, Spread, StageReport};
pub use shape::{ModelSource, Shape};
pub use stage::Stage;

pub(crate) use shape::random_network;
pub(crate) use stage::ids as random_ids;
