use serde::{Deserialize, Serialize};

/// What a recipe does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Proximal policy optimisation with a critic.
    Ppo,
    /// Group-relative policy optimisation: the baseline is the group, there is no critic.
    Grpo,
    /// Supervised fine-tuning on scripted dialogues.
    Sft,
}

/// How the built-in user's emotion moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmotionModelChoice {
    /// By hand-made rules.
    Rules,
    /// As recorded judgements of a language model say.
    Calibrated,
}

/// Which implementation of the kernels runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelChoice {
    /// Our fused ones where the device has them.
    Fused,
    /// Plain Burn operations.
    Reference,
}

/// Where the KL to the reference policy enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KlUse {
    /// Nowhere; no reference policy is held.
    None,
    /// As a term of the policy loss.
    Loss,
    /// As a penalty on each token's reward.
    Reward,
}

/// How a dialogue's reward is laid on its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewardPlacement {
    /// All of it on the last action token (RLVER).
    Terminal,
    /// Each turn's emotion change on the turn's last action token: potential-based shaping with the emotion as the
    /// potential (Ng, Harada and Russell 1999), which leaves the best policy as it is and tells turns apart.
    EmotionPotential,
}

/// How the coefficient of the KL moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KlControl {
    /// Not at all.
    Fixed,
    /// Toward a target divergence (Ziegler et al. 2019, section 2.2).
    Adaptive,
}

/// Whether the policy loss is weighted by trainer's over sampler's probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutIs {
    /// No.
    None,
    /// Each token by its own ratio.
    Token,
    /// All tokens of a row by the product of their ratios.
    Sequence,
}

/// How hard people are to please.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Environment {
    /// A step in the right direction counts.
    Vanilla,
    /// Every rise of the emotion counts five points less.
    Challenging,
}

/// What decides in which state people come to talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurriculumChoice {
    /// Nothing: everybody comes as their profile says.
    None,
    /// The outer loop of Dual-Loop Self-Evolution (arXiv 2608.10626).
    DualLoop,
}

/// Which dialogues a turn is judged against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnBaseline {
    /// All dialogues of the step.
    Step,
    /// Dialogues whose users have the same hidden intention and language.
    Intention,
    /// Dialogues of the same group, which share their profile.
    Group,
}

/// Where the old policy's log-probabilities come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogprobSource {
    /// A forward pass of the trainer before the update.
    Recompute,
    /// As the rollout sampled them.
    Rollout,
}

/// How the rollouts' engine keeps weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutWeights {
    /// As the trainer has them.
    F32,
    /// Rounded to half the bytes.
    Bf16,
}

impl From<RolloutWeights> for rlver_kernels::host::WeightFormat {
    fn from(weights: RolloutWeights) -> Self {
        match weights {
            RolloutWeights::F32 => Self::F32,
            RolloutWeights::Bf16 => Self::Bf16,
        }
    }
}

/// Type of saved weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SavedType {
    /// 32-bit floats.
    F32,
    /// bfloat16.
    Bf16,
}

impl SavedType {
    /// The weight type to write.
    pub fn weight_type(self) -> rlver_models::weights::WeightType {
        match self {
            SavedType::F32 => rlver_models::weights::WeightType::F32,
            SavedType::Bf16 => rlver_models::weights::WeightType::Bf16,
        }
    }
}
