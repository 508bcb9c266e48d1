//! Replies that are no honest replies. A guard costs the full −10, whatever else the reply may hold.

use super::features::Features;
use super::lexicon::lexicon;
use super::pairs::{OWN, fluency};
use super::state::State;
use super::text::Text;
use crate::dialogue::Language;

/// Why a reply counts as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// No letter at all.
    Empty,
    /// Holds what no person should see: marks of a chat template or of a thought.
    Markup,
    /// Talks to the simulator instead of the person.
    Injection,
    /// Written in another language than the user's.
    WrongLanguage,
    /// Far longer than anyone says in a chat.
    OverLong,
    /// Nothing but "mm" and "I see".
    Acknowledgement,
    /// The user's own words.
    Copied,
    /// Word for word an earlier reply.
    Repeated,
    /// The same words over and over within the reply.
    SelfRepeating,
    /// Words without sentences.
    KeywordBag,
    /// Letters without words.
    Gibberish,
    /// Unlike any honest reply in several small ways: the verdict of the calibrated model's gate.
    Corrupted,
}

impl Guard {
    /// All guards, in the order they are tried.
    pub const ALL: [Guard; 12] = [
        Guard::Empty,
        Guard::Markup,
        Guard::Injection,
        Guard::WrongLanguage,
        Guard::OverLong,
        Guard::Acknowledgement,
        Guard::Copied,
        Guard::Repeated,
        Guard::SelfRepeating,
        Guard::KeywordBag,
        Guard::Gibberish,
        Guard::Corrupted,
    ];

    /// The name records use.
    pub fn name(self) -> &'static str {
        match self {
            Guard::Empty => "empty",
            Guard::Markup => "markup",
            Guard::Injection => "injection",
            Guard::WrongLanguage => "wrong-language",
            Guard::OverLong => "over-long",
            Guard::Acknowledgement => "acknowledgement-only",
            Guard::Copied => "copied",
            Guard::Repeated => "repeated",
            Guard::SelfRepeating => "self-repeating",
            Guard::KeywordBag => "keyword-bag",
            Guard::Gibberish => "gibberish",
            Guard::Corrupted => "corrupted",
        }
    }

    fn fires(self, text: &Text, features: &Features, state: &State, language: Language) -> bool {
        let zh = language == Language::Zh;
        match self {
            Guard::Empty => text.len() == 0,
            Guard::Injection => lexicon(language).has_injection(text),
            Guard::WrongLanguage => features.foreign > 0.5,
            Guard::OverLong => features.length > if zh { 600 } else { 350 },
            Guard::Acknowledgement => is_acknowledgement(text, language),
            Guard::Copied => features.length >= 6 && features.copying > if zh { 0.5 } else { 0.55 },
            Guard::Repeated => state.replies.contains(&text.fingerprint()),
            Guard::SelfRepeating => features.length >= 12 && features.distinct < 0.6,
            Guard::KeywordBag => is_keyword_bag(text, language),
            Guard::Gibberish => is_gibberish(text, language),
            // Only the calibrated model minds these.
            Guard::Markup | Guard::Corrupted => false,
        }
    }
}

/// The first guard that fires.
pub(crate) fn check(text: &Text, features: &Features, state: &State, language: Language) -> Option<Guard> {
    Guard::ALL.into_iter().find(|g| g.fires(text, features, state, language))
}

pub(crate) fn is_acknowledgement(text: &Text, language: Language) -> bool {
    let glue = if language == Language::Zh { "" } else { " " };
    let mut rest = text.words().collect::<Vec<_>>().join(glue);
    if rest.chars().count() > 60 {
        return false;
    }
    let phrases = &lexicon(language).acknowledgement;
    while !rest.is_empty() {
        let next = phrases.iter().find_map(|p| {
            let tail = rest.strip_prefix(p.as_str())?;
            (glue.is_empty() || tail.is_empty() || tail.starts_with(' ')).then(|| tail.trim_start().to_string())
        });
        match next {
            Some(tail) => rest = tail,
            None => return false,
        }
    }
    true
}

/// Share of function characters or words.
pub(crate) fn function_share(text: &Text, language: Language) -> f32 {
    let function = &lexicon(language).function;
    text.words().filter(|w| function.contains(*w)).count() as f32 / text.len().max(1) as f32
}

pub(crate) fn is_keyword_bag(text: &Text, language: Language) -> bool {
    let zh = language == Language::Zh;
    let (piece, least) = if zh { (4, 0.12) } else { (2, 0.2) };
    let short = text.pieces.iter().filter(|p| **p <= piece).count();
    let scattered = text.pieces.len() >= 5 && short as f32 >= 0.8 * text.pieces.len() as f32;
    scattered || (text.len() >= 10 && function_share(text, language) < least && !is_gibberish(text, language))
}

pub(crate) fn is_gibberish(text: &Text, language: Language) -> bool {
    let size = text.len();
    match language {
        Language::Zh => size >= 6 && fluency(text, &OWN) < if size < 12 { 0.12 } else { 0.2 },
        Language::En => {
            let clash = &lexicon(language).clash;
            let words: Vec<&str> = text.words().collect();
            let odd = words.windows(2).filter(|w| clash.get(w[0]).is_some_and(|s| s.contains(w[1]))).count();
            let known = function_share(text, language);
            (odd >= 2 && odd as f32 >= 0.06 * size as f32)
                || (size >= 4 && known < 0.12)
                || words.iter().any(|w| w.len() > 24)
                || words.iter().filter(|w| w.len() > 3 && !w.contains(['a', 'e', 'i', 'o', 'u', 'y'])).count()
                    > size / 5
        }
    }
}
