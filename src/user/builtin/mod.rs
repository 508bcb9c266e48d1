//! The built-in simulated user: embedded, deterministic, no language model, Chinese and English.
//!
//! A reply goes one way: [`features`](Features) are read off it, a [`Guard`] refuses what is no honest reply, an
//! [`EmotionModel`] turns the features into a change of the emotion, the change is written down as an
//! [`Appraisal`], and the voice answers. What the user wants, likes and says is data under `assets/builtin_user/`.

pub(in crate::user) mod appraise;
mod features;
pub(in crate::user) mod guard;
pub(in crate::user) mod lexicon;
mod model;
pub(in crate::user) mod pairs;
mod scene;
mod state;
pub(in crate::user) mod text;
mod voice;

use std::sync::Arc;

use self::appraise::Verdict;
use self::text::{Text, draw};
use self::voice::{Line, Mood, Voice};
use super::judge::CalibratedModel;
use super::{Appraisal, Band, Emotion, SessionSettings, UserEngine, UserError, UserSession, UserTurn};
use crate::dialogue::Profile;

pub use features::{Features, recognise};
pub use guard::Guard;
pub use model::{EmotionModel, RuleModel};
pub use state::State;
pub(crate) use voice::hints;

/// The engine.
#[derive(Clone)]
pub struct BuiltinUser {
    model: Arc<dyn EmotionModel>,
}

impl BuiltinUser {
    /// The user with the shipped rules.
    pub fn new() -> BuiltinUser {
        BuiltinUser::with_model(Arc::new(RuleModel::shipped()))
    }

    /// The user whose emotion moves as recorded judgements of a language model say.
    pub fn calibrated() -> BuiltinUser {
        BuiltinUser::with_model(Arc::new(CalibratedModel::shipped()))
    }

    /// What moves its emotion.
    pub fn model(&self) -> Arc<dyn EmotionModel> {
        self.model.clone()
    }

    /// The user with another emotion model.
    pub fn with_model(model: Arc<dyn EmotionModel>) -> BuiltinUser {
        BuiltinUser { model }
    }
}

impl Default for BuiltinUser {
    fn default() -> BuiltinUser {
        BuiltinUser::new()
    }
}

impl UserEngine for BuiltinUser {
    fn name(&self) -> String {
        let version = self.model.version();
        match self.model.name().as_str() {
            "rules" => format!("builtin/{version}"),
            other => format!("builtin-{other}/{version}"),
        }
    }

    fn open(&self, profile: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession> {
        // Two people with the same seed still choose their words independently.
        let salt = profile.id.bytes().fold(0u64, |hash, byte| draw(hash, u64::from(byte), 7));
        Box::new(Session {
            voice: Voice::new(&profile, settings.seed ^ salt),
            state: State::new(settings.start),
            model: self.model.clone(),
            profile,
        })
    }
}

struct Session {
    profile: Arc<Profile>,
    model: Arc<dyn EmotionModel>,
    state: State,
    voice: Voice,
}

impl Session {
    fn speak(&mut self, line: Line) -> String {
        let fact = line.fact.as_ref().map(|f| (f.say.as_str(), f.key.as_str()));
        self.state.said(&line.text, fact, &self.profile);
        line.text
    }

    fn judge(&mut self, reply: &str) -> (Appraisal, Option<Guard>) {
        let language = self.profile.language();
        let text = Text::new(reply, language);
        let features = Features::of_text(reply, &text, &self.profile, &self.state);
        let guard = self.model.guard(&features, &self.profile, &self.state);
        let change = match guard {
            Some(_) => -10,
            None => self.model.change(&features, &self.profile, &self.state).clamp(-10, 10),
        };
        let fit = self.model.fit(&features, &self.profile, &self.state);
        let verdict = Verdict { features: &features, guard, fit, change };
        let appraisal = verdict.appraisal(self.profile.intention(), language);
        self.state.heard(&text, &features, language);
        (appraisal, guard)
    }
}

impl UserSession for Session {
    fn opening(&mut self) -> Result<String, UserError> {
        let profile = self.profile.clone();
        let line = self.voice.opening(profile.first_talk.as_deref());
        Ok(self.speak(line))
    }

    fn respond(&mut self, reply: &str) -> Result<UserTurn, UserError> {
        let before = self.state.emotion;
        let (appraisal, guard) = self.judge(reply);
        let after = before.after(&appraisal);
        self.state.emotion = after;
        let mood = Mood { change: appraisal.change, band: after.band(), guarded: guard.is_some() };
        let line = self.voice.answer(mood, self.state.turn);
        let farewell = matches!(after.band(), Band::S | Band::F);
        let line = self.speak(line);
        Ok(UserTurn { appraisal, before, after, line, farewell, guard: guard.map(|g| g.name().into()) })
    }

    fn emotion(&self) -> Emotion {
        self.state.emotion
    }
}
