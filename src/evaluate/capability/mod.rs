//! The five capabilities (RLVER, section 3.3: empathic depth, core insight, solution crafting, dialogue guidance,
//! style adaptability; 1–5 each) and the Social Cognition Coordinate (section 3.7; x structured − to creative +,
//! y solution − to empathy +; −5 to 5).
//!
//! A language model judges them by our own [`rubric`]. Without one there is [`estimate`], which counts recognised
//! strategies: good enough to see a policy change, no judgement of quality, and named an estimate everywhere.

mod estimate;
mod judge;
pub mod rubric;

pub use estimate::{ESTIMATE, estimate, estimate_coordinate};
pub(crate) use judge::object_with;
pub use judge::{ChatModel, JudgeError, JudgedCapabilities, RubricJudge};

use serde::{Deserialize, Serialize};

/// One of the five capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// How deeply feelings are understood.
    EmpathicDepth,
    /// Whether the heart of the matter is found.
    CoreInsight,
    /// How fitting and doable proposals are.
    SolutionCrafting,
    /// Whether the dialogue is led well.
    DialogueGuidance,
    /// Whether tone and form follow the person.
    StyleAdaptability,
}

impl Capability {
    /// All five, in the paper's order.
    pub const ALL: [Capability; 5] = [
        Capability::EmpathicDepth,
        Capability::CoreInsight,
        Capability::SolutionCrafting,
        Capability::DialogueGuidance,
        Capability::StyleAdaptability,
    ];

    /// Name as written in reports.
    pub fn name(self) -> &'static str {
        match self {
            Capability::EmpathicDepth => "empathic depth",
            Capability::CoreInsight => "core insight",
            Capability::SolutionCrafting => "solution crafting",
            Capability::DialogueGuidance => "dialogue guidance",
            Capability::StyleAdaptability => "style adaptability",
        }
    }
}

/// A score of 1–5 per capability, in the order of [`Capability::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CapabilityScores(pub [f64; 5]);

impl CapabilityScores {
    /// The score of one capability.
    pub fn get(self, capability: Capability) -> f64 {
        self.0[capability as usize]
    }

    /// Mean of several; `None` of none.
    pub fn mean(all: &[CapabilityScores]) -> Option<CapabilityScores> {
        let n = all.len() as f64;
        (!all.is_empty())
            .then(|| CapabilityScores(std::array::from_fn(|i| all.iter().map(|s| s.0[i]).sum::<f64>() / n)))
    }
}

/// A place in the Social Cognition Coordinate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Coordinate {
    /// Structured (−5) to creative (5).
    pub x: f64,
    /// Solution (−5) to empathy (5).
    pub y: f64,
}
