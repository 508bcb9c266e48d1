use serde::{Deserialize, Serialize};

/// The languages that prompts, built-in profiles and the built-in user speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Mandarin Chinese, simplified characters.
    Zh,
    /// English.
    En,
}

impl Language {
    /// All supported languages.
    pub const ALL: [Language; 2] = [Language::Zh, Language::En];

    /// ISO 639-1 code.
    pub fn code(self) -> &'static str {
        match self {
            Language::Zh => "zh",
            Language::En => "en",
        }
    }

    /// The language most letters of `text` are written in; `None` when it holds no letter of either.
    pub fn detect(text: &str) -> Option<Language> {
        let (han, latin) = letter_counts(text);
        if han == 0 && latin == 0 {
            None
        } else if han * 3 >= latin {
            // One Chinese character carries about as much as three Latin letters.
            Some(Language::Zh)
        } else {
            Some(Language::En)
        }
    }
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

/// Whether `c` is a CJK ideograph.
pub(crate) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Number of Han characters and of Latin letters in `text`.
pub(crate) fn letter_counts(text: &str) -> (usize, usize) {
    text.chars().fold((0, 0), |(han, latin), c| {
        if is_han(c) {
            (han + 1, latin)
        } else if c.is_ascii_alphabetic() {
            (han, latin + 1)
        } else {
            (han, latin)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_the_dominant_script() {
        assert_eq!(Language::detect("我今天很累"), Some(Language::Zh));
        assert_eq!(Language::detect("I am tired today"), Some(Language::En));
        assert_eq!(Language::detect("他说 ok 然后走了"), Some(Language::Zh));
        assert_eq!(Language::detect("1234 …"), None);
    }
}
