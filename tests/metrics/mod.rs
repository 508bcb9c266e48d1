//! What a run records about itself, and how an evaluation is summed up.

mod curve;
mod keys;
mod progress;
mod record;
mod summary;
mod tensorboard;
