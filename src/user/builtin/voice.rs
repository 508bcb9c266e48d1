//! What the user says: a reaction to the last reply, the next fact of the story, often a hint at what is wanted.
//!
//! The phrases are data (`assets/builtin_user/voice.*.toml`). Every choice comes from a counter-based hash of
//! (seed, turn), and nothing is said twice in a dialogue as long as there is something left to say.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::scene;
use super::text::draw;
use crate::dialogue::{CharacterType, Detail, HiddenIntention, Language, Profile};
use crate::user::Band;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bank {
    reaction: Reactions,
    hint: BTreeMap<HiddenIntention, Hints>,
    more: Sayings,
    opening: Lead,
    farewell: Farewells,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reactions {
    negative: ByChange,
    passive: ByChange,
    avoidant: ByChange,
    guarded: BTreeMap<CharacterType, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByChange {
    leap: Vec<String>,
    rise: Vec<String>,
    flat: Vec<String>,
    fall: Vec<String>,
    plunge: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hints {
    say: Vec<String>,
    ask: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sayings {
    say: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lead {
    lead: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Farewells {
    thanks: Vec<String>,
    gives_up: Vec<String>,
}

fn bank(language: Language) -> &'static Bank {
    const VALID: &str = "the embedded phrase bank is valid; a test checks it";
    static ZH: LazyLock<Bank> = LazyLock::new(|| {
        toml::from_str(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/voice.zh.toml")))
            .expect(VALID)
    });
    static EN: LazyLock<Bank> = LazyLock::new(|| {
        toml::from_str(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/voice.en.toml")))
            .expect(VALID)
    });
    match language {
        Language::Zh => &ZH,
        Language::En => &EN,
    }
}

/// How the last reply was taken, as far as the voice cares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mood {
    pub(crate) change: i8,
    pub(crate) band: Band,
    pub(crate) guarded: bool,
}

/// A line and the fact it discloses.
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) fact: Option<Detail>,
}

/// Everything by which a person hints at `intention`.
pub(crate) fn hints(language: Language, intention: HiddenIntention) -> Vec<&'static str> {
    let hints = &bank(language).hint[&intention];
    hints.say.iter().chain(&hints.ask).map(String::as_str).collect()
}

/// Speaks for one person in one dialogue.
pub(crate) struct Voice {
    language: Language,
    character: CharacterType,
    intention: HiddenIntention,
    facts: std::vec::IntoIter<Detail>,
    said: HashSet<String>,
    seed: u64,
}

impl Voice {
    pub(crate) fn new(profile: &Profile, seed: u64) -> Voice {
        let facts = if profile.details.is_empty() { scene::facts(profile) } else { profile.details.clone() };
        Voice {
            language: profile.language(),
            character: profile.character(),
            intention: profile.intention(),
            facts: facts.into_iter(),
            said: HashSet::new(),
            seed,
        }
    }

    /// The first line: the profile's own, or one made of its first fact.
    pub(crate) fn opening(&mut self, first_talk: Option<&str>) -> Line {
        if let Some(first) = first_talk.map(str::trim).filter(|t| !t.is_empty()) {
            let fact = Detail { say: first.to_string(), key: String::new() };
            self.said.insert(first.to_string());
            return Line { text: first.to_string(), fact: Some(fact) };
        }
        let lead = self.pick(&bank(self.language).opening.lead, 0, 0);
        let fact = self.facts.next();
        let text = match &fact {
            Some(fact) => self.join(&[&lead, &self.spoken(&fact.say)]),
            None => lead,
        };
        Line { text, fact }
    }

    /// The next line, or the farewell at the ends of the scale.
    pub(crate) fn answer(&mut self, mood: Mood, turn: usize) -> Line {
        let bank = bank(self.language);
        let farewell = match mood.band {
            Band::S => Some(&bank.farewell.thanks),
            Band::F => Some(&bank.farewell.gives_up),
            _ => None,
        };
        if let Some(goodbyes) = farewell {
            return Line { text: self.pick(goodbyes, turn, 9), fact: None };
        }
        let reaction = self.pick(self.reactions(mood), turn, 1);
        // A person who was just hurt or fobbed off holds the next fact back once in a while.
        let withholds = mood.guarded || (mood.change <= -10 && draw(self.seed, turn as u64, 2).is_multiple_of(3));
        let fact = if withholds { None } else { self.facts.next() };
        let hint_in_ten = if mood.change > 0 { 5 } else { 8 };
        let hinted = withholds || turn == 1 || draw(self.seed, turn as u64, 3) % 10 < hint_in_ten;
        // When the story is told, how things are now is what there is to hear.
        let fact = match fact {
            None if !withholds => Some(Detail { say: self.pick(&bank.more.say, turn, 4), key: String::new() }),
            fact => fact,
        };
        let mut parts = vec![reaction];
        parts.extend(fact.as_ref().map(|fact| self.spoken(&fact.say)));
        if hinted {
            let asked = parts.iter().any(|p| p.contains(['?', '？']));
            parts.push(self.hint(turn, !asked));
        }
        Line { text: self.join(&parts.iter().map(String::as_str).collect::<Vec<_>>()), fact }
    }

    fn reactions(&self, mood: Mood) -> &'static [String] {
        let all = &bank(self.language).reaction;
        if mood.guarded {
            return &all.guarded[&self.character];
        }
        let by_change = match self.character {
            CharacterType::Negative => &all.negative,
            CharacterType::Passive => &all.passive,
            CharacterType::Avoidant => &all.avoidant,
        };
        match mood.change {
            // Someone in a low band is not yet able to rejoice; someone in a good one takes a slip lightly.
            10.. if mood.band <= Band::C => &by_change.rise,
            10.. => &by_change.leap,
            1..=9 => &by_change.rise,
            0 => &by_change.flat,
            -9..=-1 => &by_change.fall,
            _ if mood.band >= Band::A => &by_change.fall,
            _ => &by_change.plunge,
        }
    }

    fn hint(&mut self, turn: usize, may_ask: bool) -> String {
        let hints = &bank(self.language).hint[&self.intention];
        let asks =
            may_ask && self.character != CharacterType::Passive && draw(self.seed, turn as u64, 5).is_multiple_of(2);
        self.pick(if asks { &hints.ask } else { &hints.say }, turn, 6)
    }

    /// One of `choices` that was not said yet, or any when all were.
    fn pick(&mut self, choices: &[String], turn: usize, slot: u64) -> String {
        let start = draw(self.seed, turn as u64, slot) as usize % choices.len();
        let rotated = || choices[start..].iter().chain(&choices[..start]);
        let chosen = rotated().find(|c| !self.said.contains(*c)).unwrap_or(&choices[start]).clone();
        self.said.insert(chosen.clone());
        chosen
    }

    /// A fact as a sentence of its own. Passive people ask nothing, not even rhetorically.
    fn spoken(&self, say: &str) -> String {
        let mut say = say.trim().to_string();
        if !say.ends_with(|c: char| c.is_ascii_punctuation() || "。！？…”".contains(c)) {
            say.push(if self.language == Language::Zh { '。' } else { '.' });
        }
        match self.character {
            CharacterType::Passive => say.replace('？', "。").replace('?', "."),
            _ => say,
        }
    }

    fn join(&self, parts: &[&str]) -> String {
        parts.join(match self.language {
            Language::Zh => "",
            Language::En => " ",
        })
    }
}
