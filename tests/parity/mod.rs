//! Parity with torch of what the root crate adds to the models: the optimizer.

mod adamw;
