//! Implementations of [`crate::ops::KernelOps`]: native on Flex, and the gradient rules for any backend.

mod autodiff;
mod flex;
