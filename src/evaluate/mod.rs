//! Measuring a policy: dialogues with held-out people under the Sentient Benchmark's protocol (SAGE, arXiv
//! 2505.02847): one dialogue per profile, success at emotion 100, failure below 10, mean final emotion.
//!
//! Around it: paired comparison of two results ([`compare()`]), recorded dialogues scored anew ([`recorded`]), policies
//! behind an endpoint ([`TextPolicy`], [`ChatPolicy`]), what replies do ([`strategy`], [`diversity`], [`capability`]), what they should not do
//! ([`probe`]) and what a policy must not forget ([`retention`]).

mod answering;
mod behaviour;
mod bootstrap;
pub mod capability;
mod chat;
mod compare;
pub mod diversity;
pub mod probe;
pub mod recorded;
mod result;
pub mod retention;
pub mod strategy;
mod summary;
mod text_policy;

pub use answering::{AnswerSettings, NEUTRAL_SYSTEM, answer_questions};
pub use behaviour::{Behaviour, labels};
pub use bootstrap::{Interval, bootstrap_mean};
pub use chat::{ChatJudge, ChatPolicy};
pub use compare::{Comparison, Difference, compare};
pub use result::{EvalResult, ResultError, fingerprint};
pub use summary::{Outcome, Scores, Summary, SummaryError, before_after_table};
pub use text_policy::{TextPolicy, TextSettings, hold_text_dialogues};

use crate::Error;
use crate::dialogue::ProfileSet;
use crate::rollout::{self, EndReason, Episode, Job, Policy, Progress, RolloutEngine, RolloutSettings};
use crate::seed::{self, Purpose};
use crate::user::UserEngine;

/// Holds `seeds` dialogues with every profile and returns their episodes. The same `seed` gives every policy the same
/// users, so that results can be compared pair by pair.
///
/// # Errors
/// When the policy cannot be run.
pub fn hold_dialogues(
    policy: &Policy,
    engine: &mut dyn RolloutEngine,
    users: &dyn UserEngine,
    profiles: &ProfileSet,
    settings: RolloutSettings,
    (seed, seeds): (u64, usize),
    progress: impl FnMut(Progress),
) -> Result<Vec<Episode>, Error> {
    rollout::run(policy, engine, users, jobs(profiles, (seed, seeds)), settings, progress)
}

/// The dialogues of an evaluation.
pub(crate) fn jobs(profiles: &ProfileSet, (seed, seeds): (u64, usize)) -> Vec<Job> {
    (0..seeds as u64)
        .flat_map(|repeat| profiles.iter().enumerate().map(move |(i, profile)| (repeat, i as u64, profile)))
        .map(|(repeat, i, profile)| Job {
            dialogue: repeat * profiles.len() as u64 + i,
            group: i,
            profile: profile.clone(),
            start: None,
            user_seed: seed::mix(&[seed, Purpose::Evaluation as u64, Purpose::User as u64, repeat, i]),
            sampling_seed: seed::mix(&[seed, Purpose::Evaluation as u64, Purpose::Sampling as u64, repeat, i]),
        })
        .collect()
}

/// Refuses an evaluation of which more than `limit`, as a share, has no score: what is left would be a biased sample.
///
/// # Errors
/// [`Error::UnscoredEvaluation`].
pub fn refuse_too_many_unscored(episodes: &[Episode], limit: f64) -> Result<(), Error> {
    match too_many_unscored(episodes, limit) {
        Some((unscored, last)) => Err(Error::UnscoredEvaluation { unscored, total: episodes.len(), limit, last }),
        None => Ok(()),
    }
}

/// How many dialogues have no score and why the last of them has none, if they are more than `limit`, as a share.
pub(crate) fn too_many_unscored(episodes: &[Episode], limit: f64) -> Option<(usize, String)> {
    let failures = episodes.iter().filter_map(|e| match &e.end {
        EndReason::Unscored(why) => Some(why),
        _ => None,
    });
    let (unscored, last) = failures.fold((0, None), |(n, _), why| (n + 1, Some(why)));
    last.filter(|_| unscored as f64 > limit * episodes.len() as f64).map(|last| (unscored, last.clone()))
}

/// The outcomes of scored episodes.
pub fn outcomes(episodes: &[Episode]) -> Vec<Outcome> {
    episodes
        .iter()
        .filter_map(|e| {
            Some(Outcome {
                profile: e.profile.clone(),
                intention: e.intention,
                character: e.character,
                language: e.language,
                final_emotion: e.counted_emotion()?,
                turns: e.turns.len(),
                seed: e.user_seed,
            })
        })
        .collect()
}
