//! How varied replies are, whether they stay in the user's language, and how long they are. These move when a policy
//! collapses onto a few replies, long before the emotion does.

use std::collections::{HashMap, HashSet};

use crate::dialogue::{Language, is_han};

/// The words of a text, lower case: each Chinese character is one, and each run of other letters and digits.
pub fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    for c in text.chars() {
        if is_han(c) {
            words.push(c.to_string());
            open = false;
        } else if c.is_alphanumeric() || (c == '\'' || c == '’') && open {
            if !open {
                words.push(String::new());
            }
            words.last_mut().expect("just pushed").extend(c.to_lowercase());
            open = true;
        } else {
            open = false;
        }
    }
    words
}

/// Distinct n-grams over all n-grams of all texts (Li et al. 2016, arXiv 1510.03055); `None` without any.
pub fn distinct(texts: &[Vec<String>], n: usize) -> Option<f64> {
    let grams = || texts.iter().flat_map(|words| words.windows(n.max(1)));
    let total = grams().count();
    (total > 0).then(|| grams().collect::<HashSet<_>>().len() as f64 / total as f64)
}

/// Longest n-gram of BLEU.
const ORDER: usize = 4;

/// Most texts that [`self_bleu`] compares; of more, evenly spread ones are taken.
pub const SELF_BLEU_TEXTS: usize = 64;

/// Mean BLEU-4 of each text against all the others (Zhu et al. 2018, arXiv 1802.01886): 0 when no two share a word, 1
/// when all are the same. Precisions above the first are smoothed by adding one to both counts (Lin and Och 2004).
/// `None` with fewer than two texts.
pub fn self_bleu(texts: &[Vec<String>]) -> Option<f64> {
    let texts: Vec<&Vec<String>> = texts.iter().filter(|words| !words.is_empty()).collect();
    let kept = texts.len().min(SELF_BLEU_TEXTS);
    if kept < 2 {
        return None;
    }
    let texts: Vec<_> = (0..kept).map(|i| texts[i * texts.len() / kept]).collect();
    let counts: Vec<Vec<Counts<'_>>> = texts.iter().map(|t| (1..=ORDER).map(|n| count(t, n)).collect()).collect();
    // For every n-gram the largest count in any text and the largest in any other text than that one.
    let best: Vec<_> = (0..ORDER).map(|n| two_largest(counts.iter().map(|c| &c[n]))).collect();
    let bleu = |i: usize| {
        let mut log = 0.0;
        for n in 0..ORDER {
            let (mut matched, mut total) = (0, 0);
            for (gram, times) in &counts[i][n] {
                let (holder, most, second) = best[n][gram];
                matched += (*times).min(if holder == i { second } else { most });
                total += times;
            }
            let smooth = if n == 0 { 0.0 } else { 1.0 };
            log += ((matched as f64 + smooth) / (total as f64 + smooth).max(f64::MIN_POSITIVE)).ln() / ORDER as f64;
        }
        let length = texts[i].len();
        let others = texts.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, t)| t.len());
        let closest = others.min_by_key(|l| (l.abs_diff(length), *l)).expect("at least two texts");
        let brevity = if length < closest { (1.0 - closest as f64 / length as f64).exp() } else { 1.0 };
        brevity * log.exp()
    };
    Some((0..kept).map(bleu).sum::<f64>() / kept as f64)
}

type Counts<'a> = HashMap<&'a [String], usize>;

fn count(words: &[String], n: usize) -> Counts<'_> {
    let mut counts = HashMap::new();
    for gram in words.windows(n) {
        *counts.entry(gram).or_insert(0) += 1;
    }
    counts
}

fn two_largest<'a>(texts: impl Iterator<Item = &'a Counts<'a>>) -> HashMap<&'a [String], (usize, usize, usize)> {
    let mut best: HashMap<&[String], (usize, usize, usize)> = HashMap::new();
    for (i, counts) in texts.enumerate() {
        for (gram, times) in counts {
            let (holder, most, second) = best.entry(gram).or_insert((i, 0, 0));
            if times > most {
                (*holder, *second, *most) = (i, *most, *times);
            } else {
                *second = (*second).max(*times);
            }
        }
    }
    best
}

/// Share of a text's letters that are not in `language`, 0–1: a Chinese character weighs as much as two and a half
/// Latin letters, as it carries about as much. 0 without letters.
pub fn foreign_share(text: &str, language: Language) -> f64 {
    let (mut own, mut all) = (0.0, 0.0);
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        let han = is_han(c);
        let latin = c.is_ascii() || ('\u{c0}'..='\u{24f}').contains(&c);
        let weight = if han { 2.5 } else { 1.0 };
        all += weight;
        if match language {
            Language::Zh => han,
            Language::En => latin,
        } {
            own += weight;
        }
    }
    if all == 0.0 { 0.0 } else { 1.0 - own / all }
}

/// Variety, language and length of a set of replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Diversity {
    /// Number of replies.
    pub replies: usize,
    /// Mean length in characters (zh) or words (en).
    pub length: f64,
    /// Distinct unigrams over all unigrams.
    pub distinct_1: Option<f64>,
    /// Distinct bigrams over all bigrams.
    pub distinct_2: Option<f64>,
    /// Mean BLEU of replies against each other, of at most [`SELF_BLEU_TEXTS`].
    pub self_bleu: Option<f64>,
    /// Share of replies mostly written in another language than the user's.
    pub wrong_language: f64,
}

impl Diversity {
    /// Measures replies, each with its user's language.
    pub fn of<'a>(replies: impl IntoIterator<Item = (&'a str, Language)>) -> Diversity {
        let (mut wrong, mut texts) = (0, Vec::new());
        for (reply, language) in replies {
            wrong += usize::from(foreign_share(reply, language) > 0.5);
            texts.push(words(reply));
        }
        let n = texts.len().max(1) as f64;
        Diversity {
            replies: texts.len(),
            length: texts.iter().map(Vec::len).sum::<usize>() as f64 / n,
            distinct_1: distinct(&texts, 1),
            distinct_2: distinct(&texts, 2),
            self_bleu: self_bleu(&texts),
            wrong_language: wrong as f64 / n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<Vec<String>> {
        all.iter().map(|t| words(t)).collect()
    }

    #[test]
    fn words_are_characters_in_chinese_and_runs_of_letters_elsewhere() {
        assert_eq!(words("我don't懂 GPT-4。"), ["我", "don't", "懂", "gpt", "4"]);
    }

    #[test]
    fn distinct_counts_over_all_texts() {
        assert_eq!(distinct(&texts(&["a b a", "a b"]), 1), Some(0.4));
        assert_eq!(distinct(&texts(&["a b a", "a b"]), 2), Some(2.0 / 3.0));
        assert_eq!(distinct(&texts(&["a"]), 2), None);
    }

    #[test]
    fn self_bleu_is_one_for_the_same_and_nothing_for_strangers() {
        let same = self_bleu(&texts(&["one two three four five"; 3])).unwrap();
        assert!((same - 1.0).abs() < 1e-12, "{same}");
        assert_eq!(self_bleu(&texts(&["a b c d", "e f g h"])), Some(0.0));
        assert_eq!(self_bleu(&texts(&["alone"])), None);
        // One shared of four unigrams, one shared bigram of three … by hand: (2/4 · 2/4 · 1/3 · 1/2)^(1/4).
        let half = self_bleu(&texts(&["a b c d", "a b x y"])).unwrap();
        assert!((half - (2.0f64 / 4.0 * 2.0 / 4.0 / 3.0 / 2.0).powf(0.25)).abs() < 1e-12, "{half}");
    }

    #[test]
    fn another_language_is_seen() {
        assert_eq!(foreign_share("谢谢你", Language::Zh), 0.0);
        assert_eq!(foreign_share("谢谢你", Language::En), 1.0);
        assert_eq!(foreign_share("…!", Language::En), 0.0);
        let drift = Diversity::of([("你好", Language::En), ("hello there", Language::En)]);
        assert_eq!((drift.wrong_language, drift.length), (0.5, 2.0));
    }
}
