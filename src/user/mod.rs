//! Simulated users: people with an emotion who appraise each reply and answer it.
//!
//! A [`UserEngine`] opens a [`UserSession`] per dialogue. The rollout only knows these two traits; which user stands
//! behind them is a recipe key. Users know text, never tensors.

mod appraisal;
pub mod builtin;
mod choice;
mod each;
mod emotion;
pub mod judge;
pub mod llm;
pub mod probe;
pub mod record;
mod saved;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dialogue::Profile;

pub use appraisal::Appraisal;
pub use choice::UserChoice;
pub use emotion::{Band, Emotion};
pub use saved::SavedSession;

/// What a session needs besides its profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// The emotion the dialogue starts with (RLVER trains from 30, SAGE evaluates from 40).
    pub start: Emotion,
    /// Seed of everything the user chooses freely, such as the wording.
    pub seed: u64,
}

/// Makes simulated users of one kind.
pub trait UserEngine: Send + Sync {
    /// What records call this user, with its version, e.g. `builtin/1`.
    fn name(&self) -> String;

    /// Starts a dialogue with the person `profile` describes.
    fn open(&self, profile: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession>;

    /// Goes on with a session that was saved. The provided way is for users that say the same to the same: everything is
    /// heard again. A user that does not must take what was said and felt as it is written down.
    ///
    /// # Errors
    /// When the session was held with another user or another person, or does not go as it is written.
    fn restore(&self, profile: Arc<Profile>, saved: &SavedSession) -> Result<Box<dyn UserSession>, UserError> {
        saved::hear_again(self, profile, saved)
    }

    /// How many sessions may think at once when thinking means waiting, for a server or for another model; the rollout
    /// then goes on generating meanwhile. `None` for users that answer at once.
    fn concurrency(&self) -> Option<usize> {
        None
    }

    /// What the model behind these users has used so far, if there is one.
    fn usage(&self) -> Option<llm::engine::Usage> {
        None
    }
}

/// One person in one dialogue.
pub trait UserSession: Send {
    /// The first line. Called once, before anything else.
    ///
    /// # Errors
    /// When the user cannot speak (a dead server …); the dialogue is then unscored.
    fn opening(&mut self) -> Result<String, UserError>;

    /// Appraises a reply (without its thoughts), changes the emotion and answers.
    ///
    /// # Errors
    /// When no appraisal can be had; the dialogue is then unscored, never rewarded with 0.
    fn respond(&mut self, reply: &str) -> Result<UserTurn, UserError>;

    /// The emotion as it stands.
    fn emotion(&self) -> Emotion;

    /// The questions a model was asked since the last call of this method, for the record; none for users without a model.
    fn take_calls(&mut self) -> Vec<record::ModelCall> {
        Vec::new()
    }
}

/// What a user does after a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserTurn {
    /// How the reply was taken.
    pub appraisal: Appraisal,
    /// The emotion before the reply.
    pub before: Emotion,
    /// The emotion after it.
    pub after: Emotion,
    /// What the user says next.
    pub line: String,
    /// Whether the user ended the dialogue with this line.
    pub farewell: bool,
    /// The name of the guard that fired, when the reply was no honest reply at all (empty, gibberish, copied …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
}

/// Why a simulated user could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("simulated user {user} failed: {problem}")]
pub struct UserError {
    /// The engine's name.
    pub user: String,
    /// What went wrong.
    pub problem: String,
}
