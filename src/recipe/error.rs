use std::path::PathBuf;

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read recipe {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Not TOML.
    #[error("{origin} is not valid TOML: {problem}")]
    Syntax {
        /// File or override.
        origin: String,
        /// Parser's message.
        problem: String,
    },
    /// A section or key nobody knows.
    #[error("{origin}: unknown key `{key}`{}", suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    UnknownKey {
        /// File or override.
        origin: String,
        /// The key with its section.
        key: String,
        /// The most similar known key.
        suggestion: Option<String>,
    },
    /// A value of the wrong kind.
    #[error("{origin}: key `{key}` {problem}")]
    Mistyped {
        /// File or override.
        origin: String,
        /// The key with its section.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// Keys that contradict each other or are out of range.
    #[error("recipe: `{key}` = {value}: {problem}")]
    Impossible {
        /// The key with its section.
        key: &'static str,
        /// Its value.
        value: String,
        /// Why it cannot be, and what to do.
        problem: String,
    },
}
