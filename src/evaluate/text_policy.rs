//! Policies that are only heard: models behind an endpoint, scripts, people. They get a row beside a checkpoint's.

use rayon::prelude::*;

use crate::dialogue::think::{self, ReplyMode};
use crate::dialogue::{ProfileSet, Role, Transcript, prompt};
use crate::rollout::{EndReason, Episode, Turn};
use crate::seed::{self, Purpose};
use crate::user::{Emotion, SessionSettings, UserEngine};

/// A policy that answers with text. [`ChatPolicy`](super::ChatPolicy) is one behind an OpenAI-compatible endpoint.
pub trait TextPolicy: Send + Sync {
    /// Name and version, as results quote it.
    fn name(&self) -> String;

    /// The reply to a dialogue that ends with the user's line, thoughts included in think mode.
    ///
    /// # Errors
    /// When there is no reply, with the cause in words; the dialogue is then unscored.
    fn reply(&self, system: &str, dialogue: &Transcript, seed: u64) -> Result<String, String>;
}

/// How text dialogues are held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextSettings {
    /// How the policy is asked to answer.
    pub mode: ReplyMode,
    /// Most replies per dialogue.
    pub max_turns: usize,
    /// The emotion a dialogue starts with.
    pub start: Emotion,
}

/// Holds `seeds` dialogues with every profile, as many at once as the current thread pool has threads, under the same users as [`super::hold_dialogues`] gives a
/// checkpoint with the same `seed`. The episodes have no token rows. `done` is called after each dialogue.
pub fn hold_text_dialogues(
    policy: &dyn TextPolicy,
    users: &dyn UserEngine,
    profiles: &ProfileSet,
    settings: TextSettings,
    (seed, seeds): (u64, usize),
    done: &(dyn Fn() + Sync),
) -> Vec<Episode> {
    let jobs: Vec<(u64, u64)> =
        (0..seeds as u64).flat_map(|repeat| (0..profiles.len() as u64).map(move |i| (repeat, i))).collect();
    jobs.into_par_iter()
        .map(|(repeat, i)| {
            let seeds = |purpose: Purpose| seed::mix(&[seed, Purpose::Evaluation as u64, purpose as u64, repeat, i]);
            let number = repeat * profiles.len() as u64 + i;
            let profile = profiles.get(i as usize);
            let mut session =
                users.open(profile.clone(), SessionSettings { start: settings.start, seed: seeds(Purpose::User) });
            let mut episode = Episode {
                dialogue: number,
                group: i,
                profile: profile.id.clone(),
                intention: profile.intention(),
                character: profile.character(),
                language: profile.language(),
                user: users.name(),
                user_seed: seeds(Purpose::User),
                sampling_seed: seeds(Purpose::Sampling),
                mode: settings.mode,
                system: prompt::system(settings.mode, profile.language()).into(),
                opening: String::new(),
                opening_calls: Vec::new(),
                turns: Vec::new(),
                start_emotion: settings.start,
                final_emotion: settings.start,
                end: EndReason::TurnLimit,
                reward: None,
                rows: Vec::new(),
            };
            episode.end = talk(policy, session.as_mut(), settings, &mut episode);
            episode.final_emotion = session.emotion();
            episode.reward = match episode.end {
                EndReason::Unscored(_) => None,
                EndReason::Malformed => Some(0.0),
                _ => Some(episode.final_emotion.reward()),
            };
            done();
            episode
        })
        .collect()
}

fn talk(
    policy: &dyn TextPolicy,
    session: &mut dyn crate::user::UserSession,
    settings: TextSettings,
    episode: &mut Episode,
) -> EndReason {
    let mut transcript = Transcript::default();
    let opening = session.opening();
    episode.opening_calls = session.take_calls();
    match opening {
        Ok(line) => {
            transcript.push(Role::User, line.clone());
            episode.opening = line;
        }
        Err(error) => return EndReason::Unscored(error.to_string()),
    }
    for turn in 0..settings.max_turns as u64 {
        let raw = match policy.reply(&episode.system, &transcript, seed::mix(&[episode.sampling_seed, turn])) {
            Ok(raw) => raw,
            Err(problem) => return EndReason::Unscored(format!("policy {} failed: {problem}", policy.name())),
        };
        let reply = think::parse(&raw, settings.mode);
        episode.turns.push(Turn {
            thought: reply.thought,
            reply: reply.text.clone(),
            well_formed: reply.well_formed,
            user: None,
            calls: Vec::new(),
        });
        if !reply.well_formed {
            return EndReason::Malformed;
        }
        let heard = session.respond(&reply.text);
        episode.turns.last_mut().expect("just pushed").calls = session.take_calls();
        let answer = match heard {
            Ok(answer) => answer,
            Err(error) => return EndReason::Unscored(error.to_string()),
        };
        transcript.push(Role::Assistant, reply.text);
        transcript.push(Role::User, answer.line.clone());
        let farewell = answer.farewell;
        episode.turns.last_mut().expect("just pushed").user = Some(answer);
        if farewell {
            return EndReason::Farewell;
        }
    }
    EndReason::TurnLimit
}
