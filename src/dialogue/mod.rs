//! What a dialogue is made of: the person behind the simulated user ([`Profile`]), what was said ([`Transcript`]),
//! how the policy is asked ([`prompt`]) and how its raw text is read ([`think`]).
//!
//! Everything here is text and plain data; tokens live in `rlver_models`, emotion in [`crate::user`].

mod census;
mod intention;
mod language;
mod profile;
pub mod prompt;
mod strategy;
pub mod think;
mod transcript;

pub use census::Census;
pub use intention::{CharacterType, HiddenIntention, IntentionClass};
pub use language::Language;
pub(crate) use language::is_han;
pub use profile::{Detail, Profile, ProfileError, ProfileSet};
pub use strategy::Strategy;
pub use transcript::{Role, Transcript, Utterance};
