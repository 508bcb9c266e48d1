//! Which supporting strategies replies use, how often, what they do to the emotion right after, and how much they
//! repeat themselves from turn to turn.
//!
//! RLVER counts five groups of eleven strategies (arXiv 2507.03112, Table 4), SAGE seven groups of 24 (arXiv
//! 2505.02847, Table 5). A [`StrategyLabeller`] names the strategies of a reply; the built-in one reads cues and is an
//! estimate; [`JudgeLabeller`] asks a language model by [`rubric`].

mod alignment;
mod builtin;
mod judge;
pub mod rubric;
mod table;
mod taxonomy;

pub use alignment::{adjacent_similarity, alignment_similarity, repetition_rate};
pub use builtin::{BuiltinLabeller, sentences};
pub use judge::JudgeLabeller;
pub use table::{StrategyTable, Usage};
pub use taxonomy::{RlverGroup, SageGroup, SageStrategy, rlver_group};

use crate::dialogue::{Language, Strategy, Transcript};

/// What one reply does, sentence by sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// RLVER's strategies and what our users know beyond them, in the order of the sentences, with repeats.
    pub strategies: Vec<Strategy>,
    /// SAGE's strategies, in the order of the sentences, with repeats.
    pub sage: Vec<SageStrategy>,
}

/// Names the strategies of replies.
pub trait StrategyLabeller: Send + Sync {
    /// What reports call it; an estimate says that it is one.
    fn name(&self) -> String;

    /// Labels `reply`; `before` is the dialogue so far, ending with what the reply answers.
    ///
    /// # Errors
    /// When no label can be had (a judge that does not answer); the reply then counts nowhere.
    fn label(&self, reply: &str, before: &Transcript, language: Language) -> Result<Labels, String>;
}
