//! Language models that answer questions: a server that speaks OpenAI's chat-completions protocol ([`HttpEngine`]), or a
//! checkpoint in this process ([`LocalEngine`]).
//!
//! An engine takes a conversation and the [`AnswerShape`] the answer should have, and returns text. Whether that text
//! is any good is for the caller to judge: engines deal with transport, callers with meaning.

mod backoff;
mod http;
mod key;
mod limit;
mod local;
mod shape;
mod usage;
mod wire;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::dialogue::Role;

pub use backoff::Backoff;
pub(crate) use http::check_address;
pub use http::{HttpEngine, HttpSettings};
pub use key::ApiKey;
pub use local::LocalEngine;
pub use shape::{AnswerShape, Field, FieldKind};
pub use usage::{Prices, Usage};
pub use wire::ResponseFormat;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into() }
    }
}

/// SHA-256 of a conversation (of its JSON, role and content of each message), in hexadecimal: what records call a prompt.
pub fn prompt_hash(messages: &[Message]) -> String {
    let json = serde_json::to_vec(messages).expect("plain data");
    Sha256::digest(&json).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How an answer is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChatSampling {
    /// Sampling temperature.
    pub temperature: f64,
    /// Nucleus; 1 keeps everything.
    pub top_p: f64,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// Seed, for engines that take one.
    pub seed: u64,
}

/// A question to an engine.
#[derive(Debug, Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The conversation, ending with a user's message.
    pub messages: &'a [Message],
    /// The JSON object the answer should be.
    pub shape: &'a AnswerShape,
    /// How it is sampled.
    pub sampling: ChatSampling,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// The text as the model wrote it.
    pub text: String,
    /// Whether it ends because of the token limit.
    pub truncated: bool,
    /// Tokens of the conversation, where the engine says so.
    pub prompt_tokens: u64,
    /// Tokens of the answer, where the engine says so.
    pub completion_tokens: u64,
}

/// Something that completes conversations, from many threads at once.
pub trait ChatEngine: Send + Sync {
    /// The model's name, for records.
    fn model(&self) -> String;

    /// Answers.
    ///
    /// # Errors
    /// When no answer can be had, retries included.
    fn complete(&self, request: &ChatRequest<'_>) -> Result<Completion, EngineError>;

    /// How many answers it can work on at once.
    fn concurrency(&self) -> usize;

    /// What was used so far.
    fn usage(&self) -> Usage;
}

/// Why an engine gives no answer. No message ever holds the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The key cannot be used.
    #[error("the key in environment variable {variable} {problem}")]
    Key {
        /// The variable's name.
        variable: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The address is none.
    #[error("llm.url = \"{url}\": {problem}")]
    Address {
        /// As given.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// The server will not answer this, now or later.
    #[error("{url} refuses with status {status}: {body}")]
    Refused {
        /// Where it was asked.
        url: String,
        /// HTTP status.
        status: u16,
        /// Beginning of what it says.
        body: String,
    },
    /// Every attempt failed.
    #[error("{url} gave no usable answer in {attempts} attempts; the last: {last}")]
    GaveUp {
        /// Where it was asked.
        url: String,
        /// Number of attempts.
        attempts: usize,
        /// What went wrong last.
        last: String,
    },
    /// A checkpoint in this process that cannot answer.
    #[error("model {model} cannot answer: {problem}")]
    Local {
        /// Its name.
        model: String,
        /// What is wrong.
        problem: String,
    },
}
