//! Instructions a program can check: the 25 kinds of IFEval (Zhou et al. 2023, arXiv 2311.07911), by the ids and argument
//! names of its published file. The checks are ours.

use serde_json::{Map, Value};

use crate::dialogue::Language;
use crate::evaluate::diversity::{foreign_share, words};
use crate::evaluate::strategy::sentences;

/// An instruction that cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstructionError {
    /// A kind that is none of IFEval's.
    #[error("instruction {0} is none of the 25 kinds")]
    Unknown(String),
    /// A missing or impossible argument.
    #[error("instruction {id} needs {argument}, found {found}")]
    Argument {
        /// The instruction's id.
        id: String,
        /// The argument's name and kind.
        argument: String,
        /// What is there.
        found: String,
    },
}

/// How a count is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    LessThan,
    AtLeast,
}

impl Relation {
    fn holds(self, count: usize, bound: usize) -> bool {
        match self {
            Relation::LessThan => count < bound,
            Relation::AtLeast => count >= bound,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Check {
    Keywords(Vec<String>),
    KeywordFrequency(String, Relation, usize),
    ForbiddenWords(Vec<String>),
    LetterFrequency(char, Relation, usize),
    ResponseLanguage(String),
    Sentences(Relation, usize),
    Paragraphs(usize),
    Words(Relation, usize),
    ParagraphFirstWord { paragraphs: usize, nth: usize, word: String },
    Placeholders(usize),
    Postscript(String),
    Bullets(usize),
    ConstrainedResponse,
    Highlights(usize),
    Sections(String, usize),
    Json,
    Title,
    TwoResponses,
    RepeatPrompt(String),
    EndsWith(String),
    Quoted,
    CapitalWords(Relation, usize),
    Uppercase,
    Lowercase,
    NoComma,
}

/// One checkable instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    id: String,
    check: Check,
}

impl Instruction {
    /// Reads an instruction by its id and arguments as IFEval writes them.
    ///
    /// # Errors
    /// When the id is unknown or an argument is missing.
    pub fn new(id: &str, arguments: &Map<String, Value>) -> Result<Instruction, InstructionError> {
        let get = |name: &str| arguments.get(name).filter(|v| !v.is_null());
        let fail = |argument: &str| InstructionError::Argument {
            id: id.into(),
            argument: argument.into(),
            found: get(argument.split(' ').next().unwrap_or_default()).map_or("nothing".into(), Value::to_string),
        };
        let number = |name: &str| {
            let found =
                get(name).and_then(|v| v.as_u64().or_else(|| v.as_f64().filter(|f| *f >= 0.0).map(|f| f as u64)));
            found.map(|n| n as usize).ok_or_else(|| fail(&format!("{name} (a number)")))
        };
        let text = |name: &str| {
            get(name).and_then(Value::as_str).map(String::from).ok_or_else(|| fail(&format!("{name} (a text)")))
        };
        let texts = |name: &str| {
            let all: Option<Vec<String>> = get(name)
                .and_then(Value::as_array)
                .and_then(|a| a.iter().map(|v| v.as_str().map(String::from)).collect());
            all.filter(|a| !a.is_empty()).ok_or_else(|| fail(&format!("{name} (a list of texts)")))
        };
        let relation = |name: &str| match text(name)?.as_str() {
            "less than" => Ok(Relation::LessThan),
            "at least" => Ok(Relation::AtLeast),
            _ => Err(fail(&format!("{name} (\"less than\" or \"at least\")"))),
        };
        let check = match id {
            "keywords:existence" => Check::Keywords(texts("keywords")?),
            "keywords:frequency" => {
                Check::KeywordFrequency(text("keyword")?, relation("relation")?, number("frequency")?)
            }
            "keywords:forbidden_words" => Check::ForbiddenWords(texts("forbidden_words")?),
            "keywords:letter_frequency" => {
                let letter = text("letter")?.chars().next().ok_or_else(|| fail("letter (one character)"))?;
                Check::LetterFrequency(letter, relation("let_relation")?, number("let_frequency")?)
            }
            "language:response_language" => Check::ResponseLanguage(text("language")?),
            "length_constraints:number_sentences" => Check::Sentences(relation("relation")?, number("num_sentences")?),
            "length_constraints:number_paragraphs" => Check::Paragraphs(number("num_paragraphs")?),
            "length_constraints:number_words" => Check::Words(relation("relation")?, number("num_words")?),
            "length_constraints:nth_paragraph_first_word" => Check::ParagraphFirstWord {
                paragraphs: number("num_paragraphs")?,
                nth: number("nth_paragraph")?,
                word: text("first_word")?,
            },
            "detectable_content:number_placeholders" => Check::Placeholders(number("num_placeholders")?),
            "detectable_content:postscript" => Check::Postscript(text("postscript_marker")?),
            "detectable_format:number_bullet_lists" => Check::Bullets(number("num_bullets")?),
            "detectable_format:constrained_response" => Check::ConstrainedResponse,
            "detectable_format:number_highlighted_sections" => Check::Highlights(number("num_highlights")?),
            "detectable_format:multiple_sections" => Check::Sections(text("section_spliter")?, number("num_sections")?),
            "detectable_format:json_format" => Check::Json,
            "detectable_format:title" => Check::Title,
            "combination:two_responses" => Check::TwoResponses,
            "combination:repeat_prompt" => Check::RepeatPrompt(text("prompt_to_repeat")?),
            "startend:end_checker" => Check::EndsWith(text("end_phrase")?),
            "startend:quotation" => Check::Quoted,
            "change_case:capital_word_frequency" => {
                Check::CapitalWords(relation("capital_relation")?, number("capital_frequency")?)
            }
            "change_case:english_capital" => Check::Uppercase,
            "change_case:english_lowercase" => Check::Lowercase,
            "punctuation:no_comma" => Check::NoComma,
            other => return Err(InstructionError::Unknown(other.into())),
        };
        Ok(Instruction { id: id.into(), check })
    }

    /// The instruction's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether `response` follows it, strictly as written. An empty response follows nothing.
    pub fn followed(&self, response: &str) -> bool {
        if response.trim().is_empty() {
            return false;
        }
        let lower = response.to_lowercase();
        let contains = |word: &String| lower.contains(&word.to_lowercase());
        match &self.check {
            Check::Keywords(all) => all.iter().all(contains),
            Check::KeywordFrequency(word, relation, n) => {
                relation.holds(lower.matches(&word.to_lowercase()).count(), *n)
            }
            Check::ForbiddenWords(all) => !all.iter().any(|word| has_word(&lower, &word.to_lowercase())),
            Check::LetterFrequency(letter, relation, n) => {
                let wanted: String = letter.to_lowercase().collect();
                relation.holds(lower.matches(wanted.as_str()).count(), *n)
            }
            Check::ResponseLanguage(code) => speaks(response, code),
            Check::Sentences(relation, n) => relation.holds(sentences(response).count(), *n),
            Check::Paragraphs(n) => paragraphs(response, "***").len() == *n,
            Check::Words(relation, n) => relation.holds(words(response).len(), *n),
            Check::ParagraphFirstWord { paragraphs: n, nth, word } => {
                let all: Vec<&str> = response.split("\n\n").map(str::trim).filter(|p| !p.is_empty()).collect();
                let first = nth.checked_sub(1).and_then(|i| all.get(i)).and_then(|p| words(p).into_iter().next());
                all.len() == *n && first == words(word).into_iter().next()
            }
            Check::Placeholders(n) => placeholders(response) >= *n,
            Check::Postscript(marker) => {
                let marker = marker.to_lowercase();
                lower.lines().any(|line| line.trim_start().starts_with(&marker))
            }
            Check::Bullets(n) => response.lines().filter(|l| is_bullet(l)).count() == *n,
            Check::ConstrainedResponse => {
                ["My answer is yes.", "My answer is no.", "My answer is maybe."].iter().any(|a| response.contains(a))
            }
            Check::Highlights(n) => highlights(response) >= *n,
            Check::Sections(mark, n) => {
                let heading = |line: &str| {
                    let rest = line.trim_start().strip_prefix(mark.as_str()).map(str::trim_start);
                    rest.is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
                };
                response.lines().filter(|l| heading(l)).count() >= *n
            }
            Check::Json => serde_json::from_str::<Value>(unfenced(response)).is_ok(),
            Check::Title => response.lines().any(|line| {
                let inside = line.find("<<").and_then(|at| line[at + 2..].split_once(">>"));
                inside.is_some_and(|(title, _)| !title.trim_matches(['<', '>', ' ']).is_empty())
            }),
            Check::TwoResponses => {
                let parts = paragraphs(response, "******");
                parts.len() == 2 && parts[0] != parts[1]
            }
            Check::RepeatPrompt(prompt) => lower.trim_start().starts_with(prompt.trim().to_lowercase().as_str()),
            Check::EndsWith(end) => {
                lower.trim_end().trim_end_matches('"').trim_end().ends_with(end.trim().to_lowercase().as_str())
            }
            Check::Quoted => {
                let text = response.trim();
                text.chars().count() > 1 && text.starts_with('"') && text.ends_with('"')
            }
            Check::CapitalWords(relation, n) => {
                let capital =
                    |word: &&str| word.chars().any(char::is_uppercase) && !word.chars().any(char::is_lowercase);
                let count =
                    response.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).filter(capital).count();
                relation.holds(count, *n)
            }
            Check::Uppercase => !response.chars().any(char::is_lowercase) && speaks(response, "en"),
            Check::Lowercase => !response.chars().any(char::is_uppercase) && speaks(response, "en"),
            Check::NoComma => !response.contains(','),
        }
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let edge = |c: Option<char>| !c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let ascii = word.is_ascii();
    text.match_indices(word)
        .any(|(at, _)| !ascii || edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next()))
}

fn paragraphs<'a>(text: &'a str, divider: &str) -> Vec<&'a str> {
    text.split(divider).map(|p| p.trim_matches(['*', ' ', '\n', '\r', '\t'])).filter(|p| !p.is_empty()).collect()
}

/// `[name]`, not empty, within a line.
fn placeholders(text: &str) -> usize {
    text.lines()
        .map(|line| line.split('[').skip(1).filter(|part| part.find(']').is_some_and(|at| at > 0)).count())
        .sum()
}

fn is_bullet(line: &str) -> bool {
    let line = line.trim_start();
    let star = line.strip_prefix('*').is_some_and(|rest| !rest.starts_with('*'));
    (star || line.starts_with('-')) && line.len() > 1
}

/// `*text*` and `**text**`, not empty, within a line.
fn highlights(text: &str) -> usize {
    let count = |line: &str| {
        let line = line.replace("**", "*");
        // A bullet's star opens no highlight.
        let line =
            if is_bullet(&line) && line.trim_start().starts_with("* ") { line.replacen('*', "", 1) } else { line };
        let parts: Vec<&str> = line.split('*').collect();
        let inside = parts.len().saturating_sub(1) / 2;
        (0..inside).filter(|i| !parts[2 * i + 1].trim().is_empty()).count()
    };
    text.lines().map(count).sum()
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    inside.map_or(text, |t| t.trim_start_matches("json").trim_start_matches("JSON").trim())
}

/// Whether the letters are mostly of the language's script. Languages that share one are not told apart.
fn speaks(text: &str, code: &str) -> bool {
    match code {
        "zh" | "zh-cn" => foreign_share(text, Language::Zh) < 0.5,
        "en" => foreign_share(text, Language::En) < 0.5,
        _ => {
            let letters: Vec<char> = text.chars().filter(|c| c.is_alphabetic()).collect();
            let of = |ranges: &[(u32, u32)]| {
                let hits =
                    letters.iter().filter(|c| ranges.iter().any(|(a, b)| (*a..=*b).contains(&(**c as u32)))).count();
                2 * hits > letters.len()
            };
            match code {
                "ar" | "fa" | "ur" => of(&[(0x600, 0x6ff), (0x750, 0x77f)]),
                "ru" | "uk" | "bg" => of(&[(0x400, 0x4ff)]),
                "hi" | "mr" | "ne" => of(&[(0x900, 0x97f)]),
                "bn" => of(&[(0x980, 0x9ff)]),
                "pa" => of(&[(0xa00, 0xa7f)]),
                "gu" => of(&[(0xa80, 0xaff)]),
                "ta" => of(&[(0xb80, 0xbff)]),
                "te" => of(&[(0xc00, 0xc7f)]),
                "kn" => of(&[(0xc80, 0xcff)]),
                "th" => of(&[(0xe00, 0xe7f)]),
                "ko" => of(&[(0xac00, 0xd7af), (0x1100, 0x11ff)]),
                "ja" => of(&[(0x3040, 0x30ff), (0x4e00, 0x9fff)]),
                "he" => of(&[(0x590, 0x5ff)]),
                "el" => of(&[(0x370, 0x3ff)]),
                _ => of(&[(0x41, 0x24f), (0x1e00, 0x1eff)]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// For every kind a response that follows and one that does not.
    #[test]
    fn every_kind_is_told_followed_from_not() {
        let cases = [
            ("keywords:existence", json!({"keywords": ["Tea", "cup"]}), "A CUP of tea", "A cup of coffee"),
            (
                "keywords:frequency",
                json!({"keyword": "tea", "relation": "at least", "frequency": 2}),
                "tea, Tea",
                "tea",
            ),
            (
                "keywords:frequency",
                json!({"keyword": "tea", "relation": "less than", "frequency": 2}),
                "tea",
                "tea, Tea",
            ),
            ("keywords:forbidden_words", json!({"forbidden_words": ["can"]}), "a candle", "you CAN"),
            (
                "keywords:letter_frequency",
                json!({"letter": "e", "let_relation": "at least", "let_frequency": 3}),
                "eEe",
                "ee",
            ),
            ("language:response_language", json!({"language": "zh"}), "你好呀", "hello"),
            ("language:response_language", json!({"language": "ru"}), "привет", "hello"),
            (
                "length_constraints:number_sentences",
                json!({"relation": "less than", "num_sentences": 3}),
                "One. Two.",
                "One. Two. Three!",
            ),
            ("length_constraints:number_paragraphs", json!({"num_paragraphs": 2}), "one\n***\ntwo", "one\n\ntwo"),
            (
                "length_constraints:number_words",
                json!({"relation": "at least", "num_words": 3}),
                "one two three",
                "one two",
            ),
            (
                "length_constraints:nth_paragraph_first_word",
                json!({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "so"}),
                "Well.\n\nSo, yes.",
                "So.\n\nWell.",
            ),
            (
                "detectable_content:number_placeholders",
                json!({"num_placeholders": 2}),
                "[name] at [place]",
                "[name] at []",
            ),
            ("detectable_content:postscript", json!({"postscript_marker": "P.S."}), "Bye.\nP.S. eat", "Bye P.S."),
            ("detectable_format:number_bullet_lists", json!({"num_bullets": 2}), "* a\n- b", "* a\n- b\n* c"),
            ("detectable_format:constrained_response", json!({}), "My answer is no.", "No."),
            (
                "detectable_format:number_highlighted_sections",
                json!({"num_highlights": 2}),
                "*a* and **b**",
                "* a\n* b",
            ),
            (
                "detectable_format:multiple_sections",
                json!({"section_spliter": "SECTION", "num_sections": 2}),
                "SECTION 1\na\nSECTION 2\nb",
                "SECTION 1\na",
            ),
            ("detectable_format:json_format", json!({}), "```json\n{\"a\": 1}\n```", "{a: 1}"),
            ("detectable_format:title", json!({}), "<<Rain>>\nIt rains.", "Rain << >>"),
            ("combination:two_responses", json!({}), "one ****** two", "one ****** one"),
            ("combination:repeat_prompt", json!({"prompt_to_repeat": "Say hi."}), "Say hi. Hi!", "Hi!"),
            (
                "startend:end_checker",
                json!({"end_phrase": "Any questions?"}),
                "Done. any questions?",
                "Any questions? Done.",
            ),
            ("startend:quotation", json!({}), "\"all of it\"", "\"some\" of it"),
            (
                "change_case:capital_word_frequency",
                json!({"capital_relation": "at least", "capital_frequency": 2}),
                "VERY GOOD day",
                "VERY good Day",
            ),
            ("change_case:english_capital", json!({}), "ALL OF IT", "All OF IT"),
            ("change_case:english_lowercase", json!({}), "all of it", "all Of it"),
            ("punctuation:no_comma", json!({}), "no comma here", "one, two"),
        ];
        let mut kinds = std::collections::BTreeSet::new();
        for (id, arguments, yes, no) in cases {
            let instruction = Instruction::new(id, arguments.as_object().unwrap()).unwrap();
            assert!(instruction.followed(yes), "{id}: {yes:?} follows");
            assert!(!instruction.followed(no), "{id}: {no:?} does not follow");
            assert!(!instruction.followed(" \n"), "{id}: an empty response follows nothing");
            kinds.insert(id);
        }
        assert_eq!(kinds.len(), 25);
    }

    #[test]
    fn unknown_kinds_and_missing_arguments_are_named() {
        let error =
            |id, arguments: Value| Instruction::new(id, arguments.as_object().unwrap()).unwrap_err().to_string();
        assert!(error("keywords:rhyme", json!({})).contains("keywords:rhyme"));
        assert!(error("keywords:existence", json!({"keywords": []})).contains("keywords"));
        assert!(
            error("length_constraints:number_words", json!({"relation": "about", "num_words": 3})).contains("at least")
        );
        assert!(error("detectable_format:number_bullet_lists", json!({"num_bullets": null})).contains("num_bullets"));
    }
}
