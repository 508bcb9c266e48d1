use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;

use super::digest::Digest;
use super::error::ReportError;
use crate::evaluate::{Outcome, Summary};
use crate::metrics::{Metrics, MetricsLog};
use crate::train::Stage;

/// Turns token ids into the text each of them added; the page shows ids alone where a run has no tokenizer.
pub type TokenText = Box<dyn Fn(&[u32]) -> Vec<String> + Send + Sync>;

/// What the report knows of one run.
pub struct RunDigest {
    /// The run's folder.
    pub root: PathBuf,
    /// What the page calls it.
    pub name: String,
    /// The recipe's keys, when there is one.
    pub recipe: toml::Table,
    /// One record per step.
    pub metrics: Vec<Metrics>,
    /// The episodes files, in order of time.
    pub digests: Vec<Digest>,
    /// The tokenizer.
    pub tokens: Option<TokenText>,
    /// Size and time of every file read, so that [`RunDigest::refresh`] reads new ones only.
    stamps: HashMap<PathBuf, (u64, SystemTime)>,
}

impl RunDigest {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// When it is no run's folder or a file of it is damaged.
    pub fn read(root: &Path) -> Result<RunDigest, ReportError> {
        let mut run = RunDigest {
            name: name_of(root),
            root: root.to_path_buf(),
            recipe: toml::Table::new(),
            metrics: Vec::new(),
            digests: Vec::new(),
            tokens: None,
            stamps: HashMap::new(),
        };
        if !root.join("metrics.jsonl").exists() && !root.join("episodes").exists() {
            return Err(ReportError::NotARun(root.into()));
        }
        run.refresh()?;
        Ok(run)
    }

    /// Reads what changed since the last time.
    ///
    /// # Errors
    /// As [`RunDigest::read`].
    pub fn refresh(&mut self) -> Result<(), ReportError> {
        let recipe = self.root.join("recipe.toml");
        if recipe.exists() {
            let text = std::fs::read_to_string(&recipe).map_err(|e| ReportError::read(&recipe, e))?;
            // An unreadable recipe costs the header its facts, not the reader the report.
            self.recipe = text.parse().unwrap_or_default();
        }
        let metrics = self.root.join("metrics.jsonl");
        self.metrics = if metrics.exists() { MetricsLog::read(&metrics)? } else { Vec::new() };
        let files = episode_files(&self.root)?;
        self.digests.retain(|d| files.contains_key(&d.path) && files.get(&d.path) == self.stamps.get(&d.path));
        let known: Vec<&PathBuf> = self.digests.iter().map(|d| &d.path).collect();
        let fresh: Vec<&PathBuf> = files.keys().filter(|path| !known.contains(path)).collect();
        let read: Vec<Option<Digest>> = fresh.par_iter().map(|path| Digest::read(path)).collect::<Result<_, _>>()?;
        self.digests.extend(read.into_iter().flatten());
        self.digests.sort_by_key(|d| d.stage);
        self.stamps = files;
        Ok(())
    }

    /// The digest of one stage.
    pub fn stage(&self, stage: Stage) -> Option<&Digest> {
        self.digests.iter().find(|d| d.stage == stage)
    }

    /// The training steps' digests, in order.
    pub fn steps(&self) -> Vec<&Digest> {
        self.digests.iter().filter(|d| matches!(d.stage, Stage::Step(_))).collect()
    }

    /// Early and late dialogues to compare: the evaluations before and after training, else, when training is not
    /// over, the first and the last tenth of its steps. Both with what they are called.
    pub fn ends(&self) -> Option<[(String, Vec<&Digest>); 2]> {
        if let (Some(before), Some(after)) = (self.stage(Stage::Before), self.stage(Stage::After)) {
            return Some([("before training".into(), vec![before]), ("after training".into(), vec![after])]);
        }
        let steps = self.steps();
        let tenth = steps.len().div_ceil(10);
        if steps.len() < 2 {
            return None;
        }
        let (first, last) = (steps[..tenth].to_vec(), steps[steps.len() - tenth..].to_vec());
        Some([(span(&first), first), (span(&last), last)])
    }

    /// A recipe key as the page shows it.
    pub fn key(&self, section: &str, key: &str) -> Option<String> {
        let value = self.recipe.get(section)?.get(key)?;
        Some(value.as_str().map_or_else(|| value.to_string(), String::from))
    }

    /// A count that changes whenever a file of the run does.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn stamp(root: &Path) -> Result<u64, ReportError> {
        let mut files: Vec<_> = episode_files(root)?.into_iter().collect();
        if let Ok(meta) = std::fs::metadata(root.join("metrics.jsonl")) {
            files.push((root.join("metrics.jsonl"), stamp_of(&meta)));
        }
        files.sort();
        let mut hash = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&files, &mut hash);
        Ok(std::hash::Hasher::finish(&hash))
    }
}

/// `steps 1–8`.
pub(super) fn span(digests: &[&Digest]) -> String {
    let step = |d: Option<&&Digest>| match d.map(|d| d.stage) {
        Some(Stage::Step(step)) => step,
        _ => 0,
    };
    match (step(digests.first()), step(digests.last())) {
        (a, b) if a == b => format!("step {a}"),
        (a, b) => format!("steps {a}–{b}"),
    }
}

/// Scores of all dialogues of some digests; `None` when none has a score.
pub(super) fn summary(digests: &[&Digest]) -> Option<Summary> {
    let outcomes: Vec<Outcome> = digests.iter().flat_map(|d| &d.dialogues).filter_map(|b| b.outcome()).collect();
    Summary::new(&outcomes, 1).ok()
}

fn name_of(root: &Path) -> String {
    let whole = std::fs::canonicalize(root).unwrap_or_else(|_| root.into());
    whole.file_name().map_or_else(|| root.display().to_string(), |n| n.to_string_lossy().into_owned())
}

fn stamp_of(meta: &std::fs::Metadata) -> (u64, SystemTime) {
    (meta.len(), meta.modified().unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Greedy dialogues are what others are measured by; the page is about those others.
fn is_shown(stage: Stage) -> bool {
    !matches!(stage, Stage::Greedy(_))
}

/// The episodes files of a run with their stamps; none when the run keeps no episodes.
fn episode_files(root: &Path) -> Result<HashMap<PathBuf, (u64, SystemTime)>, ReportError> {
    let folder = root.join("episodes");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(e) => return Err(ReportError::read(&folder, e)),
    };
    let mut files = HashMap::new();
    for entry in entries {
        let path = entry.map_err(|e| ReportError::read(&folder, e))?.path();
        let ours = path.extension().is_some_and(|e| e == "jsonl")
            && path.file_stem().and_then(|s| s.to_str()).and_then(Stage::from_name).is_some_and(is_shown);
        if ours && let Ok(meta) = std::fs::metadata(&path) {
            files.insert(path, stamp_of(&meta));
        }
    }
    Ok(files)
}
