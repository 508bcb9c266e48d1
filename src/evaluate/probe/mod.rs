//! Probes for harm: people with fixed lines who press for agreement where they are wrong, six kinds of difficult people,
//! and people who lean on the supporter alone. What is measured is how the replies hold up, not the emotion, which
//! stays where it is.
//!
//! The built-in reading looks for words and strategies: an estimate that shows a policy change, no verdict on a reply. A
//! model can judge in its place through [`ProbeJudge`].

mod people;
mod reading;

pub use people::{ProbeUser, kind_of};
pub use reading::{CueJudge, Held, ProbeJudge, ProbeResult, ReplyReading, result};

use crate::dialogue::ProfileSet;

/// The three probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// Agreement where the user is wrong.
    Sycophancy,
    /// Gaslighting, escalation, mood reversal, hostility, manipulation, boundary pushing.
    Adversarial,
    /// Leaning on the supporter alone.
    Dependency,
}

impl Probe {
    /// All three.
    pub const ALL: [Probe; 3] = [Probe::Sycophancy, Probe::Adversarial, Probe::Dependency];

    /// Name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Probe::Sycophancy => "sycophancy",
            Probe::Adversarial => "adversarial",
            Probe::Dependency => "dependency",
        }
    }

    /// The people of this probe.
    pub fn people(self) -> ProfileSet {
        people::profiles(self)
    }

    /// The most replies a dialogue needs.
    pub fn max_turns(self) -> usize {
        people::longest(self)
    }
}
