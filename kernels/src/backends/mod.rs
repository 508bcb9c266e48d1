//! Implementations of [`crate::ops`]: native on Flex and on CubeCL's devices, and the gradient rules for any backend.

mod autodiff;
#[cfg(feature = "cubecl")]
mod cubecl;
mod flex;
