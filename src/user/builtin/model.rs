//! From what a reply does to how the emotion moves.
//!
//! [`EmotionModel`] is the seam: a model calibrated on recorded dialogues replaces [`RuleModel`] without touching the
//! rest of the user. The rule model's numbers are data, documented in `assets/builtin_user/weights.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::features::Features;
use super::guard::{self, Guard};
use super::state::State;
use super::text::Text;
use crate::dialogue::{CharacterType, HiddenIntention, Language, Profile, Strategy};

/// Decides how the emotion moves.
pub trait EmotionModel: Send + Sync {
    /// The signed change of the emotion, within ±10, for an honest reply (guards are applied before).
    fn change(&self, features: &Features, profile: &Profile, state: &State) -> i8;

    /// How well the reply fits what the user secretly wants: 1 is what was wanted, negative is unwelcome.
    fn fit(&self, features: &Features, profile: &Profile, state: &State) -> f32;

    /// The guard that refuses the reply, if it is no honest one.
    fn guard(&self, features: &Features, profile: &Profile, state: &State) -> Option<Guard> {
        let language = profile.language();
        guard::check(&Text::new(&features.reply, language), features, state, language)
    }

    /// What records call it.
    fn name(&self) -> String;

    /// Changes whenever the model judges anything otherwise than before, so that records tell who judged.
    fn version(&self) -> u32 {
        1
    }
}

/// Hand-made rules: a fit table of strategies per hidden intention, and coefficients for how things are said.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleModel {
    fit: BTreeMap<HiddenIntention, BTreeMap<Strategy, f32>>,
    coefficient: Coefficients,
    character: BTreeMap<CharacterType, f32>,
    threshold: Thresholds,
    length: BTreeMap<Language, Lengths>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Coefficients {
    base: f32,
    specificity: f32,
    unspecific_fit: f32,
    second_fit: f32,
    unwelcome: f32,
    clutter: f32,
    nothing_said: f32,
    beside_the_point: f32,
    repetition: f32,
    repetition_free: f32,
    copying: f32,
    copying_free: f32,
    foreign: f32,
    formatted: f32,
    too_short: f32,
    too_long: f32,
    question_over_two: f32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thresholds {
    plus_ten: f32,
    plus_five: f32,
    zero: f32,
    minus_five: f32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lengths {
    content_free: f32,
    short: f32,
    long: f32,
    far_too_long: f32,
}

/// How the recognised strategies add up for an intention.
struct Fit {
    best: f32,
    second: f32,
    worst: f32,
    welcome: usize,
}

impl RuleModel {
    /// The shipped weights.
    pub fn shipped() -> RuleModel {
        let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/builtin_user/weights.toml"));
        toml::from_str(text).expect("the embedded weights are valid; a test checks them")
    }

    /// What a strategy is worth to somebody with this intention: 1 is what was wanted, negative is unwelcome.
    pub(crate) fn worth(&self, intention: HiddenIntention, strategy: Strategy) -> f32 {
        self.fit[&intention].get(&strategy).copied().unwrap_or(0.0)
    }

    fn fit_of(&self, features: &Features, intention: HiddenIntention, fresh: bool) -> Fit {
        let table = &self.fit[&intention];
        let mut fit = Fit { best: 0.0, second: 0.0, worst: 0.0, welcome: 0 };
        for (strategy, freshness) in &features.strategies {
            let value = table.get(strategy).copied().unwrap_or(0.0);
            let value = if value > 0.0 && fresh { value * freshness } else { value };
            if value > fit.best {
                fit.second = fit.best;
                fit.best = value;
            } else {
                fit.second = fit.second.max(value);
            }
            fit.worst = fit.worst.min(value);
            fit.welcome += usize::from(value >= 0.0);
        }
        fit
    }

    /// The raw score behind [`EmotionModel::change`]; positive is good.
    pub fn score(&self, features: &Features, profile: &Profile) -> f32 {
        let c = &self.coefficient;
        let fit = self.fit_of(features, profile.intention(), true);
        let wanted = fit.best + c.second_fit * fit.second;
        let lengths = &self.length[&profile.language()];
        let length = features.length as f32;
        let mut score = c.base
            + self.character[&profile.character()]
            + wanted.min(1.2) * (c.unspecific_fit + (1.0 - c.unspecific_fit) * features.specificity)
            + c.unwelcome * fit.worst
            + c.specificity * features.specificity;
        if features.strategies.is_empty() {
            score += c.nothing_said;
        }
        // Doing everything at once is doing nothing for this person.
        score += c.clutter * fit.welcome.saturating_sub(4) as f32;
        let strange = (features.unheard as f32 - lengths.content_free) / lengths.content_free;
        score += c.beside_the_point * strange.clamp(0.0, 1.0);
        score += c.repetition * (features.repetition - c.repetition_free).max(0.0);
        score += c.copying * (features.copying - c.copying_free).max(0.0);
        score += c.foreign * features.foreign;
        score += c.question_over_two * features.questions.saturating_sub(2) as f32;
        if features.formatted {
            score += c.formatted;
        }
        if length < lengths.short {
            score += c.too_short * (1.0 - length / lengths.short);
        }
        if length > lengths.long {
            score += c.too_long * ((length - lengths.long) / (lengths.far_too_long - lengths.long)).min(2.0);
        }
        score
    }
}

impl EmotionModel for RuleModel {
    fn change(&self, features: &Features, profile: &Profile, _state: &State) -> i8 {
        let score = self.score(features, profile);
        match &self.threshold {
            t if score >= t.plus_ten => 10,
            t if score >= t.plus_five => 5,
            t if score >= t.zero => 0,
            t if score >= t.minus_five => -5,
            _ => -10,
        }
    }

    fn fit(&self, features: &Features, profile: &Profile, _state: &State) -> f32 {
        let fit = self.fit_of(features, profile.intention(), false);
        (fit.best + fit.worst).clamp(-1.0, 1.0)
    }

    fn name(&self) -> String {
        "rules".into()
    }
}
