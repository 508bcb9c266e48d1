//! What can be read off a reply without judging it.

use std::collections::{BTreeMap, HashSet};

use super::lexicon::lexicon;
use super::state::{State, gram_size};
use super::text::Text;
use crate::dialogue::{Language, Profile, Strategy, is_han};

/// What a reply does, measured against the dialogue so far.
#[derive(Debug, Clone, Default)]
pub struct Features {
    /// The reply as it was given.
    pub reply: String,
    /// The strategies recognised, each with the freshness of its wording: 1 when new, towards 0 when worn out.
    pub strategies: BTreeMap<Strategy, f32>,
    /// 0–1: how much the reply is about what this user said.
    pub specificity: f32,
    /// Content items of a reply that takes up nothing of this user's story; 0 when it takes up something.
    pub unheard: usize,
    /// The user's own keywords that the reply takes up.
    pub keys: Vec<String>,
    /// 0–1: share of the reply's n-grams that earlier replies held already.
    pub repetition: f32,
    /// 0–1: share of the reply's n-grams taken from the user's lines.
    pub copying: f32,
    /// 0–1: distinct n-grams over all n-grams within the reply.
    pub distinct: f32,
    /// Length in characters (zh) or words (en).
    pub length: usize,
    /// Number of sentences.
    pub sentences: usize,
    /// Number of questions.
    pub questions: usize,
    /// Whether it holds a list, a heading, bold text or markup.
    pub formatted: bool,
    /// 0–1: weight of the letters that belong to the other language.
    pub foreign: f32,
    pub(crate) cues: Vec<u32>,
}

impl Features {
    /// Measures `reply`.
    pub fn of(reply: &str, profile: &Profile, state: &State) -> Features {
        Features::of_text(reply, &Text::new(reply, profile.language()), profile, state)
    }

    pub(crate) fn of_text(raw: &str, text: &Text, profile: &Profile, state: &State) -> Features {
        let language = profile.language();
        let lexicon = lexicon(language);
        let mut features = Features {
            reply: raw.to_string(),
            length: text.len(),
            sentences: text.sentences.len(),
            questions: text.sentences.iter().filter(|s| s.question).count(),
            formatted: is_formatted(raw),
            foreign: foreign(raw, language),
            ..Features::default()
        };
        for sentence in &text.sentences {
            let matches = lexicon.strategies(text, sentence);
            if matches.is_empty() && sentence.question {
                features.strategies.insert(Strategy::Question, 1.0);
            }
            for found in matches {
                let uses = state.cues.get(&found.cue).copied().unwrap_or(0);
                let fresh = 0.85f32.powi(uses.min(6) as i32);
                let best = features.strategies.entry(found.strategy).or_insert(fresh);
                *best = best.max(fresh);
                features.cues.push(found.cue);
            }
        }
        features.cues.sort_unstable();
        features.cues.dedup();
        features.measure_overlap(text, language, state);
        features.measure_specificity(text, language, state, &lexicon.stop);
        features
    }

    fn measure_overlap(&mut self, text: &Text, language: Language, state: &State) {
        let grams = text.grams(gram_size(language));
        self.distinct = 1.0;
        if grams.is_empty() {
            return;
        }
        let share =
            |known: &HashSet<u64>| grams.iter().filter(|g| known.contains(g)).count() as f32 / grams.len() as f32;
        self.repetition = share(&state.reply_grams);
        self.copying = share(&state.user_grams);
        self.distinct = grams.iter().collect::<HashSet<_>>().len() as f32 / grams.len() as f32;
    }

    fn measure_specificity(&mut self, text: &Text, language: Language, state: &State, stop: &HashSet<String>) {
        let items = text.items(stop);
        let last = items.iter().filter(|i| state.last_items.contains(i)).count() as f32;
        let earlier = items.iter().filter(|i| state.earlier_items.contains(i)).count() as f32;
        self.keys = state.keys.iter().filter(|k| mentions(text, k, language)).cloned().collect();
        if last + earlier == 0.0 && self.keys.is_empty() {
            self.unheard = items.len();
        }
        let newest = state.keys.last().is_some_and(|k| self.keys.contains(k));
        // A key counts on top of its own content words; the newest one, which is what the user just spoke of, most.
        let keys = if newest { 1.0 } else { 0.0 } + 0.5 * (self.keys.len() - usize::from(newest)) as f32;
        // A long reply has more room, so it must hold more of the user's story to be as specific.
        let (roomy, step) = if language == Language::Zh { (70.0, 70.0) } else { (50.0, 50.0) };
        let needed = 2.0 + (self.length as f32 - roomy).max(0.0) / step;
        self.specificity = ((last + 0.6 * earlier.min(3.0) + keys) / needed).min(1.0);
    }
}

/// The strategies recognised in `reply`, without a dialogue around it.
pub fn recognise(reply: &str, language: Language) -> Vec<Strategy> {
    let text = Text::new(reply, language);
    let lexicon = lexicon(language);
    let mut found: Vec<Strategy> = Vec::new();
    for sentence in &text.sentences {
        let matches = lexicon.strategies(&text, sentence);
        if matches.is_empty() && sentence.question {
            found.push(Strategy::Question);
        }
        found.extend(matches.iter().map(|m| m.strategy));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn mentions(text: &Text, key: &str, language: Language) -> bool {
    match language {
        Language::Zh => text.norm().contains(key),
        Language::En => {
            let at = |i: usize| text.norm()[i..].chars().next();
            text.norm().match_indices(key).any(|(i, _)| {
                let before = text.norm()[..i].chars().next_back();
                let after = at(i + key.len());
                !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(|c| c.is_alphanumeric() && c != 's')
            })
        }
    }
}

fn is_formatted(raw: &str) -> bool {
    let listed = |line: &str| {
        let line = line.trim_start();
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        line.starts_with(['#', '•', '·', '●', '|', '▪'])
            || line.starts_with("- ")
            || line.starts_with("* ")
            || (digits > 0 && line[digits..].starts_with(['.', '、', ')', '）', '．']))
    };
    raw.contains("**") || raw.contains("```") || raw.contains("</") || raw.lines().filter(|l| listed(l)).count() >= 1
}

fn foreign(raw: &str, language: Language) -> f32 {
    // One Chinese character carries about as much as two and a half Latin letters.
    let (mut han, mut latin, mut other) = (0.0f32, 0.0f32, 0.0f32);
    for c in raw.chars().filter(|c| c.is_alphabetic()) {
        match c {
            c if is_han(c) => han += 2.5,
            c if c.is_ascii() || ('\u{c0}'..='\u{24f}').contains(&c) => latin += 1.0,
            _ => other += 1.0,
        }
    }
    let own = if language == Language::Zh { han } else { latin };
    let all = han + latin + other;
    if all == 0.0 { 0.0 } else { 1.0 - own / all }
}
