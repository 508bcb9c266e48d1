//! Recorded dialogues: SAGE's files and our own episodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::Person;
use crate::dialogue::{CharacterType, HiddenIntention, Language, ProfileSet};

/// The emotion SAGE's dialogues start with.
const START: i32 = 40;

/// A dialogue with the emotions another judge recorded, if any.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The profile's id.
    pub id: String,
    /// Who replied.
    pub model: String,
    /// Who listened.
    pub person: Arc<Person>,
    /// The first line.
    pub opening: String,
    /// The emotion before the first reply.
    pub start: i32,
    /// The replies with what followed.
    pub turns: Vec<RecordedTurn>,
}

/// One reply and what followed.
#[derive(Debug, Clone)]
pub struct RecordedTurn {
    /// The reply.
    pub reply: String,
    /// The person's next line, if there is one.
    pub line: Option<String>,
    /// The emotion after the reply, where it was recorded.
    pub emotion: Option<i32>,
    /// What the recorded judge wrote about the reply, where it was kept; the fit reads it, never the model.
    pub appraisal: Option<String>,
}

/// Why transcripts cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// A line is no recorded dialogue.
    #[error(
        "{origin}, line {line}: {problem}; expected a SAGE record (`id`, `model`, `character`, `task`, `turns`) or an episode of a run"
    )]
    Line {
        /// The file.
        origin: String,
        /// 1-based line number.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// No dialogue at all.
    #[error("{origin} holds no dialogue; expected one JSON object a line")]
    Empty {
        /// The file.
        origin: String,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Sage(Sage),
    Episode(Episode),
}

#[derive(Deserialize)]
struct Sage {
    id: String,
    #[serde(default)]
    model: String,
    character: String,
    task: String,
    turns: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    role: String,
    content: String,
    #[serde(default)]
    emotion: Option<i32>,
    #[serde(default)]
    appraisal: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Deserialize)]
struct Episode {
    profile: String,
    intention: HiddenIntention,
    character: CharacterType,
    language: Language,
    opening: String,
    start_emotion: i32,
    turns: Vec<EpisodeTurn>,
}

#[derive(Deserialize)]
struct EpisodeTurn {
    reply: String,
    #[serde(default)]
    user: Option<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    after: i32,
    line: String,
}

impl Recorded {
    /// Reads JSON lines; persona and scene come from `profiles` where an id is found there.
    ///
    /// # Errors
    /// Names the line that is no dialogue, and what is wrong with it.
    pub fn parse(origin: &str, text: &str, profiles: Option<&ProfileSet>) -> Result<Vec<Recorded>, RecordedError> {
        let mut all = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let fail = |problem: String| RecordedError::Line { origin: origin.into(), line: index + 1, problem };
            let value: serde_json::Value =
                serde_json::from_str(line).map_err(|e| fail(format!("is not valid JSON ({e})")))?;
            let recorded = match serde_json::from_value(value).map_err(|_| fail("is no dialogue".into()))? {
                Line::Sage(sage) => from_sage(sage, profiles).map_err(fail)?,
                Line::Episode(episode) => from_episode(episode, profiles).map_err(fail)?,
            };
            all.push(recorded);
        }
        if all.is_empty() { Err(RecordedError::Empty { origin: origin.into() }) } else { Ok(all) }
    }
}

fn person(
    id: &str,
    profiles: Option<&ProfileSet>,
    intention: HiddenIntention,
    character: CharacterType,
    language: Language,
) -> Person {
    match profiles.and_then(|set| set.iter().find(|p| p.id == id)) {
        Some(profile) => Person { intention, character, language, ..Person::of(profile) },
        None => Person::known_by(intention, character, language),
    }
}

fn scored(emotion: i32) -> Result<i32, String> {
    if (0..=100).contains(&emotion) { Ok(emotion) } else { Err(format!("emotion {emotion} is outside 0-100")) }
}

fn from_sage(sage: Sage, profiles: Option<&ProfileSet>) -> Result<Recorded, String> {
    let intention = HiddenIntention::from_task(&sage.task)
        .ok_or_else(|| format!("task \"{}\" is none of the eight hidden intentions", sage.task))?;
    let character = CharacterType::from_main_cha(&sage.character)
        .ok_or_else(|| format!("character \"{}\" is none of the three types", sage.character))?;
    let mut said = sage.turns.into_iter().peekable();
    let first = said.next().filter(|t| t.role == "user").ok_or("the first turn is not the user's")?;
    let language = Language::detect(&first.content).unwrap_or(Language::Zh);
    let mut turns = Vec::new();
    while let Some(reply) = said.next() {
        if reply.role != "assistant" {
            return Err(format!("turn {} should be the assistant's, found \"{}\"", 2 * turns.len() + 2, reply.role));
        }
        let answer = said.next();
        if let Some(answer) = &answer
            && answer.role != "user"
        {
            return Err(format!("turn {} should be the user's, found \"{}\"", 2 * turns.len() + 3, answer.role));
        }
        let emotion = answer.as_ref().and_then(|a| a.emotion).map(scored).transpose()?;
        // Numbers are left out: the fit asks what the words say.
        let words = |fields: &BTreeMap<String, serde_json::Value>| {
            fields.values().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join("\n")
        };
        let appraisal = answer.as_ref().and_then(|a| a.appraisal.as_ref()).map(words).filter(|a| !a.is_empty());
        turns.push(RecordedTurn { reply: reply.content, line: answer.map(|a| a.content), emotion, appraisal });
    }
    Ok(Recorded {
        person: Arc::new(person(&sage.id, profiles, intention, character, language)),
        id: sage.id,
        model: sage.model,
        opening: first.content,
        start: scored(first.emotion.unwrap_or(START))?,
        turns,
    })
}

fn from_episode(episode: Episode, profiles: Option<&ProfileSet>) -> Result<Recorded, String> {
    let Episode { profile, intention, character, language, opening, start_emotion, turns } = episode;
    let turns = turns
        .into_iter()
        .map(|turn| {
            let emotion = turn.user.as_ref().map(|u| scored(u.after)).transpose()?;
            Ok(RecordedTurn { reply: turn.reply, line: turn.user.map(|u| u.line), emotion, appraisal: None })
        })
        .collect::<Result<_, String>>()?;
    Ok(Recorded {
        person: Arc::new(person(&profile, profiles, intention, character, language)),
        id: profile,
        model: "policy".into(),
        opening,
        start: scored(start_emotion)?,
        turns,
    })
}
