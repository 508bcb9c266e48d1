//! Parity of what the root crate adds to the models: the optimizer with torch, whole updates with a computation in `f64`.

mod adamw;
mod double;
mod update;
