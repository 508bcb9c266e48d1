//! The word lists behind the tone features.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::dialogue::Language;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    zh: BTreeMap<String, Vec<String>>,
    en: BTreeMap<String, Vec<String>>,
}

static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    toml::from_str(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/words.toml")))
        .expect("the embedded word lists are valid; a test checks them")
});

/// The lists of a language, by name, in one order for all languages.
pub(super) fn lists(language: Language) -> &'static BTreeMap<String, Vec<String>> {
    match language {
        Language::Zh => &LISTS.zh,
        Language::En => &LISTS.en,
    }
}

/// How often the entries of a list occur in a normalised text.
pub(super) fn count(norm: &str, entries: &[String], language: Language) -> usize {
    let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    entries
        .iter()
        .map(|entry| match language {
            Language::Zh => norm.matches(entry.as_str()).count(),
            Language::En => norm
                .match_indices(entry.as_str())
                .filter(|(at, _)| {
                    !inside(norm[..*at].chars().next_back()) && !inside(norm[at + entry.len()..].chars().next())
                })
                .count(),
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_the_same_lists_and_normalised_entries() {
        assert_eq!(LISTS.zh.keys().collect::<Vec<_>>(), LISTS.en.keys().collect::<Vec<_>>());
        for (list, entries) in LISTS.zh.iter().chain(&LISTS.en) {
            assert!(entries.len() >= 3, "{list}");
        }
        for entry in LISTS.en.values().flatten() {
            let normal = crate::user::builtin::text::normalise(entry, Language::En);
            assert_eq!(*entry, normal, "English text is normalised before it is searched");
        }
    }

    #[test]
    fn english_entries_are_whole_words() {
        let entries = ["he".to_string(), "so".to_string()];
        assert_eq!(count("then he was so sore", &entries, Language::En), 2);
        assert_eq!(count("可能也许", &lists(Language::Zh)["hedge"], Language::Zh), 2);
    }
}
