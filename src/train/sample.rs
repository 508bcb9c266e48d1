//! Which dialogues a step holds and which of them it learns from.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::batch::TrainRow;
use super::curriculum::{Controller, UserState};
use crate::Error;
use crate::dialogue::{HiddenIntention, ProfileSet};
use crate::objective::{AdvantageEstimator, BatchDecision, SampleBudget, group_is_informative};
use crate::recipe::Recipe;
use crate::rollout::{EndReason, Episode, Job};
use crate::seed::{self, Purpose};
use crate::user::Emotion;

/// Where greedy dialogues' numbers start, out of the others' way.
const GREEDY: u64 = 1 << 63;

/// The dialogues of a step.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// All that were sampled, in the order of their numbers.
    pub(crate) episodes: Vec<Episode>,
    /// Groups to learn from; `None` for all.
    pub(crate) kept: Option<HashSet<u64>>,
    /// The state each group's person came in, with a curriculum.
    pub(crate) states: HashMap<u64, usize>,
    /// The groups' greedy dialogues, for ReMax.
    pub(crate) greedy: Vec<Episode>,
    /// Their rewards.
    pub(crate) greedy_rewards: Option<HashMap<u64, f64>>,
    /// Rounds of sampling.
    pub(crate) rounds: usize,
    /// What is worth telling.
    pub(crate) notes: Vec<String>,
}

impl Sample {
    /// The rows to learn from.
    pub(crate) fn rows(&self, recipe: &Recipe) -> Vec<TrainRow> {
        let mut rows = TrainRow::from_episodes(&self.episodes);
        rows.retain(|row| {
            let episode = &self.episodes[row.episode];
            let masked = recipe.objective.overlong_mask && episode.end == EndReason::Truncated;
            !masked && self.kept.as_ref().is_none_or(|kept| kept.contains(&episode.group))
        });
        rows
    }

    /// How the dialogues went, as a curriculum takes it in: intention, state, whether passed.
    pub(crate) fn outcomes(&self, pass_emotion: u8) -> Vec<(HiddenIntention, usize, bool)> {
        let outcome = |episode: &Episode| {
            let state = *self.states.get(&episode.group)?;
            Some((episode.intention, state, episode.counted_emotion()? >= pass_emotion))
        };
        self.episodes.iter().filter_map(outcome).collect()
    }
}

/// Samples a step's dialogues; `hold` holds some, sampling greedily if its second argument says so.
///
/// # Errors
/// Those of `hold`.
pub(crate) fn sample(
    recipe: &Recipe,
    profiles: &ProfileSet,
    step: usize,
    curriculum: Option<&Controller>,
    mut hold: impl FnMut(Vec<Job>, bool) -> Result<Vec<Episode>, Error>,
) -> Result<Sample, Error> {
    let o = &recipe.objective;
    let budget = SampleBudget { groups: recipe.rollout.dialogues, max_rounds: rounds(recipe) };
    let mut sample = Sample::default();
    loop {
        let mut jobs = jobs(recipe, profiles, step, sample.rounds);
        if let Some(controller) = curriculum {
            sample.states.extend(set_states(&mut jobs, recipe, controller));
        }
        if o.advantage == AdvantageEstimator::Remax {
            let greedy = jobs
                .iter()
                .filter(|j| j.dialogue.is_multiple_of(recipe.rollout.n as u64))
                .map(|j| Job { dialogue: GREEDY + j.group, ..j.clone() });
            let held = hold(greedy.collect(), true)?;
            let rewards = held.iter().filter_map(|e| Some((e.group, e.reward?)));
            sample.greedy_rewards.get_or_insert_default().extend(rewards);
            sample.greedy.extend(held);
        }
        sample.episodes.extend(hold(jobs, false)?);
        sample.rounds += 1;
        if !o.dynamic_sampling {
            return Ok(sample);
        }
        let mut informative = informative_groups(&sample.episodes);
        let n = informative.len();
        match budget.decide(n, sample.rounds) {
            BatchDecision::SampleMore => continue,
            BatchDecision::Train => informative.truncate(budget.groups),
            BatchDecision::TrainShort { found } => sample.notes.push(format!(
                "step {step}: after {} rounds of sampling only {found} of {} groups have rewards that differ; training on these",
                sample.rounds, budget.groups
            )),
            BatchDecision::Skip => sample.notes.push(format!(
                "step {step}: after {} rounds of sampling no group has rewards that differ",
                sample.rounds
            )),
        }
        sample.kept = Some(informative.into_iter().collect());
        return Ok(sample);
    }
}

/// Groups whose rewards differ, in order.
fn informative_groups(episodes: &[Episode]) -> Vec<u64> {
    let mut rewards: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for episode in episodes {
        if let Some(reward) = episode.reward {
            rewards.entry(episode.group).or_default().push(reward);
        }
    }
    rewards.into_iter().filter(|(_, rewards)| group_is_informative(rewards)).map(|(group, _)| group).collect()
}

fn rounds(recipe: &Recipe) -> usize {
    if recipe.objective.dynamic_sampling { recipe.objective.max_rounds } else { 1 }
}

/// The dialogues of a round: profiles in an order shuffled per epoch, each `n` times. Every round goes through the
/// profiles in an order of its own.
fn jobs(recipe: &Recipe, profiles: &ProfileSet, step: usize, round: usize) -> Vec<Job> {
    let (seed, r) = (recipe.run.seed, &recipe.rollout);
    let mut order: (u64, Vec<usize>) = (u64::MAX, Vec::new());
    let mut jobs = Vec::with_capacity(r.dialogues * r.n);
    for i in 0..r.dialogues {
        let drawn = (step - 1) * r.dialogues + i;
        let epoch = (drawn / profiles.len()) as u64;
        if order.0 != epoch {
            let parts = [seed, Purpose::Order as u64, epoch, round as u64];
            let mut rng = ChaCha8Rng::seed_from_u64(seed::mix(if round == 0 { &parts[..3] } else { &parts }));
            order = (epoch, (0..profiles.len()).collect());
            order.1.shuffle(&mut rng);
        }
        let group = (((step - 1) * rounds(recipe) + round) * r.dialogues + i) as u64;
        for j in 0..r.n as u64 {
            let dialogue = group * r.n as u64 + j;
            jobs.push(Job {
                dialogue,
                group,
                profile: profiles.get(order.1[drawn % profiles.len()]).clone(),
                start: None,
                user_seed: seed::mix(&[seed, Purpose::User as u64, group]),
                sampling_seed: seed::mix(&[seed, Purpose::Sampling as u64, dialogue]),
            });
        }
    }
    jobs
}

/// Lets the controller decide in which state each group's person comes; the states by group.
fn set_states(jobs: &mut [Job], recipe: &Recipe, controller: &Controller) -> HashMap<u64, usize> {
    let usual = Emotion::new(i64::from(recipe.user.start_emotion)).expect("checked with the recipe");
    let mut states = HashMap::new();
    for job in jobs {
        let state = *states.entry(job.group).or_insert_with(|| {
            let seed = seed::mix(&[recipe.run.seed, Purpose::Curriculum as u64, job.group]);
            controller.draw(job.profile.intention(), &recipe.curriculum, seed)
        });
        let state = UserState::of_index(state);
        job.start = Some(state.start(usual));
        job.profile = Arc::new(state.of_person(&job.profile));
    }
    states
}
