//! Hashed n-grams of characters: the measures that need no list of words.
//!
//! Every run of one to three characters is hashed into one of [`BUCKETS`] places; counts are damped by a logarithm and
//! scaled to length one. Used for Chinese only, the language of the recorded judgements.

use std::collections::HashMap;

/// Places that n-grams are hashed into.
pub(super) const BUCKETS: usize = 8192;

/// Longest n-gram, in characters.
const LONGEST: usize = 3;

/// The n-grams of a text: places in ascending order with their weight.
pub(super) fn grams(text: &str) -> Vec<(u32, f32)> {
    let mut chars: Vec<char> = Vec::with_capacity(text.len() / 3);
    for c in text.chars().flat_map(char::to_lowercase) {
        let c = if c.is_whitespace() { ' ' } else { c };
        if c != ' ' || chars.last() != Some(&' ') {
            chars.push(c);
        }
    }
    let mut counts: HashMap<u32, f32> = HashMap::with_capacity(chars.len() * 2);
    for at in 0..chars.len() {
        // FNV-1a over code points: the same on every machine and in every version.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for c in chars[at..].iter().take(LONGEST) {
            hash = (hash ^ u64::from(u32::from(*c))).wrapping_mul(0x0000_0100_0000_01b3);
            *counts.entry(((hash >> 24) % BUCKETS as u64) as u32).or_default() += 1.0;
        }
    }
    let mut grams: Vec<(u32, f32)> = counts.into_iter().map(|(place, n)| (place, 1.0 + n.ln())).collect();
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
        assert!(grams("").is_empty());
    }
}
