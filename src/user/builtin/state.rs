//! What a session remembers: what was said by whom, and which wordings were already used.

use std::collections::{HashMap, HashSet};

use super::features::Features;
use super::lexicon::lexicon;
use super::text::Text;
use crate::dialogue::{Language, Profile};
use crate::user::Emotion;

/// How long an n-gram is, in characters (zh) or words (en), when texts are compared.
pub(crate) fn gram_size(language: Language) -> usize {
    match language {
        Language::Zh => 4,
        Language::En => 3,
    }
}

/// The memory of one dialogue.
#[derive(Debug, Clone)]
pub struct State {
    /// The emotion as it stands.
    pub emotion: Emotion,
    /// Replies heard so far.
    pub turn: usize,
    /// Everything said so far: the user's lines and the replies, each oldest first.
    pub(crate) lines: Vec<String>,
    pub(crate) heard: Vec<String>,
    /// Keys of the facts disclosed so far, oldest first.
    pub(crate) keys: Vec<String>,
    /// What the last disclosure is about.
    pub(crate) last_items: HashSet<u64>,
    /// What earlier disclosures are about.
    pub(crate) earlier_items: HashSet<u64>,
    /// n-grams of everything the user said.
    pub(crate) user_grams: HashSet<u64>,
    /// n-grams of every earlier reply.
    pub(crate) reply_grams: HashSet<u64>,
    /// Fingerprints of the earlier replies.
    pub(crate) replies: HashSet<u64>,
    /// How often each cue was heard.
    pub(crate) cues: HashMap<u32, u32>,
}

impl State {
    pub(crate) fn new(emotion: Emotion) -> State {
        State {
            emotion,
            turn: 0,
            lines: Vec::new(),
            heard: Vec::new(),
            keys: Vec::new(),
            last_items: HashSet::new(),
            earlier_items: HashSet::new(),
            user_grams: HashSet::new(),
            reply_grams: HashSet::new(),
            replies: HashSet::new(),
            cues: HashMap::new(),
        }
    }

    /// Remembers a line of the user; `fact` is the part of it that discloses something.
    pub(crate) fn said(&mut self, line: &str, fact: Option<(&str, &str)>, profile: &Profile) {
        let language = profile.language();
        self.lines.push(line.to_string());
        self.user_grams.extend(Text::new(line, language).grams(gram_size(language)));
        if let Some((say, key)) = fact {
            self.earlier_items.extend(self.last_items.drain());
            self.last_items.extend(Text::new(say, language).items(&lexicon(language).stop));
            if !key.is_empty() {
                self.keys.push(key.to_lowercase());
            }
        }
    }

    /// Remembers a reply.
    pub(crate) fn heard(&mut self, reply: &Text, features: &Features, language: Language) {
        self.turn += 1;
        self.heard.push(features.reply.clone());
        self.reply_grams.extend(reply.grams(gram_size(language)));
        self.replies.insert(reply.fingerprint());
        for cue in &features.cues {
            *self.cues.entry(*cue).or_default() += 1;
        }
    }
}
