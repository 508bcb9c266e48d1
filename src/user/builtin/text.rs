//! Reading text: sentences, tokens (Chinese characters or English words), content items and n-grams.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use crate::dialogue::Language;

/// A reply or a line, normalised and split.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    language: Language,
    norm: String,
    /// The sentences, in order.
    pub(crate) sentences: Vec<Sentence>,
    /// Content tokens without punctuation: characters (zh) or words (en).
    words: Vec<Range<usize>>,
    /// Number of letters or characters between two separators, for each non-empty piece.
    pub(crate) pieces: Vec<usize>,
}

/// One sentence of a [`Text`].
#[derive(Debug, Clone)]
pub(crate) struct Sentence {
    /// Tokens as ranges of the normalised text; punctuation inside the sentence is a token too.
    pub(crate) tokens: Vec<Range<usize>>,
    /// Whether it ends with a question mark.
    pub(crate) question: bool,
}

impl Text {
    /// Splits `raw` as the given language is split.
    pub(crate) fn new(raw: &str, language: Language) -> Text {
        let norm = normalise(raw, language);
        let mut text = Text { language, sentences: Vec::new(), words: Vec::new(), pieces: Vec::new(), norm };
        let mut tokens: Vec<Range<usize>> = Vec::new();
        let mut word: Option<usize> = None;
        let mut piece = 0;
        let norm = std::mem::take(&mut text.norm);
        let mut chars = norm.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let single = language == Language::Zh && c.is_alphanumeric();
            let inside = c.is_alphanumeric()
                || (c == '\'' && word.is_some() && chars.peek().is_some_and(|(_, n)| n.is_alphanumeric()));
            if !inside || single {
                close(&mut word, at, &mut tokens, &mut text.words, &mut piece);
            }
            if single {
                tokens.push(at..at + c.len_utf8());
                text.words.push(at..at + c.len_utf8());
                piece += 1;
            } else if inside {
                word.get_or_insert(at);
            } else {
                let next = chars.peek().map(|(_, n)| *n);
                let end = matches!(c, '。' | '！' | '？' | '!' | '?' | '；' | ';' | '\n' | '…')
                    || (c == '.' && next.is_none_or(|n| !n.is_alphanumeric()));
                let separator = end || !c.is_whitespace() || language == Language::Zh;
                if separator && piece > 0 {
                    text.pieces.push(std::mem::take(&mut piece));
                }
                if end {
                    let question = matches!(c, '？' | '?');
                    if !tokens.is_empty() {
                        text.sentences.push(Sentence { tokens: std::mem::take(&mut tokens), question });
                    } else if question && let Some(last) = text.sentences.last_mut() {
                        last.question = true;
                    }
                } else if !c.is_whitespace() {
                    tokens.push(at..at + c.len_utf8());
                }
            }
        }
        close(&mut word, norm.len(), &mut tokens, &mut text.words, &mut piece);
        if piece > 0 {
            text.pieces.push(piece);
        }
        if !tokens.is_empty() {
            text.sentences.push(Sentence { tokens, question: false });
        }
        text.norm = norm;
        text
    }

    /// The text behind a token.
    pub(crate) fn slice(&self, token: &Range<usize>) -> &str {
        &self.norm[token.clone()]
    }

    /// The normalised text.
    pub(crate) fn norm(&self) -> &str {
        &self.norm
    }

    /// Number of characters (zh) or words (en).
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The words (en) or characters (zh) without punctuation.
    pub(crate) fn words(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.words.iter().map(|r| &self.norm[r.clone()])
    }

    /// Hashes of all runs of `n` tokens, in order.
    pub(crate) fn grams(&self, n: usize) -> Vec<u64> {
        self.words.windows(n).map(|w| hash(w.iter().map(|r| &self.norm[r.clone()]))).collect()
    }

    /// One hash of everything that is not punctuation.
    pub(crate) fn fingerprint(&self) -> u64 {
        hash(self.words())
    }

    /// Hashes of what the text is about: see [`Text::topics`].
    pub(crate) fn items(&self, stop: &std::collections::HashSet<String>) -> Vec<u64> {
        let mut items: Vec<u64> = self.topics(stop).iter().map(|topic| item(topic)).collect();
        items.sort_unstable();
        items.dedup();
        items
    }

    /// What the text is about, in order: pairs of content characters (zh) or stems of content words (en).
    pub(crate) fn topics(&self, stop: &std::collections::HashSet<String>) -> Vec<Cow<'_, str>> {
        let adjacent = |a: &Range<usize>, b: &Range<usize>| a.end == b.start;
        match self.language {
            Language::Zh => self
                .words
                .windows(2)
                .filter(|w| adjacent(&w[0], &w[1]))
                .filter(|w| !w.iter().any(|r| stop.contains(self.slice(r))))
                .map(|w| &self.norm[w[0].start..w[1].end])
                .filter(|pair| !stop.contains(*pair))
                .map(Cow::Borrowed)
                .collect(),
            Language::En => self
                .words()
                .filter(|w| w.len() > 2 && !stop.contains(*w))
                .map(stem)
                .filter(|w| !stop.contains(w.as_str()))
                .map(Cow::Owned)
                .collect(),
        }
    }
}

/// The hash of one topic.
pub(crate) fn item(topic: &str) -> u64 {
    hash([topic].into_iter())
}

fn close(
    word: &mut Option<usize>,
    at: usize,
    tokens: &mut Vec<Range<usize>>,
    words: &mut Vec<Range<usize>>,
    piece: &mut usize,
) {
    if let Some(start) = word.take() {
        tokens.push(start..at);
        words.push(start..at);
        *piece += 1;
    }
}

fn hash<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.for_each(|p| p.hash(&mut hasher));
    hasher.finish()
}

/// A number that depends only on `seed`, `turn` and `slot`: the source of every free choice.
pub(crate) fn draw(seed: u64, turn: u64, slot: u64) -> u64 {
    // SplitMix64's finaliser, which spreads neighbouring counters over the whole range.
    let mut x = seed ^ turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ slot.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Lower case, ASCII quotes and full-width letters; English contractions are written out.
pub(crate) fn normalise(raw: &str, language: Language) -> String {
    let plain: String = raw
        .chars()
        .map(|c| match c {
            '\u{2019}' | '\u{2018}' => '\'',
            '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' | '\u{ff10}'..='\u{ff19}' => {
                char::from_u32(c as u32 - 0xfee0).unwrap_or(c)
            }
            '-' | '\u{2013}' | '\u{2014}' if language == Language::En => ' ',
            c => c,
        })
        .flat_map(char::to_lowercase)
        .collect();
    if language == Language::Zh || !plain.contains('\'') {
        return plain;
    }
    let mut out = String::with_capacity(plain.len() + 16);
    for word in plain.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '\'')) {
        let (word, tail) = match word.find(|c: char| !(c.is_alphanumeric() || c == '\'')) {
            Some(cut) => word.split_at(cut),
            None => (word, ""),
        };
        match word {
            "can't" => out.push_str("can not"),
            "won't" => out.push_str("will not"),
            "let's" => out.push_str("let us"),
            "it's" | "that's" | "he's" | "she's" | "there's" | "what's" | "who's" | "here's" | "how's" | "where's" => {
                out.push_str(&word[..word.len() - 2]);
                out.push_str(" is");
            }
            _ => {
                let parts = [
                    ("'s", ""),
                    ("n't", " not"),
                    ("'re", " are"),
                    ("'m", " am"),
                    ("'ve", " have"),
                    ("'ll", " will"),
                    ("'d", " would"),
                ];
                match parts.iter().find_map(|(end, full)| Some((word.strip_suffix(end)?, full))) {
                    Some((head, full)) => {
                        out.push_str(head);
                        out.push_str(full);
                    }
                    None => out.push_str(word),
                }
            }
        }
        out.push_str(tail);
    }
    out
}

/// A light English stem: enough to match "moved" with "moving" and "shifts" with "shift".
fn stem(word: &str) -> String {
    let word = word.strip_suffix("'s").unwrap_or(word);
    let mut stem = word.to_string();
    for end in ["ing", "edly", "ed", "ies", "es", "ly", "s"] {
        if let Some(head) = word.strip_suffix(end)
            && head.len() >= 3
            && !(end == "s" && head.ends_with('s'))
        {
            stem = if end == "ies" { format!("{head}y") } else { head.to_string() };
            break;
        }
    }
    let bytes = stem.as_bytes();
    if bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] {
        stem.pop();
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_sentences_and_keeps_questions() {
        let zh = Text::new("他说晚了。凭什么怪我？我 不 服", Language::Zh);
        assert_eq!(zh.sentences.iter().map(|s| s.question).collect::<Vec<_>>(), [false, true, false]);
        let en = Text::new("You're right. Why didn't he call?", Language::En);
        assert_eq!(en.words().collect::<Vec<_>>().join(" "), "you are right why did not he call");
        assert_eq!(en.sentences.len(), 2);
    }

    #[test]
    fn stems_meet() {
        for (a, b) in [("moved", "moving"), ("shifts", "shift"), ("stories", "story"), ("stopped", "stop")] {
            assert_eq!(stem(a), stem(b), "{a} {b}");
        }
    }
}
