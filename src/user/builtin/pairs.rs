//! Which neighbouring Chinese characters are common: tells sentences from shuffled characters.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::text::Text;

/// Pairs that occur in this project's own Chinese texts (profiles, phrase banks, lexicon).
static PAIRS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/pairs.zh.txt"));
    text.lines().filter(|l| !l.starts_with('#')).flat_map(str::split_whitespace).collect()
});

/// Share of neighbouring characters of `text` that are a known pair.
pub(crate) fn fluency(text: &Text) -> f32 {
    let (mut known, mut all) = (0u32, 0u32);
    for sentence in &text.sentences {
        for pair in sentence.tokens.windows(2).filter(|p| p[0].end == p[1].start) {
            let both = &text.norm()[pair[0].start..pair[1].end];
            if both.chars().all(char::is_alphanumeric) {
                all += 1;
                known += u32::from(PAIRS.contains(both));
            }
        }
    }
    if all == 0 { 0.0 } else { known as f32 / all as f32 }
}
