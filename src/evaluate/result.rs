use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::summary::{Outcome, Summary, SummaryError};
use crate::dialogue::ProfileSet;
use crate::seed;

/// Everything an evaluation leaves behind: its dialogues' outcomes, how many have none, and what the score depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalResult {
    /// Outcomes of the scored dialogues, in the order they were planned.
    pub outcomes: Vec<Outcome>,
    /// Dialogues without a score, as their user (or an API policy) failed.
    pub unscored: usize,
    /// What the score depends on, by name.
    pub settings: Map<String, Value>,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Why a result file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The file cannot be read.
    #[error("cannot read {path}: {problem}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        problem: String,
    },
    /// The file is no result of an evaluation.
    #[error("{path} is no result that can be compared: {problem}; write one with `rlver eval --json`")]
    Format {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

/// The part of the file that is read back.
#[derive(Serialize, Deserialize)]
struct Stored {
    dialogues: Vec<Outcome>,
    unscored: usize,
    #[serde(default)]
    settings: Map<String, Value>,
}

/// A name for the contents of a profile set: results with the same one were held with the same people.
pub fn fingerprint(profiles: &ProfileSet) -> String {
    let hash = profiles.iter().fold(0, |hash, profile| {
        let text = serde_json::to_vec(profile.as_ref()).expect("plain data");
        let words = text.chunks(8).map(|c| c.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte)));
        words.fold(hash, |hash, word| seed::mix(&[hash, word]))
    });
    format!("{hash:016x}")
}

impl EvalResult {
    /// Scores over all dialogues and per group.
    ///
    /// # Errors
    /// When no dialogue has a score.
    pub fn summary(&self) -> Result<Summary, SummaryError> {
        Summary::new(&self.outcomes, self.seed)
    }

    /// The result file: the summary, every outcome, the count of unscored dialogues, the settings.
    ///
    /// # Errors
    /// When no dialogue has a score.
    pub fn to_json(&self) -> Result<Value, SummaryError> {
        let mut json = self.summary()?.to_json();
        json["unscored"] = json!(self.unscored);
        json["settings"] = json!(self.settings);
        json["dialogues"] = json!(self.outcomes);
        Ok(json)
    }

    /// Reads a result file.
    ///
    /// # Errors
    /// When it cannot be read or holds no dialogues.
    pub fn load(path: &Path) -> Result<EvalResult, ResultError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| ResultError::Read { path: name.clone(), problem: e.to_string() })?;
        let stored: Stored = serde_json::from_str(&text)
            .map_err(|e| ResultError::Format { path: name.clone(), problem: e.to_string() })?;
        if stored.dialogues.is_empty() {
            return Err(ResultError::Format { path: name, problem: "it lists no dialogue".into() });
        }
        if let Some(odd) = stored.dialogues.iter().find(|o| o.final_emotion > 100) {
            let problem = format!("{} ends at {}, beyond 100", odd.profile, odd.final_emotion);
            return Err(ResultError::Format { path: name, problem });
        }
        let seed = stored.settings.get("seed").and_then(Value::as_u64).unwrap_or(1);
        Ok(EvalResult { outcomes: stored.dialogues, unscored: stored.unscored, settings: stored.settings, seed })
    }
}
