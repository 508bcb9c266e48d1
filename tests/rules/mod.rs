//! The ten rules that keep training right, one file each (two where they are short), and credit per turn.

pub(crate) mod advantages;
mod gradients;
mod prompts;
mod reproduction;
mod sampling;
mod scoring;
mod turn_credit;
mod users;
