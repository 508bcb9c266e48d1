//! Hashed n-grams of characters: the measures that need no list of words.
//!
//! Every run of one to three characters is hashed into one of [`BUCKETS`] places; counts are damped by a logarithm and
//! scaled to length one. Used for Chinese only, the language of the recorded judgements.

use std::collections::HashMap;

/// Places that n-grams are hashed into.
pub(super) const BUCKETS: usize = 8192;

/// Longest n-gram, in characters.
const LONGEST: usize = 3;

/// Characters over which an n-gram loses two thirds of its weight in the beginning of a text.
const FADE: f32 = 25.0;

/// The n-grams of a text: places in ascending order with their weight, a damped count.
pub(super) fn grams(text: &str) -> Vec<(u32, f32)> {
    let mut counts: HashMap<u32, f32> = HashMap::with_capacity(text.len());
    let chars = characters(text);
    each(&chars, |_, place| *counts.entry(place).or_default() += 1.0);
    counts.values_mut().for_each(|n| *n = 1.0 + n.ln());
    of_length_one(counts)
}

/// The n-grams of how a text begins: the earlier, the more weight. How a reply takes the person up shows in its first words.
pub(super) fn opening(text: &str) -> Vec<(u32, f32)> {
    let mut weights: HashMap<u32, f32> = HashMap::new();
    let mut chars = characters(text);
    chars.truncate(8 * FADE as usize);
    each(&chars, |at, place| *weights.entry(place).or_default() += (-(at as f32) / FADE).exp());
    of_length_one(weights)
}

/// Lower case, one blank for any run of blanks.
fn characters(text: &str) -> Vec<char> {
    let mut chars: Vec<char> = Vec::with_capacity(text.len() / 3);
    for c in text.chars().flat_map(char::to_lowercase) {
        let c = if c.is_whitespace() { ' ' } else { c };
        if c != ' ' || chars.last() != Some(&' ') {
            chars.push(c);
        }
    }
    chars
}

/// Calls `found` with where each n-gram begins and its place.
fn each(chars: &[char], mut found: impl FnMut(usize, u32)) {
    for at in 0..chars.len() {
        // FNV-1a over code points: the same on every machine and in every version.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for c in chars[at..].iter().take(LONGEST) {
            hash = (hash ^ u64::from(u32::from(*c))).wrapping_mul(0x0000_0100_0000_01b3);
            found(at, place(hash));
        }
    }
}

/// The place of a hash. A code point reaches the upper half of the hash only after several steps, so that all bits are
/// mixed first (the finaliser of MurmurHash3).
fn place(mut hash: u64) -> u32 {
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    ((hash ^ (hash >> 33)) % BUCKETS as u64) as u32
}

fn of_length_one(weights: HashMap<u32, f32>) -> Vec<(u32, f32)> {
    let mut grams: Vec<(u32, f32)> = weights.into_iter().collect();
    grams.sort_unstable_by_key(|g| g.0);
    let norm = grams.iter().map(|g| g.1 * g.1).sum::<f32>().sqrt();
    grams.iter_mut().for_each(|g| g.1 /= norm);
    grams
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grams_have_length_one_and_ignore_the_kind_of_blank() {
        let a = grams("我 听见了\nOK");
        assert!((a.iter().map(|g| g.1 * g.1).sum::<f32>() - 1.0).abs() < 1e-5);
        assert_eq!(a, grams("我  听见了 ok"));
        assert!(a.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(grams("").is_empty() && opening("").is_empty());
    }

    #[test]
    fn single_characters_fall_on_places_of_their_own() {
        let places: std::collections::HashSet<u32> =
            (0x4e00..0x5200).filter_map(char::from_u32).map(|c| grams(&c.to_string())[0].0).collect();
        assert!(places.len() > 900, "{} places for 1024 characters", places.len());
    }

    #[test]
    fn what_comes_first_weighs_most_in_a_beginning() {
        let weight = |text: &str, of: &str| {
            let place = grams(of)[0].0;
            opening(text).iter().find(|g| g.0 == place).map_or(0.0, |g| g.1)
        };
        assert!(weight("甲乙丙丁", "甲") > weight("乙丙丁甲", "甲"));
    }
}
