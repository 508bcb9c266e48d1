//! Qwen2 and Qwen2.5 (arXiv 2412.15115): pre-normalised blocks of grouped-query attention with rotary positions and
//! biased q/k/v, and a SwiGLU feed-forward. Parameter names are those of Hugging Face checkpoints.

mod config;
mod model;
mod packed;
mod parameters;

pub use config::{Qwen2Config, Qwen2Shape};
pub use model::Qwen2;
pub use packed::Packed;
pub use parameters::{HeadKind, Parameter, Slot, placeholder};
