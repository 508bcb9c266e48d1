use std::sync::Arc;

use crate::dialogue::Profile;
use crate::user::builtin::{BuiltinUser, EmotionModel, Features, Guard, State};

/// RLVER's challenging environment for the built-in user: every rise of the emotion counts five points less, so that a
/// reply which only goes in the right direction earns nothing and one that is just what was wanted earns half. (There,
/// users accept 33 % of strategies instead of 52 %.)
struct Challenging {
    inner: Arc<dyn EmotionModel>,
}

/// Points that a rise counts less.
const LESS: i8 = 5;

impl EmotionModel for Challenging {
    fn change(&self, features: &Features, profile: &Profile, state: &State) -> i8 {
        let change = self.inner.change(features, profile, state);
        if change > 0 { (change - LESS).max(0) } else { change }
    }

    fn fit(&self, features: &Features, profile: &Profile, state: &State) -> f32 {
        self.inner.fit(features, profile, state)
    }

    fn guard(&self, features: &Features, profile: &Profile, state: &State) -> Option<Guard> {
        self.inner.guard(features, profile, state)
    }

    fn name(&self) -> String {
        match self.inner.name().as_str() {
            "rules" => "challenging".into(),
            other => format!("challenging-{other}"),
        }
    }

    fn version(&self) -> u32 {
        self.inner.version()
    }
}

/// The built-in user as the challenging environment makes it.
pub fn challenging(user: &BuiltinUser) -> BuiltinUser {
    BuiltinUser::with_model(Arc::new(Challenging { inner: user.model() }))
}
