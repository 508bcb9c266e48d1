//! Measuring a policy: dialogues with held-out people under the Sentient Benchmark's protocol (SAGE, arXiv
//! 2505.02847): one dialogue per profile, success at emotion 100, failure below 10, mean final emotion.

mod bootstrap;
mod summary;

use rlver_models::generate::Engine;

pub use bootstrap::{Interval, bootstrap_mean};
pub use summary::*;

use crate::Error;
use crate::dialogue::ProfileSet;
use crate::rollout::{self, Episode, Job, Policy, Progress, RolloutSettings};
use crate::seed::{self, Purpose};
use crate::user::UserEngine;

/// Holds `seeds` dialogues with every profile and returns their episodes. The same `seed` gives every policy the same
/// users, so that results can be compared pair by pair.
///
/// # Errors
/// When the policy cannot be run.
pub fn hold_dialogues(
    policy: &Policy,
    engine: &mut Engine,
    users: &dyn UserEngine,
    profiles: &ProfileSet,
    settings: RolloutSettings,
    (seed, seeds): (u64, usize),
    progress: impl FnMut(Progress),
) -> Result<Vec<Episode>, Error> {
    let jobs = (0..seeds as u64)
        .flat_map(|repeat| profiles.iter().enumerate().map(move |(i, profile)| (repeat, i as u64, profile)))
        .map(|(repeat, i, profile)| Job {
            dialogue: repeat * profiles.len() as u64 + i,
            group: i,
            profile: profile.clone(),
            start: None,
            user_seed: seed::mix(&[seed, Purpose::Evaluation as u64, Purpose::User as u64, repeat, i]),
            sampling_seed: seed::mix(&[seed, Purpose::Evaluation as u64, Purpose::Sampling as u64, repeat, i]),
        })
        .collect();
    rollout::run(policy, engine, users, jobs, settings, progress)
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
