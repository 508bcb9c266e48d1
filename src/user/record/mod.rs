//! What simulated users leave behind: the questions a language model was asked and what it answered, and the replay of
//! recorded users without any model.

mod replay;

use serde::{Deserialize, Serialize};

pub use crate::user::llm::engine::ChatSampling;
pub use replay::{ReplayError, ReplayUser};

/// What a question to the model behind a user was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// The first line.
    Opening,
    /// How a reply was taken.
    Appraisal,
    /// What the user says next.
    Reply,
}

impl Chain {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Chain::Opening => "a first line",
            Chain::Appraisal => "an appraisal",
            Chain::Reply => "a reply",
        }
    }
}

/// One question to the model behind a user: everything needed to see where a score came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// What it was for.
    pub chain: Chain,
    /// The model's name.
    pub model: String,
    /// How it was sampled; asks after the first use seeds derived from this one.
    pub sampling: ChatSampling,
    /// SHA-256 of the conversation it was asked with (see [`prompt_hash`](crate::user::llm::engine::prompt_hash)).
    pub prompt_sha256: String,
    /// SHA-256 of all that was asked and answered, asks after the first and rejected answers included (see
    /// [`exchange`](crate::user::llm::exchange)).
    pub exchange_sha256: String,
    /// The answer that was used, as the model wrote it; `None` when there was none.
    pub answer: Option<String>,
    /// Answers before it that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Tokens of the conversation, over all asks, where the engine says so.
    pub prompt_tokens: u64,
    /// Tokens of the answers, over all asks, where the engine says so.
    pub completion_tokens: u64,
}

/// An answer that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// As the model wrote it.
    pub answer: String,
    /// What is wrong with it.
    pub problem: String,
}
