//! What can go wrong with a tokenizer: every message names the input, what was found and what to do about it.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Errors of [`super::Tokenizer`], [`super::ChatFormat`] and [`super::train_bpe`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A file every tokenizer folder needs is not there.
    #[error(
        "{} is missing: a tokenizer folder holds tokenizer.json and tokenizer_config.json; \
         copy both from the checkpoint the weights came from", path.display()
    )]
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },

    /// A file is there and cannot be read.
    #[error("cannot read {}: {source}; check that it is a file you may read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A file or folder could not be written.
    #[error("cannot write {}: {source}; check the free space and that you may write there", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A file does not parse as what its name promises.
    #[error("{file} is damaged: expected {expected}, found {found}; copy the file again from its checkpoint")]
    Corrupt {
        /// The file, or the name it would have on disk.
        file: String,
        /// What the file should hold.
        expected: &'static str,
        /// The parser's complaint.
        found: String,
    },

    /// The tokenizer is well formed and of a kind that is not implemented.
    #[error("{file}: `{key}` is {found}, expected {expected}; use the tokenizer of a Qwen2.5-family checkpoint")]
    Unsupported {
        /// The file.
        file: String,
        /// The key in question.
        key: &'static str,
        /// Its value.
        found: String,
        /// What is implemented.
        expected: &'static str,
    },

    /// A configuration file names a token or an id that the tokenizer does not have.
    #[error(
        "{file}: `{key}` is {token}, which the tokenizer ({vocab_size} ids) does not have; \
         the files come from different models, take them all from one checkpoint"
    )]
    UnknownToken {
        /// The file.
        file: String,
        /// The key that names the token.
        key: &'static str,
        /// The token or id.
        token: String,
        /// How many ids the tokenizer has.
        vocab_size: usize,
    },

    /// A conversation cannot be rendered because the checkpoint has no chat template.
    #[error(
        "this tokenizer has no chat template: neither `chat_template` in tokenizer_config.json nor a \
         chat_template.jinja; use an instruct checkpoint or add the file"
    )]
    NoTemplate,

    /// The chat template does not compile, or refuses a conversation.
    #[error("the chat template in {file} failed: {message}; the conversation's roles were [{roles}]")]
    Template {
        /// Where the template came from.
        file: String,
        /// What the template engine, or the template's own `raise_exception`, said.
        message: String,
        /// Roles of the messages that were being rendered; empty when it does not compile.
        roles: String,
    },

    /// The chat template cannot be extended turn by turn.
    #[error(
        "the chat template in {file} cannot be extended turn by turn: {reason}; use a checkpoint whose template \
         only appends (ChatML does)"
    )]
    NotTurnwise {
        /// Where the template came from.
        file: String,
        /// The property that does not hold.
        reason: String,
    },

    /// A byte-level BPE could not be trained.
    #[error("cannot train a tokenizer: {reason}")]
    Training {
        /// What was wrong with the request.
        reason: String,
    },
}

impl TokenizerError {
    /// The error of a failed read: missing files are told apart from unreadable ones.
    pub(super) fn reading(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::NotFound => Self::Missing { path: path.to_owned() },
            _ => Self::Read { path: path.to_owned(), source },
        }
    }

    /// The error of a failed write.
    pub(super) fn writing(path: &Path, source: std::io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}
