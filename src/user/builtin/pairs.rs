//! Which neighbouring Chinese characters are common: tells sentences from shuffled characters.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::text::{Sentence, Text};

/// Pairs that occur in this project's own Chinese texts (profiles, phrase banks, lexicon).
static PAIRS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/pairs.zh.txt"));
    text.lines().filter(|l| !l.starts_with('#')).flat_map(str::split_whitespace).collect()
});

/// Pairs below which a sentence's share says little.
const FEW: u32 = 6;

/// Share of neighbouring characters of `text` that are a known pair.
pub(crate) fn fluency(text: &Text) -> f32 {
    let counts = text.sentences.iter().map(|s| known_pairs(text, s));
    let (known, all) = counts.fold((0, 0), |sum, (known, all)| (sum.0 + known, sum.1 + all));
    if all == 0 { 0.0 } else { known as f32 / all as f32 }
}

/// The lowest share of a sentence that is long enough to tell; the text's own where none is.
pub(crate) fn least_fluent_sentence(text: &Text) -> f32 {
    let counts = text.sentences.iter().map(|s| known_pairs(text, s)).filter(|(_, all)| *all >= FEW);
    // A long sentence's share is surer than a short one's.
    counts.map(|(known, all)| (known as f32 + 1.0) / (all as f32 + 2.0)).fold(fluency(text), f32::min)
}

/// Known pairs of neighbouring characters in a sentence, and all pairs.
fn known_pairs(text: &Text, sentence: &Sentence) -> (u32, u32) {
    let (mut known, mut all) = (0, 0);
    for pair in sentence.tokens.windows(2).filter(|p| p[0].end == p[1].start) {
        let both = &text.norm()[pair[0].start..pair[1].end];
        if both.chars().all(char::is_alphanumeric) {
            all += 1;
            known += u32::from(PAIRS.contains(both));
        }
    }
    (known, all)
}
