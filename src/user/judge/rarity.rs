//! How much it says that a reply takes up a topic: little where everybody speaks of it, all where hardly anybody does.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::dialogue::Language;
use crate::user::builtin::text::item;

/// Share of texts below which a topic is as rare as can be told.
pub(super) const RAREST: f64 = 0.002;

/// Weights of common topics of each language, by hash; all others weigh 1.
static COMMON: LazyLock<[HashMap<u64, f32>; 2]> = LazyLock::new(|| {
    [
        parse(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/common.zh.txt"))),
        parse(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/common.en.txt"))),
    ]
});

/// Lines of a weight in tenths and the topics that have it.
fn parse(text: &'static str) -> HashMap<u64, f32> {
    let topics = |line: &'static str| {
        let (tenths, topics) = line.split_once(' ').unwrap_or((line, ""));
        let weight = tenths.parse::<f32>().expect("the embedded lists are valid; a test checks them") / 10.0;
        topics.split(' ').map(move |topic| (item(topic), weight))
    };
    text.lines().filter(|line| !line.starts_with('#')).flat_map(topics).collect()
}

/// Weight of a topic, 0–1.
pub(super) fn rarity(language: Language, item: u64) -> f32 {
    COMMON[usize::from(language == Language::En)].get(&item).copied().unwrap_or(1.0)
}

/// The weight of a topic that this share of texts has: the logarithm of its rarity beside that of the rarest.
pub(super) fn weight(share: f64) -> f64 {
    (share.max(1e-12).ln() / RAREST.ln()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everybody_says_weighs_less_than_a_name() {
        for (language, common, rare) in [(Language::Zh, "分享", "沈悦"), (Language::En, "clear", "skylight")] {
            let (common, rare) = (rarity(language, item(common)), rarity(language, item(rare)));
            assert!(common <= 0.5 && rare == 1.0, "{language}: {common} {rare}");
        }
        assert_eq!([weight(1.0), weight(RAREST), weight(0.0)], [0.0, 1.0, 1.0]);
        assert!(COMMON.iter().all(|topics| topics.len() > 100));
    }
}
