//! The ten rules that keep training right, one file each (two where they are short), what
//! reward shaping, batch rules and the curriculum promise, and credit per turn.

pub(crate) mod advantages;
mod batch_rules;
mod curriculum;
mod gradients;
mod prompts;
mod reproduction;
mod sampling;
mod scoring;
mod seams;
mod shaping;
mod turn_credit;
mod users;
