//! The calibrated model as the built-in user's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{Hearing, Judge, Person, Reading, View};
use crate::dialogue::Profile;
use crate::user::builtin::{EmotionModel, Features, Guard, State};

/// Moves the built-in user's emotion by [`Judge`]. It reads the reply and what it takes up, but not the tone of the
/// user's own lines: the built-in voice speaks as its emotion is, and a model that listened to that would hear itself.
#[derive(Debug)]
pub struct CalibratedModel {
    judge: Judge,
    /// By everything that is read of a profile: a curriculum changes the persona and leaves the id.
    people: Mutex<HashMap<[String; 3], Arc<Person>>>,
}

impl CalibratedModel {
    /// With the shipped weights.
    pub fn shipped() -> CalibratedModel {
        CalibratedModel { judge: Judge::shipped().clone(), people: Mutex::default() }
    }

    fn person(&self, profile: &Profile) -> Arc<Person> {
        let mut people = self.people.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = [&profile.id, &profile.player, &profile.scene].map(String::clone);
        Arc::clone(people.entry(key).or_insert_with(|| Arc::new(Person::of(profile))))
    }

    /// The dialogue as the judge hears it, and the reply as it reads it.
    fn heard(&self, features: &Features, profile: &Profile, state: &State) -> (Hearing, Reading) {
        let mut hearing = Hearing::new(self.person(profile));
        for (turn, line) in state.lines.iter().enumerate() {
            hearing.said(line);
            if let Some(reply) = state.heard.get(turn) {
                hearing.heard_text(reply);
            }
        }
        let reading = Reading::of(&features.reply, &hearing);
        (hearing, reading)
    }
}

impl EmotionModel for CalibratedModel {
    fn change(&self, features: &Features, profile: &Profile, state: &State) -> i8 {
        let (hearing, reading) = self.heard(features, profile, state);
        let score = self.judge.score(&features.reply, &reading, &hearing, View::Reply);
        self.judge.change(score, state.emotion, View::Reply, profile.language())
    }

    fn fit(&self, features: &Features, profile: &Profile, state: &State) -> f32 {
        let (hearing, reading) = self.heard(features, profile, state);
        self.judge.fit(&reading, &hearing)
    }

    fn guard(&self, features: &Features, profile: &Profile, state: &State) -> Option<Guard> {
        let (hearing, reading) = self.heard(features, profile, state);
        self.judge.guard_with_lists(&features.reply, &reading, &hearing)
    }

    fn name(&self) -> String {
        "calibrated".into()
    }

    fn version(&self) -> u32 {
        VERSION
    }
}

/// Raise it with every change of a verdict; a test notices changes of the fitted numbers, not those of rules. Version 1 was
/// fitted without intercepts of reply models and took any quotation for listening.
const VERSION: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that was recorded before another fit was audited as if its numbers were wrong.
    #[test]
    fn another_fit_is_another_version() {
        let files = [
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/weights.json")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/words.toml")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/common.zh.txt")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/common.en.txt")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/pairs.zh.txt")),
        ];
        let fingerprint = super::super::scorer::fnv(files.iter().flat_map(|file| file.bytes()));
        assert_eq!(
            (VERSION, fingerprint),
            (2, 0xcb6c_9a09_9e49_e37b),
            "the fitted numbers changed: raise the version, then the fingerprint here"
        );
    }
}
