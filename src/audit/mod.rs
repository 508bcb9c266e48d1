//! Re-deriving what a run recorded: every emotion from the appraisals, every appraisal from the user that gave it,
//! every token from what was said, every reward, mask and advantage, and the log-probabilities where the weights they
//! came from are kept.
//!
//! [`audit`] reads a run folder and stops at the first number that does not follow from the others. What it can check
//! depends on what is there: the built-in user is run again; of a user played by a language model the recorded answers are read
//! again and the questions hashed again; log-probabilities need the checkpoint of the step before.

mod emotions;
mod llm;
mod numbers;
mod run;
mod tokens;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::dialogue::Profile;
use crate::recipe::RolloutWeights;
use crate::rollout::{Episode, Job};
use crate::train::{Sample, Stage, TrainRow};

use run::Run;

/// How an audit is done.
#[derive(Debug, Clone, Default)]
pub struct AuditOptions {
    /// Leave out the log-probabilities, which take a forward pass over every recorded token.
    pub skip_logprobs: bool,
    /// Device that log-probabilities and values are computed on; empty means the run's own.
    pub device: String,
}

/// What was checked in one file of episodes; 0 means that there was nothing to check or nothing to check it with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Name of the file below `episodes/`, without its extension.
    pub file: String,
    /// Dialogues.
    pub dialogues: usize,
    /// Emotions derived from appraisals.
    pub emotions: usize,
    /// Appraisals and lines had again from the user, or read again from a model's recorded answers.
    pub appraisals: usize,
    /// Rewards.
    pub rewards: usize,
    /// Tokens whose text, place and mask were derived.
    pub tokens: usize,
    /// Advantages.
    pub advantages: usize,
    /// Log-probabilities.
    pub logprobs: usize,
    /// Critic values computed again.
    pub values: usize,
    /// Metrics of the step.
    pub metrics: usize,
}

/// Why an audit failed.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The record contradicts itself.
    #[error("{file}: dialogue {dialogue}, turn {turn}: {problem}")]
    Mismatch {
        /// The file of episodes.
        file: String,
        /// The dialogue.
        dialogue: u64,
        /// The turn, from 0; for what concerns the whole dialogue, its last.
        turn: usize,
        /// What does not follow.
        problem: String,
    },
    /// The record as a whole contradicts itself.
    #[error("{file}: {problem}")]
    Whole {
        /// The file.
        file: String,
        /// What does not follow.
        problem: String,
    },
    /// There is nothing to audit.
    #[error("{0} holds no recorded dialogue; a run with checkpoint.episodes_every = 1 records all of them")]
    Nothing(std::path::PathBuf),
    /// Something cannot be read.
    #[error(transparent)]
    Error(#[from] Error),
}

/// Audits a run folder. Each finished file is reported at once.
///
/// # Errors
/// At the first mismatch, which names file, dialogue and turn; and when the folder cannot be read.
pub fn audit(
    folder: &Path,
    options: AuditOptions,
    report: &mut dyn FnMut(&FileReport),
    note: &mut dyn FnMut(String),
) -> Result<Vec<FileReport>, AuditError> {
    let mut run = Run::open(folder, &options.device, note)?;
    let mut reports = Vec::new();
    for (name, kind) in run.files()? {
        for file in run.stage(&name, kind, note)? {
            let checked = file.check(&run, &options, note)?;
            report(&checked);
            reports.push(checked);
        }
    }
    if reports.is_empty() {
        return Err(AuditError::Nothing(folder.into()));
    }
    Ok(reports)
}

/// The reports as an aligned table.
pub fn table(reports: &[FileReport]) -> String {
    let head =
        ["", "dialogues", "emotions", "appraisals", "rewards", "tokens", "advantages", "logprobs", "values", "metrics"];
    let mut rows = vec![head.map(String::from)];
    rows.extend(reports.iter().map(|r| {
        let count = |n: usize| if n == 0 { "–".to_string() } else { n.to_string() };
        let counts =
            [r.dialogues, r.emotions, r.appraisals, r.rewards, r.tokens, r.advantages, r.logprobs, r.values, r.metrics];
        let mut cells = std::iter::once(r.file.clone()).chain(counts.map(count));
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        out += cells.collect::<String>().trim_end();
        out.push('\n');
    }
    out
}

/// A file of episodes in a run, with what it should hold.
struct File {
    name: String,
    kind: Stage,
    /// What is recorded, as the step sampled it.
    held: Sample,
    /// The dialogues the recipe calls for, in order.
    jobs: Vec<Job>,
    /// The rows that were learnt from.
    rows: Vec<TrainRow>,
    /// Whether the people of `jobs` are in the state in which they came.
    states_known: bool,
}

/// A file of episodes and its run.
struct Check<'a> {
    run: &'a Run,
    file: &'a File,
}

impl File {
    fn check(&self, run: &Run, options: &AuditOptions, note: &mut dyn FnMut(String)) -> Result<FileReport, AuditError> {
        let dialogues = self.held.episodes.len();
        let mut report = FileReport { file: self.name.clone(), dialogues, ..FileReport::default() };
        let check = Check { run, file: self };
        check.identities()?;
        for index in 0..dialogues {
            let at = self.at(index);
            check.emotions(at, &mut report)?;
            check.reward(at, &mut report)?;
            check.tokens(at, &mut report)?;
        }
        // Before the advantages: whitening spreads a wrong value over the whole step, and here its own dialogue is named.
        let rounded = run.recipe.rollout.weights == RolloutWeights::Bf16;
        if rounded {
            note(format!(
                "{}: tokens were sampled with bf16 weights: log-probabilities and values are left out",
                self.name
            ));
        }
        if !(options.skip_logprobs || rounded) {
            check.logprobs(&mut report, note)?;
        }
        check.advantages(&mut report)?;
        check.metrics(&mut report)?;
        Ok(report)
    }

    /// A recorded dialogue; there is a job for each.
    fn at(&self, index: usize) -> At<'_> {
        At { file: &self.name, episode: &self.held.episodes[index], person: &self.jobs[index].profile }
    }
}

/// Where in the record a check is.
#[derive(Clone, Copy)]
struct At<'a> {
    file: &'a str,
    episode: &'a Episode,
    person: &'a Arc<Profile>,
}

impl At<'_> {
    fn last_turn(&self) -> usize {
        self.episode.turns.len().saturating_sub(1)
    }

    fn wrong<T>(&self, turn: usize, problem: impl Into<String>) -> Result<T, AuditError> {
        Err(AuditError::Mismatch {
            file: self.file.into(),
            dialogue: self.episode.dialogue,
            turn,
            problem: problem.into(),
        })
    }

    /// Refuses a recorded value that differs from the derived one.
    fn same<T: PartialEq + Debug>(&self, turn: usize, what: &str, recorded: &T, derived: &T) -> Result<(), AuditError> {
        if recorded == derived {
            return Ok(());
        }
        self.wrong(turn, format!("{what} is recorded as {}, but {} follows", brief(recorded), brief(derived)))
    }
}

/// A value for a message, cut to a readable length.
fn brief(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
