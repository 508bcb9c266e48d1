//! Advantage estimators: per token with a critic ([`gae`]), per dialogue within a group ([`group_advantages`]), per
//! token without a critic ([`reinforce_plus_plus`], [`remax`]), and per turn ([`turn_rloo`], [`turn_centred`],
//! [`distance_potential`]).

mod gae;
mod group;
mod reinforce;
mod turn_credit;

use serde::{Deserialize, Serialize};

pub use gae::{Gae, gae, gae_actions, gae_rlver, last_action, place_terminal_reward};
pub(super) use group::spread;
pub use group::{GroupAdvantages, GroupScale, GroupStats, REWARD_TOLERANCE, StdConvention, group_advantages};
pub use reinforce::{ReinforcePlusPlus, reinforce_plus_plus, remax, reward_to_go};
pub use turn_credit::{
    DistancePotential, TurnAdvantages, TurnCredit, TurnRewards, TurnTrace, distance_potential, turn_centred, turn_rloo,
};

/// Recipe key `advantage` (verl: `adv_estimator`): how a reward becomes advantages.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdvantageEstimator {
    /// Generalized advantage estimation over action tokens, with a critic. Schulman et al. 2015, eq. 16.
    #[serde(rename = "gae")]
    Gae,
    /// The recursion of RLVER's release, over user tokens too; for parity runs.
    #[serde(rename = "gae-rlver")]
    GaeRlver,
    /// Score minus group mean, divided by the group's standard deviation. DeepSeekMath, section 4.1.
    #[serde(rename = "grpo")]
    Grpo,
    /// Score minus group mean. Liu et al. 2025 ("Understanding R1-Zero-Like Training"), section 3.2.
    #[serde(rename = "dr_grpo")]
    DrGrpo,
    /// Score minus the mean of the other dialogues of the group. Ahmadian et al. 2024, section 3.
    #[serde(rename = "rloo")]
    Rloo,
    /// Discounted reward-to-go, whitened over the batch. Hu 2025 (REINFORCE++).
    #[serde(rename = "reinforce_plus_plus")]
    ReinforcePlusPlus,
    /// Score minus group mean, whitened over the batch. Hu 2025 (REINFORCE++), baseline variant.
    #[serde(rename = "reinforce_plus_plus_baseline")]
    ReinforcePlusPlusBaseline,
    /// Reward-to-go minus the score of the greedy dialogue. Li et al. 2023 (ReMax).
    #[serde(rename = "remax")]
    Remax,
    /// Discounted emotion changes from a turn on, minus the mean of the other dialogues' same turn ([`turn_rloo`]).
    #[serde(rename = "turn-rloo")]
    TurnRloo,
    /// Per turn, the decrease of the distance to the target emotion and its return ([`distance_potential`]).
    #[serde(rename = "distance-potential")]
    DistancePotential,
}

impl AdvantageEstimator {
    /// Whether a critic has to be trained.
    #[must_use]
    pub fn needs_critic(self) -> bool {
        matches!(self, Self::Gae | Self::GaeRlver)
    }

    /// Whether several dialogues per profile are compared with each other.
    #[must_use]
    pub fn needs_groups(self) -> bool {
        matches!(self, Self::Grpo | Self::DrGrpo | Self::Rloo | Self::ReinforcePlusPlusBaseline)
    }

    /// Whether advantages are whitened over all action tokens of the batch after they are computed.
    #[must_use]
    pub fn whitens(self) -> bool {
        matches!(self, Self::Gae | Self::GaeRlver | Self::ReinforcePlusPlus | Self::ReinforcePlusPlusBaseline)
    }
}
