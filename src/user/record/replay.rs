use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::ModelCall;
use crate::dialogue::Profile;
use crate::rollout::{EndReason, Turn};
use crate::user::{Emotion, SessionSettings, UserEngine, UserError, UserSession, UserTurn};

/// Why a run cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file cannot be read.
    #[error("cannot replay {path}: {source}")]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// There are no episodes.
    #[error("cannot replay {0}: its episodes/ holds no dialogue; record with checkpoint.episodes_every = 1")]
    Empty(PathBuf),
    /// A line is no episode.
    #[error("cannot replay {path}: line {line} is no episode: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// 1-based line number.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

/// The users of a recorded run, without whatever played them: a policy that says what the recorded one said hears what
/// that one heard. A reply nobody recorded makes the user fail, so a run that differs is noticed and not scored.
pub struct ReplayUser {
    name: String,
    origin: Arc<str>,
    dialogues: HashMap<Key, Vec<Arc<Recorded>>>,
}

/// What dialogues are found by: the person, the seed of its choices, the emotion it starts with.
type Key = (String, u64, u8);

/// The part of an episode that the user said.
#[derive(Debug, Deserialize)]
struct Recorded {
    profile: String,
    user: String,
    user_seed: u64,
    start_emotion: Emotion,
    opening: String,
    #[serde(default)]
    opening_calls: Vec<ModelCall>,
    turns: Vec<Turn>,
    end: EndReason,
}

impl ReplayUser {
    /// Reads all episodes of a run folder.
    ///
    /// # Errors
    /// When there are none, or one is damaged.
    pub fn load(run: &Path) -> Result<ReplayUser, ReplayError> {
        let folder = run.join("episodes");
        let read = |path: &Path, source| ReplayError::Read { path: path.to_path_buf(), source };
        let entries = std::fs::read_dir(&folder).map_err(|e| read(&folder, e))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
        files.sort();
        let mut dialogues: HashMap<Key, Vec<Arc<Recorded>>> = HashMap::new();
        let mut name = None;
        for path in &files {
            let text = std::fs::read_to_string(path).map_err(|e| read(path, e))?;
            for (index, line) in text.lines().enumerate() {
                let recorded: Recorded = serde_json::from_str(line).map_err(|e| ReplayError::Line {
                    path: path.clone(),
                    line: index + 1,
                    problem: e.to_string(),
                })?;
                name.get_or_insert_with(|| recorded.user.clone());
                let key = (recorded.profile.clone(), recorded.user_seed, recorded.start_emotion.score());
                dialogues.entry(key).or_default().push(Arc::new(recorded));
            }
        }
        let name = name.ok_or_else(|| ReplayError::Empty(run.into()))?;
        Ok(ReplayUser { name: format!("replay: {name}"), origin: run.display().to_string().into(), dialogues })
    }
}

impl UserEngine for ReplayUser {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn open(&self, profile: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession> {
        let key = (profile.id.clone(), settings.seed, settings.start.score());
        let candidates = self.dialogues.get(&key).cloned().unwrap_or_default();
        Box::new(Session {
            user: self.name.clone(),
            origin: self.origin.clone(),
            profile: key.0,
            candidates,
            turn: 0,
            emotion: settings.start,
            calls: Vec::new(),
        })
    }
}

struct Session {
    user: String,
    origin: Arc<str>,
    profile: String,
    /// Recorded dialogues that went like this one so far.
    candidates: Vec<Arc<Recorded>>,
    turn: usize,
    emotion: Emotion,
    calls: Vec<ModelCall>,
}

impl Session {
    fn fail<T>(&self, problem: String) -> Result<T, UserError> {
        Err(UserError { user: self.user.clone(), problem })
    }

    /// A recorded failure is replayed, too.
    fn failed<T>(&self, recorded: &Recorded) -> Result<T, UserError> {
        match &recorded.end {
            EndReason::Unscored(problem) => self.fail(format!("recorded: {problem}")),
            _ => self.fail(format!("{} ends here without a user's answer", self.origin)),
        }
    }
}

impl UserSession for Session {
    fn opening(&mut self) -> Result<String, UserError> {
        let Some(first) = self.candidates.first().cloned() else {
            let (origin, profile) = (&self.origin, &self.profile);
            return self.fail(format!(
                "{origin} has no dialogue with {profile} under this seed and starting emotion; replay needs the \
                 recipe it was recorded with"
            ));
        };
        self.calls.clone_from(&first.opening_calls);
        if first.opening.is_empty() && first.turns.is_empty() {
            return self.failed(&first);
        }
        Ok(first.opening.clone())
    }

    fn respond(&mut self, reply: &str) -> Result<UserTurn, UserError> {
        let turn = self.turn;
        self.turn += 1;
        self.candidates.retain(|c| c.turns.get(turn).is_some_and(|t| t.reply == reply));
        let Some(recorded) = self.candidates.first().cloned() else {
            let (origin, profile) = (&self.origin, &self.profile);
            return self.fail(format!("{origin} holds no dialogue with {profile} in which turn {turn} has this reply"));
        };
        let heard = &recorded.turns[turn];
        self.calls.clone_from(&heard.calls);
        match &heard.user {
            Some(user) => {
                self.emotion = user.after;
                Ok(user.clone())
            }
            None => self.failed(&recorded),
        }
    }

    fn emotion(&self) -> Emotion {
        self.emotion
    }

    fn take_calls(&mut self) -> Vec<ModelCall> {
        std::mem::take(&mut self.calls)
    }
}
