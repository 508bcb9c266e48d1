//! How well English words follow one another: tells sentences from shuffled words.
//!
//! Function words stand for themselves, all others for their ending. How often such classes are neighbours in our own
//! English profiles, beside what chance would have of them, is the whole model.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::dialogue::{Language, ProfileSet};
use crate::user::builtin::lexicon::lexicon;
use crate::user::builtin::text::{Sentence, Text};

/// Below this, words do not follow one another: honest English lies above 0.13, nineteen in twenty shuffled replies below.
const SALAD: f32 = 0.12;

/// Words below which order tells nothing.
const FEW: usize = 8;

/// Endings that tell what a word does in its sentence.
const ENDINGS: [&str; 4] = ["ing", "ed", "ly", "s"];

/// Places of the classes: the start and end of a segment, the endings, all other words, then function words.
const EDGE: u32 = 0;
const OTHER: u32 = 1 + ENDINGS.len() as u32;

struct Neighbours {
    function: HashMap<&'static str, u32>,
    pairs: HashMap<(u32, u32), f32>,
    first: HashMap<u32, f32>,
    second: HashMap<u32, f32>,
    all: f32,
}

static NEIGHBOURS: LazyLock<Neighbours> = LazyLock::new(|| {
    let function = lexicon(Language::En).function.iter().map(String::as_str).collect::<std::collections::BTreeSet<_>>();
    let mut known = Neighbours {
        function: function.into_iter().zip(OTHER + 1..).collect(),
        pairs: HashMap::new(),
        first: HashMap::new(),
        second: HashMap::new(),
        all: 0.0,
    };
    for profile in ProfileSet::builtin_train().iter().filter(|p| p.language() == Language::En) {
        let said = profile.details.iter().map(|d| d.say.as_str());
        for text in [profile.player.as_str(), profile.scene.as_str()].into_iter().chain(said) {
            for (a, b) in known.pairs_of(&Text::new(text, Language::En)) {
                *known.pairs.entry((a, b)).or_default() += 1.0;
                *known.first.entry(a).or_default() += 1.0;
                *known.second.entry(b).or_default() += 1.0;
                known.all += 1.0;
            }
        }
    }
    known
});

impl Neighbours {
    fn class(&self, word: &str) -> u32 {
        if let Some(own) = self.function.get(word) {
            return *own;
        }
        let ending = ENDINGS.iter().position(|e| word.len() > e.len() + 2 && word.ends_with(e));
        ending.map_or(OTHER, |at| at as u32 + 1)
    }

    fn pairs_of(&self, text: &Text) -> Vec<(u32, u32)> {
        text.sentences.iter().flat_map(|sentence| self.pairs_in(text, sentence)).collect()
    }

    fn pairs_in(&self, text: &Text, sentence: &Sentence) -> Vec<(u32, u32)> {
        let mut pairs = Vec::with_capacity(sentence.tokens.len() + 1);
        let mut before = EDGE;
        for word in sentence.tokens.iter().map(|t| text.slice(t)).chain(["."]) {
            let class = if word.starts_with(char::is_alphanumeric) { self.class(word) } else { EDGE };
            if before != EDGE || class != EDGE {
                pairs.push((before, class));
            }
            before = class;
        }
        pairs
    }

    /// How much likelier neighbours are than chance, as the mean logarithm.
    fn flow(&self, pairs: &[(u32, u32)]) -> f32 {
        let count = |of: Option<&f32>| of.copied().unwrap_or(0.0) + 0.5;
        let likelier = |(a, b): &(u32, u32)| {
            let chance = count(self.first.get(a)) * count(self.second.get(b)) / self.all;
            let seen = self.pairs.get(&(*a, *b)).copied().unwrap_or(0.0);
            ((seen + 2.0 * chance / (chance + 2.0) + 0.02) / (chance + 0.02)).ln()
        };
        pairs.iter().map(likelier).sum::<f32>() / pairs.len().max(1) as f32
    }
}

/// How much likelier the words' neighbours are than chance, as the mean logarithm.
pub(super) fn flow(text: &Text) -> f32 {
    NEIGHBOURS.flow(&NEIGHBOURS.pairs_of(text))
}

/// The lowest flow of a sentence of at least [`FEW`] words; the text's own where there is none.
pub(super) fn least_flowing_sentence(text: &Text) -> f32 {
    let flows = text.sentences.iter().map(|s| NEIGHBOURS.pairs_in(text, s)).filter(|pairs| pairs.len() > FEW);
    flows.map(|pairs| NEIGHBOURS.flow(&pairs)).fold(flow(text), f32::min)
}

/// Whether an English reply is words in no order: neighbours that never meet, or sentences that start in lower case
/// although the writer knows capitals.
pub(super) fn is_word_salad(raw: &str, text: &Text) -> bool {
    text.len() >= FEW && (flow(text) < SALAD || starts_astray(raw))
}

fn starts_astray(raw: &str) -> bool {
    let words: Vec<&str> = raw.split_whitespace().collect();
    let starts = words.windows(2).filter(|w| w[0].ends_with(['.', '!', '?']) && !w[0].ends_with("..")).map(|w| w[1]);
    let lower = |w: &str| w.starts_with(char::is_lowercase);
    let (mut all, mut astray) = (0, 0);
    for start in starts {
        all += 1;
        astray += usize::from(lower(start));
    }
    let capitals = words.iter().filter(|w| w.len() > 1 && w.starts_with(char::is_uppercase)).count();
    astray >= 1 && 2 * astray >= all && capitals > all - astray + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn salad(raw: &str) -> bool {
        is_word_salad(raw, &Text::new(raw, Language::En))
    }

    #[test]
    fn shuffled_words_are_told_from_sentences() {
        assert!(!salad("You wrote the whole plan in three nights and he took it. Anybody would be furious at that."));
        assert!(!salad("yeah that sounds awful. i would be mad too. what did you say to him after the meeting?"));
        assert!(salad(
            "in took Anybody be it. and plan he would three at whole the You that. furious nights the wrote"
        ));
        assert!(salad("furious plan the wrote nights three and would at you whole he it took in anybody be that"));
    }
}
