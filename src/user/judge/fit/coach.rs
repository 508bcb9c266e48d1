//! Written examples beside the recorded ones: scripted replies to our own profiles, right or wrong for what the person
//! wants. Recorded replies seldom show a fluent, specific reply of the wrong kind; these teach that it is no use, in both
//! languages. They teach measures only: n-grams of scripted replies would say how our scripts are worded.

use std::sync::Arc;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::super::guard::gate_measures;
use super::super::{Hearing, Person, Reading, context};
use super::attacks::{Attack, Material};
use crate::dialogue::{HiddenIntention, Language, Profile, ProfileSet, Strategy};
use crate::supporter::{Quality, ReplyContext, ReplyPlan, Supporter};
use crate::user::builtin::RuleModel;

/// A scripted reply with how good it is.
pub(super) struct Example {
    pub(super) language: Language,
    /// The profile's id.
    pub(super) person: String,
    pub(super) intention: HiddenIntention,
    pub(super) reply: String,
    /// 0–1: how surely it should raise the emotion.
    pub(super) target: f64,
    pub(super) measures: Vec<f32>,
    pub(super) context: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) edits: Vec<(Attack, Vec<f32>)>,
}

/// Scripted dialogues with each person. One alone leaves the figures to chance by half a point.
pub(super) const ROUNDS: usize = 4;

/// Turns of a scripted dialogue.
const TURNS: usize = 4;

/// Families that scripted replies are edited by: those that stay recognisable in a reply of one or two sentences.
const EDITS: [Attack; 7] = [
    Attack::Acknowledgement,
    Attack::Gibberish,
    Attack::Shuffled,
    Attack::Copied,
    Attack::KeywordBag,
    Attack::BrokenSentence,
    Attack::BrokenSentence,
];

/// Scripted replies to everybody in `profiles`.
pub(super) fn examples(profiles: &ProfileSet) -> Vec<Example> {
    let rules = RuleModel::shipped();
    let all: Vec<&Arc<Profile>> = profiles.iter().collect();
    let seeds = (0..ROUNDS).flat_map(|round| (0..all.len()).map(move |at| (at, round)));
    let seeds: Vec<(usize, usize)> = seeds.collect();
    let examples = |(at, round): &(usize, usize)| of_profile(all[*at], &rules, (10_000 * round + at) as u64);
    seeds.par_iter().flat_map_iter(examples).collect()
}

fn of_profile(profile: &Arc<Profile>, rules: &RuleModel, seed: u64) -> Vec<Example> {
    let mut rng = ChaCha8Rng::seed_from_u64(1000 + seed);
    // Its own, so that another family of edits leaves the replies as they are.
    let mut edit_rng = ChaCha8Rng::seed_from_u64(5000 + seed);
    let language = profile.language();
    let intention = profile.intention();
    let mut hearing = Hearing::new(Arc::new(Person::of(profile)));
    let mut earlier: Vec<&str> = Vec::new();
    let mut examples = Vec::new();
    for (turn, detail) in profile.details.iter().take(TURNS).enumerate() {
        hearing.said(&detail.say);
        let key = (!detail.key.is_empty()).then_some(detail.key.as_str());
        let context =
            ReplyContext { language, last_user_line: &detail.say, key, told: None, earlier_keys: &earlier, turn };
        let worth = |s: Strategy| rules.worth(intention, s);
        let mut main = ReplyPlan::MAIN.to_vec();
        main.shuffle(&mut rng);
        let wanted = main.iter().copied().find(|s| worth(*s) >= 0.9).unwrap_or(Strategy::NameFeeling);
        let unwelcome: Vec<Strategy> = main.into_iter().filter(|s| worth(*s) <= -0.3).take(3).collect();
        let mut plans = vec![
            (wanted, Quality::Specific, 0.93),
            (wanted, Quality::Specific, 0.93),
            (wanted, Quality::Template, 0.7),
        ];
        plans.extend(
            unwelcome
                .into_iter()
                .map(|s| (s, if rng.random_bool(0.8) { Quality::Specific } else { Quality::Template }, 0.1)),
        );
        plans.push((*ReplyPlan::POOR.choose(&mut rng).unwrap_or(&Strategy::Comfort), Quality::Poor, 0.05));
        let mut last = None;
        for (strategy, quality, target) in plans {
            let reply = Supporter.reply(ReplyPlan { strategy, quality }, &context, &mut rng).text;
            let reading = Reading::of(&reply, &hearing);
            let material = Material { reply: &reply, line: &detail.say, previous: None, other: "", language, half: 0 };
            let edits = EDITS.choose(&mut edit_rng).and_then(|a| {
                Some((*a, gate_measures(&Reading::of(&a.edit(&material, &mut edit_rng)?, &hearing), &hearing)))
            });
            examples.push(Example {
                language,
                person: profile.id.to_string(),
                intention,
                target,
                context: context::measures(&hearing),
                gate: gate_measures(&reading, &hearing),
                edits: edits.into_iter().collect(),
                measures: reading.values.clone(),
                reply,
            });
            last = Some(reading);
        }
        if let Some(reading) = last {
            hearing.heard(&reading);
        }
        earlier.extend(key);
    }
    examples
}
