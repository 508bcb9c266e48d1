use std::sync::Arc;

use crate::dialogue::Profile;
use crate::user::builtin::{BuiltinUser, EmotionModel, Features, RuleModel, State};

/// RLVER's challenging environment for the built-in user: a reply that is well meant but beside what the person secretly
/// wants earns nothing, and what earns anything has to meet it. (There, users accept 33 % of strategies instead of 52 %.)
struct Challenging {
    inner: Arc<dyn EmotionModel>,
}

/// Least fit with the hidden intention that still raises the emotion.
const LEAST_FIT: f32 = 0.6;

impl EmotionModel for Challenging {
    fn change(&self, features: &Features, profile: &Profile, state: &State) -> i8 {
        let change = self.inner.change(features, profile, state);
        if change > 0 && self.fit(features, profile) < LEAST_FIT { 0 } else { change }
    }

    fn fit(&self, features: &Features, profile: &Profile) -> f32 {
        self.inner.fit(features, profile)
    }
}

/// The built-in user of the challenging environment.
pub fn challenging_user() -> BuiltinUser {
    BuiltinUser::with_model(Arc::new(Challenging { inner: Arc::new(RuleModel::shipped()) }))
}
