//! The sentence patterns of the supporter. `{key}` stands for the detail the person just told, `{earlier}` for one told
//! before, `{quote}` for the person's own words and `{feeling}` for what the person seems to feel.

mod en;
mod zh;

use super::plan::{Fault, ReplyPlan};
use crate::dialogue::{Language, Strategy};

/// All patterns of one language.
pub(super) struct Bank {
    /// Openers that pick up the key and fit every strategy.
    pub(super) keyed_openers: &'static [&'static str],
    /// Openers that tie the key to an earlier one.
    pub(super) paired_openers: &'static [&'static str],
    /// Openers that give the person's own words back: up to the quote, which ends them.
    pub(super) quoting_openers: &'static [&'static str],
    /// Openers in general words.
    pub(super) plain_openers: &'static [&'static str],
    /// What a person may feel, most telling first.
    pub(super) feelings: &'static [Feeling],
    /// What is felt when no word gives it away.
    pub(super) vague_feelings: &'static [&'static str],
    /// Beginnings of a thought that name the feeling and the key.
    pub(super) keyed_thoughts: &'static [&'static str],
    /// Beginnings of a thought that name only the feeling.
    pub(super) plain_thoughts: &'static [&'static str],
    /// By strategy, as [`ReplyPlan::MAIN`] orders them.
    good: [&'static Wording; ReplyPlan::MAIN.len()],
    /// By fault, as [`Fault`] orders them.
    poor: [&'static PoorWording; 7],
    /// Fewest and most characters (zh) or words (en) of a good reply.
    pub(super) shortest: usize,
    pub(super) longest: usize,
    /// Fewest characters (zh) or words (en) of a quote that says something.
    pub(super) shortest_quote: usize,
    pub(super) full_stop: &'static str,
    separator: &'static str,
    measure: fn(&str) -> usize,
}

/// The patterns of one strategy.
pub(super) struct Wording {
    /// Openers with the key that only suit this strategy.
    pub(super) openers: &'static [&'static str],
    /// Sentences that carry the strategy, some with the key.
    pub(super) bodies: &'static [&'static str],
    /// Last sentences, without slots.
    pub(super) closers: &'static [&'static str],
    /// What the supporter thinks it should do.
    pub(super) intents: &'static [&'static str],
}

/// The patterns of one way to fail.
pub(super) struct PoorWording {
    pub(super) texts: &'static [&'static str],
    pub(super) intents: &'static [&'static str],
}

/// A feeling and the words that give it away.
pub(super) struct Feeling {
    pub(super) word: &'static str,
    /// Lower-case substrings of what the person said.
    pub(super) cues: &'static [&'static str],
}

impl Bank {
    pub(super) fn of(language: Language) -> &'static Bank {
        match language {
            Language::Zh => &zh::BANK,
            Language::En => &en::BANK,
        }
    }

    /// The patterns of a strategy of [`ReplyPlan::MAIN`]; any other is spoken as comfort.
    pub(super) fn wording(&self, strategy: Strategy) -> &'static Wording {
        let place = |wanted| ReplyPlan::MAIN.iter().position(|s| *s == wanted);
        self.good[place(strategy).or(place(Strategy::Comfort)).expect("comfort is a main strategy")]
    }

    pub(super) fn poor(&self, fault: Fault) -> &'static PoorWording {
        self.poor[fault as usize]
    }

    /// Two sentences, one after the other.
    pub(super) fn join(&self, first: &str, second: &str) -> String {
        format!("{first}{}{second}", self.separator)
    }

    /// Characters in Chinese, words in English.
    pub(super) fn length(&self, text: &str) -> usize {
        (self.measure)(text)
    }
}
