use std::path::{Path, PathBuf};

use super::ReportError;
use crate::dialogue::{CharacterType, HiddenIntention, Language};
use crate::evaluate::strategy::BuiltinLabeller;
use crate::evaluate::{Behaviour, Outcome};
use crate::rollout::{EndReason, Episode};
use crate::train::Stage;

/// How a dialogue ended, as the page filters by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// At 100.
    Success,
    /// Below 10.
    Failure,
    /// Somewhere between, at the turn limit.
    Between,
    /// The context was full.
    Truncated,
    /// The think format was broken.
    Malformed,
    /// The user failed.
    Unscored,
}

impl Ending {
    /// All endings, in the order of the page's filter.
    pub const ALL: [Ending; 6] =
        [Ending::Success, Ending::Between, Ending::Failure, Ending::Malformed, Ending::Truncated, Ending::Unscored];

    /// Reads it off an episode.
    pub fn of(episode: &Episode) -> Ending {
        match episode.end {
            EndReason::Unscored(_) => Ending::Unscored,
            EndReason::Malformed => Ending::Malformed,
            EndReason::Truncated => Ending::Truncated,
            EndReason::Farewell | EndReason::TurnLimit => match episode.final_emotion.score() {
                100.. => Ending::Success,
                10..100 => Ending::Between,
                _ => Ending::Failure,
            },
        }
    }

    /// The page's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Success => "success",
            Ending::Failure => "failure",
            Ending::Between => "in between",
            Ending::Truncated => "truncated",
            Ending::Malformed => "malformed",
            Ending::Unscored => "unscored",
        }
    }
}

/// What is kept of every dialogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// Line of the file, from 0.
    pub index: usize,
    /// The profile's id.
    pub profile: String,
    /// The hidden intention.
    pub intention: HiddenIntention,
    /// The character type.
    pub character: CharacterType,
    /// The language.
    pub language: Language,
    /// The emotion at the start and after each reply.
    pub emotions: Vec<u8>,
    /// The final emotion as results count it; `None` when unscored.
    pub counted: Option<u8>,
    /// How it ended.
    pub ending: Ending,
    /// Seed of the user.
    pub seed: u64,
    /// Replies given.
    pub turns: usize,
}

impl Brief {
    fn of(index: usize, episode: &Episode) -> Brief {
        let after = episode.turns.iter().filter_map(|t| t.user.as_ref()).map(|u| u.after.score());
        Brief {
            index,
            profile: episode.profile.clone(),
            intention: episode.intention,
            character: episode.character,
            language: episode.language,
            emotions: std::iter::once(episode.start_emotion.score()).chain(after).collect(),
            counted: episode.counted_emotion(),
            ending: Ending::of(episode),
            seed: episode.user_seed,
            turns: episode.turns.len(),
        }
    }

    /// The dialogue's outcome; `None` when unscored.
    pub fn outcome(&self) -> Option<Outcome> {
        Some(Outcome {
            profile: self.profile.clone(),
            intention: self.intention,
            character: self.character,
            language: self.language,
            final_emotion: self.counted?,
            turns: self.turns,
            seed: self.seed,
        })
    }
}

/// What the charts need of one episodes file.
#[derive(Debug, Clone)]
pub struct Digest {
    /// The file.
    pub path: PathBuf,
    /// Which dialogues they are.
    pub stage: Stage,
    /// Every dialogue.
    pub dialogues: Vec<Brief>,
    /// What the replies do.
    pub behaviour: Behaviour,
}

impl Digest {
    /// Reads an episodes file; `None` when its name is none of ours.
    ///
    /// # Errors
    /// When it cannot be read or a line is no episode.
    pub fn read(path: &Path) -> Result<Option<Digest>, ReportError> {
        let Some(stage) = path.file_stem().and_then(|s| s.to_str()).and_then(Stage::from_name) else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|e| ReportError::read(path, e))?;
        let mut episodes = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            episodes.push((index, parse(path, index, line)?));
        }
        Ok(Some(Digest::of(path, stage, &episodes)))
    }

    fn of(path: &Path, stage: Stage, episodes: &[(usize, Episode)]) -> Digest {
        Digest {
            path: path.to_path_buf(),
            stage,
            dialogues: episodes.iter().map(|(index, episode)| Brief::of(*index, episode)).collect(),
            behaviour: Behaviour::of(episodes.iter().map(|(_, episode)| episode), &BuiltinLabeller),
        }
    }
}

/// Parses one line of an episodes file; `index` counts from 0.
pub(super) fn parse(path: &Path, index: usize, line: &str) -> Result<Episode, ReportError> {
    serde_json::from_str(line).map_err(|e| ReportError::Episode {
        path: path.to_path_buf(),
        line: index + 1,
        problem: e.to_string(),
    })
}
