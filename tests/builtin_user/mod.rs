//! The built-in simulated user, seen from outside.

mod calibration;
mod guards;
mod replies;
mod speech;

use std::sync::Arc;

use rlver::dialogue::{CharacterType, HiddenIntention, Language, Profile};
use rlver::user::builtin::BuiltinUser;
use rlver::user::{Emotion, SessionSettings, UserEngine, UserSession};

pub(crate) fn start(score: i64) -> Emotion {
    Emotion::new(score).unwrap()
}

pub(crate) fn profile(
    language: Language,
    intention: HiddenIntention,
    character: CharacterType,
    first_talk: Option<&str>,
) -> Profile {
    let scene =
        if language == Language::Zh { "家里和单位的一点事。" } else { "Some trouble at home and at work." };
    Profile {
        id: format!("{intention}-{character}-{language}"),
        player: "…".into(),
        scene: scene.into(),
        main_cha: character.name().into(),
        cha_group: vec![],
        task: intention.task(language).into(),
        first_talk: first_talk.map(String::from),
        language: Some(language),
        setting: None,
        details: vec![],
    }
}

pub(crate) fn session(profile: Profile, emotion: i64, seed: u64) -> Box<dyn UserSession> {
    BuiltinUser::new().open(Arc::new(profile), SessionSettings { start: start(emotion), seed })
}
