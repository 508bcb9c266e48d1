//! The words of a language: cue phrases per strategy, formulas of injection, function words.
//!
//! The lists are data (`assets/builtin_user/lexicon.*.toml`). A cue is a small pattern: `(a|b)` stands for either,
//! `{set}` for any member of a named set, `*` for a short gap, and in English a trailing `~` for any ending.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::text::{Sentence, Text, normalise};
use crate::dialogue::{Language, Strategy};

/// What the files hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sets: BTreeMap<String, Vec<String>>,
    cues: BTreeMap<Strategy, Vec<String>>,
    injection: Vec<String>,
    acknowledgement: Vec<String>,
    function: Vec<String>,
    stop: Vec<String>,
    #[serde(default)]
    clash: BTreeMap<String, String>,
}

/// A language's lists, ready for matching.
pub(crate) struct Lexicon {
    language: Language,
    strategies: Patterns,
    injection: Patterns,
    /// Acknowledgements, longest first.
    pub(crate) acknowledgement: Vec<String>,
    /// Function characters or words.
    pub(crate) function: HashSet<String>,
    /// What is never content: function words and words any reply may hold.
    pub(crate) stop: HashSet<String>,
    /// Word pairs that fluent text of this language does not hold: first word, second words.
    pub(crate) clash: HashMap<String, HashSet<String>>,
}

/// A strategy found in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    /// The strategy.
    pub(crate) strategy: Strategy,
    /// Which wording: stable within one build, used to notice worn-out phrases.
    pub(crate) cue: u32,
}

/// The lexicon of a language.
pub(crate) fn lexicon(language: Language) -> &'static Lexicon {
    static ZH: LazyLock<Lexicon> = LazyLock::new(|| {
        Lexicon::parse(
            Language::Zh,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/lexicon.zh.toml")),
        )
    });
    static EN: LazyLock<Lexicon> = LazyLock::new(|| {
        Lexicon::parse(
            Language::En,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/lexicon.en.toml")),
        )
    });
    match language {
        Language::Zh => &ZH,
        Language::En => &EN,
    }
}

impl Lexicon {
    fn parse(language: Language, text: &str) -> Lexicon {
        let file: File = toml::from_str(text).expect("the embedded lexicon is valid; a test checks it");
        let mut strategies = Patterns::default();
        for (strategy, cues) in &file.cues {
            cues.iter().for_each(|cue| strategies.add(cue, *strategy, &file.sets, language));
        }
        let mut injection = Patterns::default();
        file.injection.iter().for_each(|cue| injection.add(cue, Strategy::Boilerplate, &file.sets, language));
        let split = |lines: &[String]| -> HashSet<String> {
            lines.iter().flat_map(|l| l.split_whitespace()).map(String::from).collect()
        };
        let function = split(&file.function);
        let mut acknowledgement = file.acknowledgement;
        acknowledgement.sort_by_key(|a| std::cmp::Reverse(a.len()));
        Lexicon {
            language,
            strategies,
            injection,
            acknowledgement,
            stop: split(&file.stop).union(&function).cloned().collect(),
            function,
            clash: file.clash.into_iter().map(|(a, b)| (a, b.split_whitespace().map(String::from).collect())).collect(),
        }
    }

    /// The strategies of one sentence. Where one match lies inside a longer one, only the longer one counts
    /// ("not your fault" is no blame).
    pub(crate) fn strategies(&self, text: &Text, sentence: &Sentence) -> Vec<Match> {
        self.strategies.find(text, sentence, self.language)
    }

    /// Whether the text tries to talk the user's score up instead of talking with the user.
    pub(crate) fn has_injection(&self, text: &Text) -> bool {
        text.sentences.iter().any(|s| !self.injection.find(text, s, self.language).is_empty())
    }
}

/// Cues, indexed by how the alternatives of one of their pieces begin.
#[derive(Default)]
struct Patterns {
    cues: Vec<Pattern>,
    index: HashMap<String, Vec<(u32, u32)>>,
}

/// Pieces with gaps between them; each piece has alternatives, each alternative is a run of tokens.
struct Pattern {
    strategy: Strategy,
    pieces: Vec<Vec<Vec<String>>>,
    anchor: usize,
}

impl Patterns {
    fn add(&mut self, cue: &str, strategy: Strategy, sets: &BTreeMap<String, Vec<String>>, language: Language) {
        let mut cue = cue.to_string();
        for (name, members) in sets {
            cue = cue.replace(&format!("{{{name}}}"), &format!("({})", members.join("|")));
        }
        let pieces: Vec<Vec<String>> = split_gaps(&cue).into_iter().map(expand).collect();
        // An alternative with a gap of its own makes a pattern of its own.
        let mut variants: Vec<Vec<Vec<String>>> = vec![Vec::new()];
        for piece in pieces {
            let (gapped, plain): (Vec<String>, Vec<String>) = piece.into_iter().partition(|a| a.contains('*'));
            let mut next = Vec::new();
            for variant in &variants {
                for alternatives in std::iter::once(plain.clone()).filter(|p| !p.is_empty()) {
                    next.push([variant.as_slice(), &[alternatives]].concat());
                }
                for alternative in &gapped {
                    let own: Vec<Vec<String>> = alternative.split('*').map(|p| vec![p.to_string()]).collect();
                    next.push([variant.as_slice(), &own].concat());
                }
            }
            variants = next;
        }
        for variant in variants {
            let pieces: Vec<Vec<Vec<String>>> = variant
                .iter()
                .map(|piece| piece.iter().map(|a| tokens(a, language)).filter(|a| !a.is_empty()).collect::<Vec<_>>())
                .filter(|piece| !piece.is_empty())
                .collect();
            self.push(Pattern { strategy, anchor: anchor(&pieces), pieces }, language);
        }
    }

    fn push(&mut self, pattern: Pattern, language: Language) {
        let id = self.cues.len() as u32;
        for (at, alternative) in pattern.pieces[pattern.anchor].iter().enumerate() {
            self.index.entry(key(alternative, language)).or_default().push((id, at as u32));
        }
        self.cues.push(pattern);
    }

    fn find(&self, text: &Text, sentence: &Sentence, language: Language) -> Vec<Match> {
        let tokens: Vec<&str> = sentence.tokens.iter().map(|t| text.slice(t)).collect();
        let mut found: Vec<(u128, Match)> = Vec::new();
        let gap = if language == Language::Zh { 12 } else { 7 };
        let keys: &[usize] = if language == Language::Zh { &[1, 2] } else { &[1] };
        let mut buffer = String::new();
        for at in 0..tokens.len() {
            for size in keys.iter().filter(|size| at + **size <= tokens.len()) {
                buffer.clear();
                tokens[at..at + size].iter().for_each(|t| buffer.push_str(head(t)));
                for (id, alternative) in self.index.get(buffer.as_str()).map_or(&[][..], Vec::as_slice) {
                    let pattern = &self.cues[*id as usize];
                    if let Some((cover, wording)) = pattern.covers(&tokens, at, *alternative as usize, gap) {
                        let cue = id.wrapping_mul(0x9e37_79b1) ^ wording;
                        found.push((cover, Match { strategy: pattern.strategy, cue }));
                    }
                }
            }
        }
        let mut kept: Vec<Match> = Vec::new();
        for (cover, found_match) in &found {
            // A longer match hides the ones inside it; words that clear somebody cannot blame as well.
            let hidden = found.iter().any(|(other, by)| {
                (cover & !other == 0 && cover != other)
                    || (found_match.strategy == Strategy::Blame
                        && by.strategy == Strategy::Exonerate
                        && cover & other != 0)
            });
            if !hidden && !kept.iter().any(|k| k.strategy == found_match.strategy) {
                kept.push(*found_match);
            }
        }
        kept.sort_by_key(|m| m.strategy);
        kept
    }
}

impl Pattern {
    /// Which tokens the pattern covers when its anchor's `alternative` starts at `at` (a bit set of the first 128),
    /// and a number for the wording chosen.
    fn covers(&self, tokens: &[&str], at: usize, alternative: usize, gap: usize) -> Option<(u128, u32)> {
        let first = &self.pieces[self.anchor][alternative];
        if !starts(tokens, at, first) {
            return None;
        }
        let mut wording = alternative as u32;
        let mut cover = 0u128;
        let mut mark = |from: usize, len: usize, choice: usize| {
            (from..(from + len).min(128)).for_each(|i| cover |= 1 << i);
            wording = wording.wrapping_mul(31).wrapping_add(choice as u32 + 1);
        };
        mark(at, first.len(), 0);
        let mut begin = at;
        for piece in self.pieces[..self.anchor].iter().rev() {
            let (from, len, choice) = (begin.saturating_sub(gap + 4)..begin).rev().find_map(|i| {
                let (choice, len) = longest(tokens, i, piece, begin)?;
                Some((i, len, choice))
            })?;
            mark(from, len, choice);
            begin = from;
        }
        let mut end = at + first.len();
        for piece in &self.pieces[self.anchor + 1..] {
            let (from, len, choice) = (end..=(end + gap).min(tokens.len())).find_map(|i| {
                let (choice, len) = longest(tokens, i, piece, tokens.len())?;
                Some((i, len, choice))
            })?;
            mark(from, len, choice);
            end = from + len;
        }
        Some((cover, wording))
    }
}

/// The longest alternative that starts at `at` and ends by `limit`: its number and length.
fn longest(tokens: &[&str], at: usize, piece: &[Vec<String>], limit: usize) -> Option<(usize, usize)> {
    let fitting = piece.iter().enumerate().filter(|(_, a)| at + a.len() <= limit && starts(tokens, at, a));
    fitting.map(|(choice, a)| (choice, a.len())).max_by_key(|(_, len)| *len)
}

/// The piece to look for first: the one whose alternatives say most.
fn anchor(pieces: &[Vec<Vec<String>>]) -> usize {
    let least = |piece: &Vec<Vec<String>>| piece.iter().map(|a| a.concat().len()).min().unwrap_or(0);
    (0..pieces.len()).max_by_key(|i| (least(&pieces[*i]), std::cmp::Reverse(pieces[*i].len()))).unwrap_or(0)
}

/// Cuts a cue at the gaps outside of all parentheses.
fn split_gaps(cue: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0, 0, Vec::new());
    for (at, c) in cue.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '*' if depth == 0 => {
                out.push(&cue[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&cue[start..]);
    out.retain(|p| !p.trim().is_empty());
    out
}

fn starts(tokens: &[&str], at: usize, piece: &[String]) -> bool {
    tokens.len() >= at + piece.len()
        && piece.iter().zip(&tokens[at..]).all(|(p, t)| match p.strip_suffix('~') {
            Some(prefix) => t.starts_with(prefix),
            None => p == t,
        })
}

/// The first letters of a token, as far as the index looks.
fn head(token: &str) -> &str {
    match token.char_indices().nth(3) {
        Some((cut, _)) => &token[..cut],
        None => token,
    }
}

fn key(piece: &[String], language: Language) -> String {
    let size = if language == Language::Zh { 2 } else { 1 };
    piece.iter().take(size).map(|t| head(t.trim_end_matches('~'))).collect()
}

fn tokens(piece: &str, language: Language) -> Vec<String> {
    match language {
        Language::Zh => piece.chars().filter(|c| !c.is_whitespace()).map(String::from).collect(),
        Language::En => normalise(piece, language).split_whitespace().map(String::from).collect(),
    }
}

/// All strings a pattern of (possibly nested) alternatives stands for.
fn expand(cue: &str) -> Vec<String> {
    let Some(open) = cue.find('(') else { return vec![cue.to_string()] };
    let mut depth = 0;
    let mut cuts = vec![open + 1];
    let mut close = cue.len();
    for (at, c) in cue.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth == 0 {
                    close = at;
                    break;
                }
            }
            '|' if depth == 1 => cuts.push(at + 1),
            _ => {}
        }
    }
    cuts.push(close + 1);
    let tails = expand(&cue[(close + 1).min(cue.len())..]);
    let mut out = Vec::new();
    for pair in cuts.windows(2) {
        for middle in expand(&cue[pair[0]..pair[1] - 1]) {
            for tail in &tails {
                out.push(format!("{}{middle}{tail}", &cue[..open]));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_lists_parse_and_cues_expand() {
        assert_eq!(expand("a(b|c(d|))e"), ["abe", "acde", "ace"]);
        for language in Language::ALL {
            let lexicon = lexicon(language);
            // Every wording costs time at start-up; a piece with too many nested alternatives explodes.
            let size: usize = lexicon.strategies.index.values().map(Vec::len).sum();
            assert!((1000..30_000).contains(&size), "{language}: {size} wordings");
            for strategy in Strategy::ALL {
                assert!(
                    strategy == Strategy::Question || lexicon.strategies.cues.iter().any(|c| c.strategy == strategy),
                    "{language} has no cue for {strategy:?}"
                );
            }
        }
    }

    #[test]
    fn a_longer_match_hides_the_one_inside() {
        let text = Text::new("这不是你的错。", Language::Zh);
        let found = lexicon(Language::Zh).strategies(&text, &text.sentences[0]);
        assert_eq!(found.iter().map(|m| m.strategy).collect::<Vec<_>>(), [Strategy::Exonerate]);
    }
}
