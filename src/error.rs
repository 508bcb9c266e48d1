use std::path::{Path, PathBuf};

use rlver_models::ModelError;
use rlver_models::hub::HubError;
use rlver_models::tokenizer::TokenizerError;

use crate::dialogue::ProfileError;
use crate::metrics::MetricsError;
use crate::objective::ObjectiveError;
use crate::recipe::RecipeError;
use crate::user::llm::engine::EngineError;
use crate::user::record::ReplayError;

/// Anything that can go wrong in a run. Messages name the input, what is wrong with it and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recipe.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Profiles.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A model folder or the model itself.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A tokenizer or its chat template.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// Finding or downloading a model.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Metrics of a run.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The language model behind simulated users.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A recorded run that should be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Numbers the objective refuses.
    #[error("the objective refuses its input: {0}")]
    Objective(#[from] ObjectiveError),
    /// A file of the run cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of the run cannot be written.
    #[error("cannot write {path}: {source}; check that the folder is writable and the disk has room")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A run folder that is already there.
    #[error("run folder {0} exists already; continue it with --resume, or choose another with --out")]
    RunExists(PathBuf),
    /// Nothing to resume from.
    #[error(
        "{0} holds no checkpoint to resume from; remove it, or choose another with --out, and start without --resume"
    )]
    NothingToResume(PathBuf),
    /// A file of ours whose contents are damaged.
    #[error("{path} is damaged: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A resumed run whose recipe changed.
    #[error(
        "cannot resume {folder}: `{key}` was {was} and is now {now}; only run.steps, [checkpoint], [eval] and how an [llm] server is reached may change"
    )]
    RecipeChanged {
        /// The run folder.
        folder: PathBuf,
        /// First differing key.
        key: String,
        /// Recorded value.
        was: String,
        /// Present value.
        now: String,
    },
    /// More dialogues than profiles.
    #[error(
        "rollout.dialogues = {wanted} is larger than the {available} profiles of {origin}; lower it or add profiles"
    )]
    TooFewProfiles {
        /// Dialogues per step.
        wanted: usize,
        /// Profiles there are.
        available: usize,
        /// Where they come from.
        origin: String,
    },
    /// A tokenizer that is not the model's.
    #[error("{folder}: the tokenizer knows {tokens} ids but the model only {rows}; they do not belong together")]
    WrongTokenizer {
        /// The model folder.
        folder: PathBuf,
        /// Ids of the tokenizer.
        tokens: usize,
        /// Rows of the embedding.
        rows: usize,
    },
    /// A prompt that does not extend what the policy saw before.
    #[error(
        "dialogue {dialogue}, turn {turn}: the prompt does not extend the dialogue's earlier tokens; the chat template rewrites history"
    )]
    NotAnExtension {
        /// The dialogue.
        dialogue: u64,
        /// The turn, from 0.
        turn: usize,
    },
    /// Too many simulated users failed.
    #[error(
        "step {step}: {unscored} of {total} dialogues have no score because their simulated user failed, more than user.max_unscored = {limit} allows; last failure: {last}"
    )]
    TooManyUnscored {
        /// The step.
        step: usize,
        /// Dialogues without a score.
        unscored: usize,
        /// Dialogues of the step.
        total: usize,
        /// The limit.
        limit: f64,
        /// The last failure.
        last: String,
    },
    /// Too many simulated users failed in an evaluation.
    #[error(
        "{unscored} of {total} dialogues of the evaluation have no score because their simulated user or the endpoint of the policy failed, more than the limit of {limit} allows; last failure: {last}"
    )]
    UnscoredEvaluation {
        /// Dialogues without a score.
        unscored: usize,
        /// Dialogues of the evaluation.
        total: usize,
        /// The limit.
        limit: f64,
        /// The last failure.
        last: String,
    },
    /// Several gradients in a row that are not numbers.
    #[error("the gradient was not finite in {0} updates in a row; lower optimizer.lr or check the starting checkpoint")]
    Diverged(usize),
    /// An evaluation without any scored dialogue.
    #[error("no dialogue of the evaluation has a score: {0}")]
    NothingScored(String),
}

impl Error {
    pub(crate) fn read(path: &Path, source: std::io::Error) -> Error {
        Error::Read { path: path.to_path_buf(), source }
    }

    pub(crate) fn write(path: &Path, source: std::io::Error) -> Error {
        Error::Write { path: path.to_path_buf(), source }
    }
}
