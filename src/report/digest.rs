use std::path::{Path, PathBuf};

use super::ReportError;
use crate::dialogue::{CharacterType, HiddenIntention, Language, Role, Strategy, Transcript};
use crate::evaluate::Outcome;
use crate::evaluate::capability::{CapabilityScores, Coordinate, estimate, estimate_coordinate};
use crate::evaluate::diversity::Diversity;
use crate::evaluate::strategy::{
    BuiltinLabeller, Labels, SageStrategy, StrategyLabeller, StrategyTable, repetition_rate,
};
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
    /// Use of our strategies.
    pub strategies: StrategyTable<Strategy>,
    /// Use of SAGE's strategies.
    pub sage: StrategyTable<SageStrategy>,
    /// Mean similarity of adjacent replies' strategies (SSRR).
    pub repetition: Option<f64>,
    /// Variety, language and length of the replies.
    pub diversity: Diversity,
    /// Estimated capabilities.
    pub capabilities: Option<CapabilityScores>,
    /// Estimated Social Cognition Coordinate.
    pub coordinate: Option<Coordinate>,
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
        let (mut strategies, mut sage) = (StrategyTable::default(), StrategyTable::default());
        let labelled: Vec<Vec<Labels>> = episodes.iter().map(|(_, episode)| labels(episode)).collect();
        for ((_, episode), labels) in episodes.iter().zip(&labelled) {
            for (turn, labels) in episode.turns.iter().zip(labels) {
                let change = turn.user.as_ref().map(|u| i32::from(u.after.score()) - i32::from(u.before.score()));
                strategies.add(&labels.strategies, change);
                sage.add(&labels.sage, change);
            }
        }
        let sequences: Vec<Vec<Vec<Strategy>>> =
            labelled.iter().map(|d| d.iter().map(|l| l.strategies.clone()).collect()).collect();
        let replies = episodes.iter().flat_map(|(_, e)| e.turns.iter().map(|t| (t.reply.as_str(), e.language)));
        let capabilities: Vec<CapabilityScores> = labelled.iter().filter_map(|d| estimate(d)).collect();
        Digest {
            path: path.to_path_buf(),
            stage,
            dialogues: episodes.iter().map(|(index, episode)| Brief::of(*index, episode)).collect(),
            strategies,
            sage,
            repetition: repetition_rate(sequences.iter().map(Vec::as_slice)),
            diversity: Diversity::of(replies),
            capabilities: CapabilityScores::mean(&capabilities),
            coordinate: estimate_coordinate(&labelled),
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

/// The built-in labels of each reply of an episode.
pub(super) fn labels(episode: &Episode) -> Vec<Labels> {
    let mut before = Transcript::default();
    before.push(Role::User, episode.opening.clone());
    let mut all = Vec::with_capacity(episode.turns.len());
    for turn in &episode.turns {
        let labels = BuiltinLabeller.label(&turn.reply, &before, episode.language);
        all.push(labels.expect("the built-in labeller always answers"));
        before.push(Role::Assistant, turn.reply.clone());
        if let Some(user) = &turn.user {
            before.push(Role::User, user.line.clone());
        }
    }
    all
}
