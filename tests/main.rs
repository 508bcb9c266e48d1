//! Integration tests.
mod objectives;
