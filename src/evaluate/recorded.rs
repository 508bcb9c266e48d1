//! Dialogues that were held elsewhere: SAGE's published recordings, one JSON object a line, and our own episodes. Their
//! emotions are derived anew from the written changes, so that a score is only taken over when it can be re-derived.

use std::path::Path;

use serde::Deserialize;

use super::result::EvalResult;
use super::summary::Outcome;
use crate::dialogue::{CharacterType, HiddenIntention, Language, Role, Transcript};
use crate::rollout::Episode;
use crate::user::{Appraisal, Emotion};

/// Why recorded dialogues cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The file cannot be read.
    #[error("cannot read {path}: {problem}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        problem: String,
    },
    /// A line that is no recorded dialogue, or whose emotions contradict each other.
    #[error("{path}, line {line}: {problem}")]
    Line {
        /// The file.
        path: String,
        /// 1-based line.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// No dialogue at all.
    #[error("{path} holds no dialogue; expected SAGE's recordings or episodes of rlver, one JSON object a line")]
    Empty {
        /// The file.
        path: String,
    },
}

/// A line of SAGE's recordings.
#[derive(Deserialize)]
struct SageDialogue {
    id: String,
    #[serde(default)]
    judge: String,
    #[serde(default)]
    model: String,
    character: String,
    task: String,
    final_emotion: i64,
    turns: Vec<SageTurn>,
}

#[derive(Deserialize)]
struct SageTurn {
    role: Role,
    content: String,
    emotion: Option<i64>,
    appraisal: Option<SageAppraisal>,
}

#[derive(Deserialize)]
struct SageAppraisal {
    change: i64,
}

/// A recorded dialogue with what it says and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// How it ended; `None` when it was unscored.
    pub outcome: Option<Outcome>,
    /// The user or judge, as the record names it.
    pub user: String,
    /// The policy, as the record names it; our episodes do not.
    pub model: String,
    /// What was said.
    pub transcript: Transcript,
    /// The emotion at the start and after each user turn.
    pub emotions: Vec<Emotion>,
}

/// Reads recorded dialogues.
///
/// # Errors
/// Names the line of the first dialogue that cannot be read or re-derived; refuses an empty file.
pub fn load(path: &Path) -> Result<Vec<Recorded>, RecordedError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| RecordedError::Read { path: name.clone(), problem: e.to_string() })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(index, line): (usize, &str)| {
        let fail = |problem: String| RecordedError::Line { path: name.clone(), line: index + 1, problem };
        let json: serde_json::Value = serde_json::from_str(line).map_err(|e| fail(format!("this is no JSON: {e}")))?;
        if json.get("rows").is_some() {
            let episode = serde_json::from_value(json).map_err(|e| fail(format!("this is no episode: {e}")))?;
            from_episode(&episode).map_err(fail)
        } else {
            let dialogue =
                serde_json::from_value(json).map_err(|e| fail(format!("this is no recorded dialogue: {e}")))?;
            from_sage(dialogue, index).map_err(fail)
        }
    };
    let all: Vec<Recorded> = lines.map(parse).collect::<Result<_, _>>()?;
    if all.is_empty() { Err(RecordedError::Empty { path: name }) } else { Ok(all) }
}

/// The evaluation that recorded dialogues amount to; `origin` is what its settings call them.
pub fn result(recorded: &[Recorded], origin: &str) -> EvalResult {
    let mut settings = serde_json::Map::new();
    let distinct = |of: fn(&Recorded) -> &str| {
        let all: std::collections::BTreeSet<&str> = recorded.iter().map(of).filter(|n| !n.is_empty()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    settings.insert("rlver".into(), env!("CARGO_PKG_VERSION").into());
    settings.insert("recorded".into(), origin.into());
    settings.insert("model".into(), distinct(|r| &r.model).into());
    settings.insert("user".into(), distinct(|r| &r.user).into());
    EvalResult {
        outcomes: recorded.iter().filter_map(|r| r.outcome.clone()).collect(),
        unscored: recorded.iter().filter(|r| r.outcome.is_none()).count(),
        settings,
        seed: 1,
    }
}

fn emotion(score: i64) -> Result<Emotion, String> {
    Emotion::new(score).ok_or_else(|| format!("emotion {score} is outside 0-100"))
}

/// The emotion after a written change.
fn after(before: Emotion, change: i64) -> Emotion {
    let change = change.clamp(-i64::from(Appraisal::MAX_CHANGE), i64::from(Appraisal::MAX_CHANGE)) as i8;
    before.after(&Appraisal { change, ..Appraisal::default() })
}

fn from_sage(dialogue: SageDialogue, index: usize) -> Result<Recorded, String> {
    let intention = HiddenIntention::from_task(&dialogue.task)
        .ok_or_else(|| format!("task \"{}\" is none of the eight hidden intentions", dialogue.task))?;
    let character = CharacterType::from_main_cha(&dialogue.character)
        .ok_or_else(|| format!("character \"{}\" is none of the three types", dialogue.character))?;
    let mut transcript = Transcript::default();
    let mut emotions: Vec<Emotion> = Vec::new();
    for turn in &dialogue.turns {
        transcript.push(turn.role, turn.content.clone());
        if turn.role != Role::User {
            continue;
        }
        let written = emotion(turn.emotion.ok_or("a user turn has no emotion")?)?;
        if let Some(before) = emotions.last() {
            let change = turn.appraisal.as_ref().ok_or("a user turn after the first has no appraisal")?.change;
            let derived = after(*before, change);
            if derived != written {
                return Err(format!("{before} changed by {change} gives {derived}, but {written} is written"));
            }
        }
        emotions.push(written);
    }
    let last = *emotions.last().ok_or("it has no user turn")?;
    if i64::from(last.score()) != dialogue.final_emotion {
        return Err(format!("the last emotion is {last}, but final_emotion is {}", dialogue.final_emotion));
    }
    let said: String = transcript.said_by(Role::User).collect();
    Ok(Recorded {
        outcome: Some(Outcome {
            profile: dialogue.id,
            intention,
            character,
            language: Language::detect(&said).unwrap_or(Language::Zh),
            final_emotion: last.score(),
            turns: transcript.said_by(Role::Assistant).count(),
            // Recordings carry none; the line tells dialogues with the same person apart.
            seed: index as u64,
        }),
        user: dialogue.judge,
        model: dialogue.model,
        transcript,
        emotions,
    })
}

fn from_episode(episode: &Episode) -> Result<Recorded, String> {
    let mut transcript = Transcript::default();
    transcript.push(Role::User, episode.opening.clone());
    let mut emotions = vec![episode.start_emotion];
    for turn in &episode.turns {
        transcript.push(Role::Assistant, turn.reply.clone());
        let Some(user) = &turn.user else { continue };
        transcript.push(Role::User, user.line.clone());
        let before = *emotions.last().expect("it starts with one");
        let derived = before.after(&user.appraisal);
        if (user.before, user.after) != (before, derived) {
            let (written, change) = (user.after, user.appraisal.change);
            return Err(format!("{before} changed by {change} gives {derived}, but {written} is written"));
        }
        emotions.push(derived);
    }
    let last = *emotions.last().expect("it starts with one");
    if last != episode.final_emotion {
        return Err(format!("the last emotion is {last}, but final_emotion is {}", episode.final_emotion));
    }
    Ok(Recorded {
        outcome: super::outcomes(std::slice::from_ref(episode)).pop(),
        user: episode.user.clone(),
        model: String::new(),
        transcript,
        emotions,
    })
}
