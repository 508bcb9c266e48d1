//! Made-up things to talk about, and exercises in saying them back.
//!
//! A small network learns to repeat what it was told only when remembering cannot do it: the built-in stories are a few
//! hundred sentences, which it knows by heart sooner than it learns to look. So the warm start begins with lists and with
//! people who tell random words, and half of the dialogues after that are about random words too.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rlver_models::tokenizer::ChatMessage;

use super::corpus::{SftRow, fitting};
use crate::Error;
use crate::dialogue::think::ReplyMode;
use crate::dialogue::{Detail, HiddenIntention, Language, Profile, is_han, prompt};
use crate::rollout::Policy;
use crate::supporter::{Quality, ReplyContext, ReplyPlan, Supporter};
use crate::user::builtin::hints;

/// Most things in a list to be said back.
const LONGEST_LIST: usize = 14;

/// Hints in a row of the exercises.
const HINTS: usize = 8;

/// Lists in a row of the exercises.
const LISTS: usize = 4;

/// Share of made-up words whose letters are made up too.
const INVENTED: f64 = 0.15;

/// The words of a corpus, for sentences without meaning.
#[derive(Debug)]
pub(super) struct WordPool {
    zh: Vec<String>,
    en: Vec<String>,
}

impl WordPool {
    /// Every Chinese character and every English word of `texts`, once.
    pub(super) fn of<'a>(texts: impl Iterator<Item = &'a str>) -> WordPool {
        let (mut zh, mut en) = (BTreeSet::new(), BTreeSet::new());
        for text in texts {
            zh.extend(text.chars().filter(|c| is_han(*c)).map(String::from));
            en.extend(text.split(|c: char| !c.is_ascii_alphabetic()).filter(|w| w.len() > 1).map(str::to_lowercase));
        }
        WordPool { zh: zh.into_iter().collect(), en: en.into_iter().collect() }
    }

    /// A word (en) or a character (zh).
    fn word(&self, language: Language, rng: &mut ChaCha8Rng) -> String {
        let pool = if language == Language::Zh { &self.zh } else { &self.en };
        let invented = rng.random_bool(INVENTED);
        match pool.choose(rng).filter(|_| !invented) {
            Some(word) => word.clone(),
            None if language == Language::Zh => {
                char::from_u32(rng.random_range(0x4e00..0x9f00)).expect("a Chinese character").to_string()
            }
            None => (0..rng.random_range(1..=3)).map(|_| syllable(rng)).collect(),
        }
    }

    /// Words in a row, without marks: a clause that means nothing.
    fn clause(&self, language: Language, rng: &mut ChaCha8Rng) -> String {
        let (lengths, joint) = if language == Language::Zh { (4..=12, "") } else { (3..=10, " ") };
        let words: Vec<String> = (0..rng.random_range(lengths)).map(|_| self.word(language, rng)).collect();
        capitalised(&words.join(joint))
    }

    /// The same person, telling random words: the beginning of a sentence is made up, the rest may stay.
    pub(super) fn exchange(&self, profile: &Profile, rng: &mut ChaCha8Rng) -> Arc<Profile> {
        let mut changed = Profile::clone(profile);
        let language = profile.language();
        let stop = if language == Language::Zh { "。" } else { "." };
        let mut told = |_: &str| format!("{}{stop}", self.clause(language, rng));
        changed.first_talk = changed.first_talk.as_deref().map(&mut told);
        changed.details = changed.details.iter().map(|d| Detail { say: told(&d.say), key: String::new() }).collect();
        Arc::new(changed)
    }

    /// A few lists of made-up things, each said back. They grow longer with `progress` (0–1).
    pub(super) fn list_row(&self, policy: &Policy, progress: f64, rng: &mut ChaCha8Rng) -> Result<SftRow, Error> {
        let language = Language::ALL[rng.random_range(0..Language::ALL.len())];
        let separator = if language == Language::Zh { "，" } else { ", " };
        let longest = 2 + (progress * (LONGEST_LIST - 2) as f64) as usize;
        let mut list = || {
            let things: Vec<String> = (0..rng.random_range(1..=longest)).map(|_| self.word(language, rng)).collect();
            things.join(separator)
        };
        let first = list();
        let mut row = SftRow::context(policy.chat.prompt_ids(&[ChatMessage::user(&first)])?);
        row.push(policy.tokenizer.encode_plain(&first), 1.0);
        row.push(vec![policy.chat.turn_end()], 1.0);
        for _ in 1..LISTS {
            let next = list();
            row.push_user(policy, &next, 0.0);
            row.push(policy.tokenizer.encode_plain(&next), 1.0);
            row.push(vec![policy.chat.turn_end()], 1.0);
        }
        Ok(row)
    }

    /// A few lines that hint at one intention each, answered by a sentence that fits it: by that alone, or as a `whole`
    /// reply with an opener, which may quote the line.
    ///
    /// Within a dialogue the wish stays the same, so that a network may look at its own earlier replies instead of the
    /// hints. Here only the newest hint tells what fits.
    pub(super) fn hint_row(&self, policy: &Policy, whole: bool, rng: &mut ChaCha8Rng) -> Result<SftRow, Error> {
        let language = Language::ALL[rng.random_range(0..Language::ALL.len())];
        let (stop, joint) = if language == Language::Zh { ("。", "") } else { (".", " ") };
        let mut exchange = || {
            let intention = *HiddenIntention::ALL.choose(rng).expect("there are eight");
            let hint = *hints(language, intention).choose(rng).expect("everyone hints");
            let told = format!("{}{stop}", self.clause(language, rng));
            let line = if whole || rng.random_bool(0.5) { format!("{told}{joint}{hint}") } else { hint.to_string() };
            let reply = if whole {
                let quality = if rng.random_bool(0.5) { Quality::Specific } else { Quality::Template };
                let context = ReplyContext {
                    language,
                    last_user_line: &line,
                    key: None,
                    told: Some(&told),
                    earlier_keys: &[],
                    turn: 0,
                };
                Supporter.reply(ReplyPlan { strategy: fitting(intention), quality }, &context, rng)
            } else {
                Supporter.sentence(fitting(intention), language, rng)
            };
            (line, reply.text)
        };
        let (line, reply) = exchange();
        let system = ChatMessage::system(prompt::system(ReplyMode::Direct, language));
        let mut row = SftRow::context(policy.chat.prompt_ids(&[system, ChatMessage::user(&line)])?);
        row.push(policy.tokenizer.encode_plain(&reply), 1.0);
        row.push(vec![policy.chat.turn_end()], 1.0);
        for _ in 1..HINTS {
            let (line, reply) = exchange();
            row.push_user(policy, &line, 0.0);
            row.push(policy.tokenizer.encode_plain(&reply), 1.0);
            row.push(vec![policy.chat.turn_end()], 1.0);
        }
        Ok(row)
    }
}

/// A generator for the part of the corpus with this seed.
pub(super) fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn syllable(rng: &mut ChaCha8Rng) -> String {
    const ONSETS: [&str; 14] = ["b", "ch", "d", "f", "gr", "h", "k", "l", "m", "n", "p", "r", "st", "w"];
    const RIMES: [&str; 12] = ["a", "e", "i", "o", "u", "an", "el", "in", "or", "ust", "ay", "ee"];
    format!("{}{}", ONSETS.choose(rng).expect("not empty"), RIMES.choose(rng).expect("not empty"))
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
