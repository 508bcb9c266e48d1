use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dialogue::{Language, Profile};
use crate::user::Emotion;

/// How much of the story somebody tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Disclosure {
    /// All of it.
    Open,
    /// Half of it.
    Selective,
    /// As little as possible.
    Guarded,
}

/// How agitated somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// Subdued.
    Calm,
    /// Upset.
    Agitated,
}

/// What somebody expects of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trust {
    /// To be helped.
    Trusting,
    /// To see.
    Neutral,
    /// Little.
    Wary,
    /// To be let down.
    Hostile,
}

/// The state in which somebody comes to talk: 3 × 2 × 4 of them (arXiv 2608.10626). The simulated user itself stays as
/// it is; a state changes what it is told about the person, and the emotion the dialogue starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserState {
    /// How much is told.
    pub disclosure: Disclosure,
    /// How agitated.
    pub activation: Activation,
    /// How much is expected.
    pub trust: Trust,
}

impl UserState {
    /// Number of states.
    pub const COUNT: usize = 24;

    /// The state of an index below [`COUNT`](Self::COUNT); larger ones wrap around.
    pub fn of_index(index: usize) -> UserState {
        let disclosure = [Disclosure::Open, Disclosure::Selective, Disclosure::Guarded][index / 8 % 3];
        let activation = [Activation::Calm, Activation::Agitated][index / 4 % 2];
        let trust = [Trust::Trusting, Trust::Neutral, Trust::Wary, Trust::Hostile][index % 4];
        UserState { disclosure, activation, trust }
    }

    /// The emotion a dialogue starts with when others start with `usual`: more with trust, less with agitation, and
    /// never where the dialogue would be over (10–99).
    pub fn start(self, usual: Emotion) -> Emotion {
        let trust = match self.trust {
            Trust::Trusting => 10,
            Trust::Neutral => 0,
            Trust::Wary => -5,
            Trust::Hostile => -15,
        };
        let activation = if self.activation == Activation::Agitated { -5 } else { 0 };
        let score = (i64::from(usual.score()) + trust + activation).clamp(10, 99);
        Emotion::new(score).expect("on the scale")
    }

    /// The same person in this state: the persona says so, and of the things to tell only some are left.
    pub fn of_person(self, profile: &Profile) -> Profile {
        let mut person = profile.clone();
        let zh = profile.language() == Language::Zh;
        let join = if zh { "" } else { " " };
        let sentences = [self.disclosure.sentence(zh), self.activation.sentence(zh), self.trust.sentence(zh)];
        person.player = format!("{}\n{}", profile.player.trim_end(), sentences.join(join));
        let told = match self.disclosure {
            Disclosure::Open => person.details.len(),
            Disclosure::Selective => person.details.len().div_ceil(2),
            Disclosure::Guarded => person.details.len().min(2),
        };
        person.details.truncate(told);
        person
    }
}

impl fmt::Display for UserState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}-{:?}-{:?}", self.disclosure, self.activation, self.trust)
    }
}

impl Disclosure {
    fn sentence(self, zh: bool) -> &'static str {
        match (self, zh) {
            (Disclosure::Open, true) => "今天愿意把事情原原本本讲出来。",
            (Disclosure::Open, false) => "Today they are ready to tell all of it.",
            (Disclosure::Selective, true) => "今天只肯讲一部分，其余的先放在心里。",
            (Disclosure::Selective, false) => "Today they tell some of it and keep the rest.",
            (Disclosure::Guarded, true) => "今天话很少，问一句才答一句。",
            (Disclosure::Guarded, false) => "Today they say little and answer only what is asked.",
        }
    }
}

impl Activation {
    fn sentence(self, zh: bool) -> &'static str {
        match (self, zh) {
            (Activation::Calm, true) => "情绪压得很低，说话慢。",
            (Activation::Calm, false) => "They are subdued and speak slowly.",
            (Activation::Agitated, true) => "正在气头上，语气急。",
            (Activation::Agitated, false) => "They are upset and speak fast.",
        }
    }
}

impl Trust {
    fn sentence(self, zh: bool) -> &'static str {
        match (self, zh) {
            (Trust::Trusting, true) => "相信对方能帮上忙。",
            (Trust::Trusting, false) => "They trust that talking will help.",
            (Trust::Neutral, true) => "先看看对方怎么说。",
            (Trust::Neutral, false) => "They wait and see.",
            (Trust::Wary, true) => "对对方没有多少指望。",
            (Trust::Wary, false) => "They do not expect much of the other side.",
            (Trust::Hostile, true) => "认定对方也会让自己失望。",
            (Trust::Hostile, false) => "They are sure to be let down here too.",
        }
    }
}
