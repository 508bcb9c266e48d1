//! Training: what a recipe describes, carried out in a run folder.
//!
//! [`run`] is the one entry. A reinforcement step is rollout → advantages → update; a supervised run fits scripted
//! dialogues. Both write metrics as they go and can be interrupted: the step is finished, a checkpoint written, and
//! `--resume` continues as if nothing had happened.

mod advantages;
mod batch;
mod checkpoint;
mod comparison;
pub mod curriculum;
mod describe;
mod exact;
mod files;
mod losses;
mod note;
mod optimizer;
mod policy_source;
mod reinforce;
mod run_folder;
mod sample;
pub mod sft;
mod stage;
mod update;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use batch::evaluate_response;
pub(crate) use checkpoint::curriculum_at;
pub(crate) use describe::{rollout as describe_rollout, sampling as describe_sampling};
pub(crate) use note::{Tokens, noted};
pub(crate) use reinforce::{curriculum as first_curriculum, load_critic, load_profiles};
pub(crate) use sample::{Sample, sample};

pub use advantages::{AdvantageInputs, Advantages, compute as compute_advantages};
pub use batch::{TrainRow, evaluate as critic_values, micro_batches, score};
pub use comparison::{Contestant, RunResult, comparison_svg, comparison_table};
pub use losses::{LossRow, PolicyTerm, loss_config, policy_term};
pub use optimizer::{AdamW, GradientSum};
pub use policy_source::{load_config, load_network, load_policy, load_tokenizer};
pub use run_folder::RunFolder;
pub use stage::Stage;
pub use update::{Learner, Rates, UpdateBatch, UpdateReport, first_mini_batch, update};

use crate::Error;
use crate::evaluate::Summary;
use crate::metrics::Metrics;
use crate::recipe::{Algorithm, Recipe};
use crate::rollout::Progress;
use crate::user::UserEngine;
use crate::user::builtin::BuiltinUser;

/// Asks a run to stop after the step in progress.
#[derive(Debug, Default)]
pub struct StopFlag(AtomicBool);

impl StopFlag {
    /// Asks for the stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a run tells while it goes.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something worth a line.
    Note(String),
    /// Dialogues are being held.
    Dialogues(&'static str, Progress),
    /// A step is done; the second number is the last step.
    Step(&'a Metrics, usize),
    /// A checkpoint was written.
    Checkpoint(&'a Path),
    /// An evaluation is done.
    Evaluated(&'static str, &'a Summary),
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// All steps are done.
    Finished {
        /// The final model.
        policy: PathBuf,
        /// Evaluation before and after training.
        evaluation: Option<Box<(Summary, Summary)>>,
    },
    /// Stopped on request after a checkpoint.
    Interrupted {
        /// Last finished step.
        step: usize,
    },
}

/// How to start a run.
#[derive(Debug)]
pub struct RunOptions<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The run folder.
    pub folder: &'a Path,
    /// Whether to continue what the folder holds.
    pub resume: bool,
    /// Raised to stop.
    pub stop: &'a StopFlag,
}

/// Carries out a recipe.
///
/// # Errors
/// Whatever stands in the way; the message says what to do. Nothing already written is lost.
pub fn run(options: &RunOptions<'_>, report: &mut dyn FnMut(Event<'_>)) -> Result<Outcome, Error> {
    let recipe = options.recipe;
    match recipe.run.algorithm {
        // A supervised run talks with nobody.
        Algorithm::Sft => run_with_users(options, Box::new(BuiltinUser::new()), report),
        Algorithm::Ppo | Algorithm::Grpo => {
            carry_out(options, recipe.open_users()?, recipe.open_evaluation_users()?, report)
        }
    }
}

/// As [`run`], with simulated users of your own instead of the recipe's.
///
/// # Errors
/// As [`run`].
pub fn run_with_users(
    options: &RunOptions<'_>,
    users: Box<dyn UserEngine>,
    report: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Error> {
    carry_out(options, users, None, report)
}

fn carry_out(
    options: &RunOptions<'_>,
    users: Box<dyn UserEngine>,
    evaluated_with: Option<Box<dyn UserEngine>>,
    report: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Error> {
    rlver_kernels::set_reference(options.recipe.run.kernels == crate::recipe::KernelChoice::Reference);
    match options.recipe.run.algorithm {
        Algorithm::Sft => sft::run(options, report),
        Algorithm::Ppo | Algorithm::Grpo => reinforce::run(options, users, evaluated_with, report),
    }
}
