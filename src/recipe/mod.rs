//! Recipes: TOML files that describe a run completely.
//!
//! [`Recipe::load`] reads a file and `key=value` overrides, refuses unknown keys (suggesting the right one), mistyped
//! values and impossible combinations before anything is loaded. [`explain`] writes the reference of all keys.

mod check;
mod check_objective;
mod choices;
mod error;
mod explain;
mod parse;
mod section;
mod sections;

use serde::{Deserialize, Serialize};

pub use choices::{
    Algorithm, CurriculumChoice, EmotionModelChoice, Environment, KernelChoice, KlControl, KlUse, LogprobSource,
    RewardPlacement, RolloutIs, RolloutWeights, SavedType, TurnBaseline,
};
pub use error::RecipeError;
pub use explain::explain;
pub use section::Key;
pub use sections::{
    CheckpointSection, CurriculumSection, EvalSection, LlmSection, ModelSection, ObjectiveSection, OptimizerSection,
    RolloutSection, RunSection, SftSection, UserSection,
};

/// A validated description of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// `[run]`
    pub run: RunSection,
    /// `[model]`
    pub model: ModelSection,
    /// `[user]`
    pub user: UserSection,
    /// `[llm]`
    pub llm: LlmSection,
    /// `[rollout]`
    pub rollout: RolloutSection,
    /// `[objective]`
    pub objective: ObjectiveSection,
    /// `[curriculum]`
    pub curriculum: CurriculumSection,
    /// `[optimizer]`
    pub optimizer: OptimizerSection,
    /// `[eval]`
    pub eval: EvalSection,
    /// `[checkpoint]`
    pub checkpoint: CheckpointSection,
    /// `[sft]`
    pub sft: SftSection,
}

/// A section as the reference and the key check see it.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its name in brackets.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static [&'static str],
    /// Its keys.
    pub keys: &'static [Key],
}

/// All sections, in the order in which they are explained.
pub const SECTIONS: &[Section] = &[
    Section { name: "run", about: RunSection::ABOUT, keys: RunSection::KEYS },
    Section { name: "model", about: ModelSection::ABOUT, keys: ModelSection::KEYS },
    Section { name: "user", about: UserSection::ABOUT, keys: UserSection::KEYS },
    Section { name: "llm", about: LlmSection::ABOUT, keys: LlmSection::KEYS },
    Section { name: "rollout", about: RolloutSection::ABOUT, keys: RolloutSection::KEYS },
    Section { name: "objective", about: ObjectiveSection::ABOUT, keys: ObjectiveSection::KEYS },
    Section { name: "curriculum", about: CurriculumSection::ABOUT, keys: CurriculumSection::KEYS },
    Section { name: "optimizer", about: OptimizerSection::ABOUT, keys: OptimizerSection::KEYS },
    Section { name: "eval", about: EvalSection::ABOUT, keys: EvalSection::KEYS },
    Section { name: "checkpoint", about: CheckpointSection::ABOUT, keys: CheckpointSection::KEYS },
    Section { name: "sft", about: SftSection::ABOUT, keys: SftSection::KEYS },
];

/// A value as TOML.
pub(crate) fn to_toml<T: Serialize>(value: &T) -> String {
    toml::Value::try_from(value).map_or_else(|e| e.to_string(), |v| v.to_string())
}

impl Recipe {
    /// The recipe with every key written out.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a recipe is plain data")
    }

    /// Whether a critic is trained.
    pub fn has_critic(&self) -> bool {
        self.run.algorithm == Algorithm::Ppo
    }
}
