//! Which neighbouring Chinese characters are common: tells sentences from shuffled characters.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::text::{Sentence, Text};

/// Known pairs of characters.
pub(crate) struct Pairs(HashSet<[char; 2]>);

/// Pairs that occur in this project's own Chinese texts (profiles, phrase banks, lexicon).
pub(crate) static OWN: LazyLock<Pairs> = LazyLock::new(|| {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/pairs.zh.txt"));
    Pairs(text.lines().filter(|l| !l.starts_with('#')).flat_map(str::split_whitespace).filter_map(two).collect())
});

/// These and those that occur with several people of the recorded dialogues: of each line, the first character with each of
/// the others.
pub(crate) static OWN_AND_RECORDED: LazyLock<Pairs> = LazyLock::new(|| {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/pairs.zh.txt"));
    let pairs = text.lines().filter(|l| !l.starts_with('#')).flat_map(|line| {
        let mut chars = line.chars();
        let first = chars.next();
        chars.filter_map(move |second| Some([first?, second]))
    });
    Pairs(OWN.0.iter().copied().chain(pairs).collect())
});

fn two(pair: &str) -> Option<[char; 2]> {
    let mut chars = pair.chars();
    Some([chars.next()?, chars.next()?])
}

/// Pairs below which a sentence's share says little.
const FEW: u32 = 6;

/// Share of neighbouring characters of `text` that are a known pair.
pub(crate) fn fluency(text: &Text, pairs: &Pairs) -> f32 {
    let counts = text.sentences.iter().map(|s| known_pairs(text, s, pairs));
    let (known, all) = counts.fold((0, 0), |sum, (known, all)| (sum.0 + known, sum.1 + all));
    if all == 0 { 0.0 } else { known as f32 / all as f32 }
}

/// The lowest share of a sentence that is long enough to tell; the text's own where none is.
pub(crate) fn least_fluent_sentence(text: &Text, pairs: &Pairs) -> f32 {
    let counts = text.sentences.iter().map(|s| known_pairs(text, s, pairs)).filter(|(_, all)| *all >= FEW);
    // A long sentence's share is surer than a short one's.
    counts.map(|(known, all)| (known as f32 + 1.0) / (all as f32 + 2.0)).fold(fluency(text, pairs), f32::min)
}

/// Known pairs of neighbouring characters in a sentence, and all pairs.
fn known_pairs(text: &Text, sentence: &Sentence, pairs: &Pairs) -> (u32, u32) {
    let all = neighbours(text, sentence);
    all.fold((0, 0), |(known, all), pair| (known + u32::from(pairs.0.contains(&pair)), all + 1))
}

/// The pairs of neighbouring letters of a sentence.
pub(crate) fn neighbours<'a>(text: &'a Text, sentence: &'a Sentence) -> impl Iterator<Item = [char; 2]> + 'a {
    let adjacent = sentence.tokens.windows(2).filter(|p| p[0].end == p[1].start);
    let pairs = adjacent.filter_map(|p| two(&text.norm()[p[0].start..p[1].end]));
    pairs.filter(|pair| pair.iter().all(|c| c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Language;

    #[test]
    fn recorded_pairs_tell_a_sentence_from_its_characters_in_another_order() {
        let share = |text: &str| {
            let text = Text::new(text, Language::Zh);
            (fluency(&text, &OWN), fluency(&text, &OWN_AND_RECORDED))
        };
        let (own, both) = share("换作是我，也会觉得自己的努力被忽视了。");
        let (_, shuffled) = share("了换视忽，我觉被得力会努自也己的作是。");
        assert!(both > own && both > 0.9 && shuffled < 0.5, "{own} {both} {shuffled}");
        assert!(OWN.0.len() > 5_000 && OWN_AND_RECORDED.0.len() > 20_000);
    }
}
