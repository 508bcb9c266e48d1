//! What other parts can stand in for ours: the engine that samples, and a user that goes on later.

use std::sync::Arc;

use rlver::Error;
use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{Language, ProfileSet};
use rlver::rollout::{self, RolloutEngine, TurnSettings};
use rlver::user::builtin::BuiltinUser;
use rlver::user::{Emotion, SavedSession, SessionSettings, UserEngine};
use rlver_models::generate::{Engine, RowId, Sampled};

use crate::tiny;

/// Hands tokens over as a server would: several of a row at once, and the rows in another order.
struct Bursts(Engine);

impl RolloutEngine for Bursts {
    fn capacity(&self) -> usize {
        self.0.capacity()
    }

    fn open(&mut self) -> Option<RowId> {
        self.0.open()
    }

    fn close(&mut self, row: RowId) {
        self.0.close(row);
    }

    fn set_prompt(&mut self, row: RowId, ids: Vec<u32>) {
        self.0.set_prompt(row, ids);
    }

    fn start_turn(&mut self, row: RowId, turn: &TurnSettings<'_>) {
        RolloutEngine::start_turn(&mut self.0, row, turn);
    }

    fn step(&mut self) -> Result<Vec<Sampled>, Error> {
        let mut tokens = Vec::new();
        for _ in 0..3 {
            tokens.extend(self.0.step()?);
        }
        tokens.sort_by_key(|token| std::cmp::Reverse(token.row));
        Ok(tokens)
    }
}

#[test]
fn another_engine_may_sample_the_replies() {
    let policy = tiny::policy();
    for mode in [ReplyMode::Direct, ReplyMode::Think] {
        let settings = tiny::settings(mode, 1.0);
        let ours = tiny::roll_out(&policy, &BuiltinUser::new(), tiny::jobs(9), settings, 4);
        let mut other = Bursts(Engine::new(&policy.model, policy.vocabulary(), 4, 900));
        let theirs = rollout::run(&policy, &mut other, &BuiltinUser::new(), tiny::jobs(9), settings, |_| {}).unwrap();
        assert!(ours.iter().any(|e| e.action_tokens() > 10));
        assert_eq!(ours, theirs, "{mode:?}");
    }
}

#[test]
fn a_saved_user_goes_on_as_if_nothing_had_happened() {
    const REPLIES: [&str; 4] =
        ["I am listening. Tell me more.", "我在听，慢慢说。", "That must hurt.", "先睡一觉，再说。"];
    for language in Language::ALL {
        for (number, profile) in ProfileSet::builtin_train().iter().filter(|p| p.language() == language).enumerate() {
            let settings = SessionSettings { start: Emotion::new(60).unwrap(), seed: number as u64 };
            let user = BuiltinUser::new();
            let mut session = user.open(profile.clone(), settings);
            let mut saved = SavedSession::new(&user, profile, settings);
            saved.opening = Some(session.opening().unwrap());
            for reply in &REPLIES[..number % 4] {
                saved.turns.push(((*reply).into(), session.respond(reply).unwrap()));
            }
            let written = serde_json::to_string(&saved).unwrap();
            let mut restored = user.restore(profile.clone(), &serde_json::from_str(&written).unwrap()).unwrap();
            assert_eq!(restored.emotion(), session.emotion());
            for reply in &REPLIES[number % 4..] {
                assert_eq!(restored.respond(reply).unwrap(), session.respond(reply).unwrap(), "{}", profile.id);
            }
        }
    }
}

#[test]
fn a_saved_user_that_was_changed_is_refused() {
    let profiles = ProfileSet::builtin_train();
    let (profile, other) = (profiles.get(0).clone(), profiles.get(1).clone());
    let settings = SessionSettings { start: Emotion::new(60).unwrap(), seed: 3 };
    let user = BuiltinUser::new();
    let mut session = user.open(profile.clone(), settings);
    let mut saved = SavedSession::new(&user, &profile, settings);
    saved.opening = Some(session.opening().unwrap());
    saved.turns.push(("I hear you.".into(), session.respond("I hear you.").unwrap()));
    let refused = |user: &dyn UserEngine, profile: &Arc<_>, saved: &SavedSession| {
        user.restore(Arc::clone(profile), saved).err().expect("refused").to_string()
    };
    assert!(refused(&user, &other, &saved).contains(&profile.id));
    assert!(refused(&BuiltinUser::calibrated(), &profile, &saved).contains("builtin/1"));
    let mut kinder = saved.clone();
    kinder.turns[0].1.after = Emotion::new(100).unwrap();
    assert!(refused(&user, &profile, &kinder).contains("reply 1"));
    let mut reworded = saved.clone();
    reworded.opening = Some("Hello.".into());
    assert!(refused(&user, &profile, &reworded).contains("first line"));
    let mut unopened = saved;
    unopened.opening = None;
    assert!(refused(&user, &profile, &unopened).contains("no first line"));
}

#[test]
fn an_episode_is_a_saved_user() {
    let episodes =
        tiny::roll_out(&tiny::policy(), &BuiltinUser::new(), tiny::jobs(6), tiny::settings(ReplyMode::Direct, 1.0), 6);
    let profiles = ProfileSet::builtin_train();
    for episode in &episodes {
        let profile = profiles.iter().find(|p| p.id == episode.profile).unwrap().clone();
        let restored = BuiltinUser::new().restore(profile, &SavedSession::from(episode)).unwrap();
        assert_eq!(restored.emotion(), episode.final_emotion);
    }
}
