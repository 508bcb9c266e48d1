use serde::{Deserialize, Serialize};

use crate::dialogue::think::ReplyMode;
use crate::dialogue::{CharacterType, HiddenIntention, Language, Role};
use crate::user::record::ModelCall;
use crate::user::{Emotion, UserTurn};

/// One dialogue as it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Number of the dialogue, unique within a run.
    pub dialogue: u64,
    /// Dialogues of the same group share their profile and opening line.
    pub group: u64,
    /// The profile's id.
    pub profile: String,
    /// What the user wanted.
    pub intention: HiddenIntention,
    /// The user's type.
    pub character: CharacterType,
    /// The user's language.
    pub language: Language,
    /// The simulated user's name and version.
    pub user: String,
    /// Seed of the user's choices.
    pub user_seed: u64,
    /// Seed of the sampling; each turn's stream is derived from it.
    pub sampling_seed: u64,
    /// How the policy was asked to answer.
    pub mode: ReplyMode,
    /// The system prompt.
    pub system: String,
    /// The user's first line.
    pub opening: String,
    /// What the model behind the user was asked for the first line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opening_calls: Vec<ModelCall>,
    /// The turns in order.
    pub turns: Vec<Turn>,
    /// The emotion it started with.
    pub start_emotion: Emotion,
    /// The emotion it ended with.
    pub final_emotion: Emotion,
    /// How it ended.
    pub end: EndReason,
    /// The reward; `None` when the dialogue could not be scored.
    pub reward: Option<f64>,
    /// The token truth: one row in direct mode, one per turn in think mode.
    pub rows: Vec<TokenRow>,
}

/// One reply and what the user made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Thoughts, in think mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// What the user heard.
    pub reply: String,
    /// Whether the format was kept.
    pub well_formed: bool,
    /// The user's appraisal and answer; `None` when the dialogue ended before the user could hear the reply.
    pub user: Option<UserTurn>,
    /// What the model behind the user was asked, if there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ModelCall>,
}

/// How a dialogue ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The user said goodbye, content or fed up.
    Farewell,
    /// The turn limit was reached.
    TurnLimit,
    /// The context was full; the reward stands.
    Truncated,
    /// Think output was malformed; the reward is 0.
    Malformed,
    /// The simulated user failed; there is no reward.
    Unscored(String),
}

/// A token sequence the policy was run on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenRow {
    /// The pieces in order.
    pub segments: Vec<Segment>,
}

/// Consecutive tokens of one origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Whose words; the template's own tokens count as the user's (or the system's).
    pub role: Role,
    /// The turn they belong to, from 0.
    pub turn: usize,
    /// Token ids.
    pub ids: Vec<u32>,
    /// For sampled tokens, their log-probabilities at the sampling temperature; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
    /// Sampled tokens for which a filter removed some id.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub filtered: usize,
    /// Advantages of sampled tokens, once computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advantages: Vec<f32>,
    /// The critic's values of the states these tokens were sampled in, before the update; with `gae-rlver` also of the
    /// user's tokens between. Empty without a critic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f32>,
    /// Probability ratios new/old of sampled tokens as the step's last update saw them, before it moved the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<f32>,
    /// Their log-probabilities as the trainer computed them before the update, where the advantages depend on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub old_logprobs: Vec<f32>,
    /// Their log-probabilities under the reference policy, where the advantages depend on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_logprobs: Vec<f32>,
}

impl Default for Segment {
    fn default() -> Segment {
        Segment {
            role: Role::Assistant,
            turn: 0,
            ids: Vec::new(),
            logprobs: Vec::new(),
            filtered: 0,
            advantages: Vec::new(),
            values: Vec::new(),
            ratios: Vec::new(),
            old_logprobs: Vec::new(),
            reference_logprobs: Vec::new(),
        }
    }
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Segment {
    /// Whether the policy sampled these tokens: they are its actions.
    pub fn is_action(&self) -> bool {
        !self.logprobs.is_empty()
    }
}

impl TokenRow {
    /// All token ids.
    pub fn ids(&self) -> Vec<u32> {
        self.segments.iter().flat_map(|s| s.ids.iter().copied()).collect()
    }

    /// For every token, whether the policy sampled it.
    pub fn action_mask(&self) -> Vec<bool> {
        self.segments.iter().flat_map(|s| std::iter::repeat_n(s.is_action(), s.ids.len())).collect()
    }

    /// Rollout log-probabilities of the sampled tokens, in order.
    pub fn logprobs(&self) -> Vec<f32> {
        self.segments.iter().flat_map(|s| s.logprobs.iter().copied()).collect()
    }
}

impl Episode {
    /// Number of sampled tokens.
    pub fn action_tokens(&self) -> usize {
        self.rows.iter().flat_map(|r| &r.segments).map(|s| s.logprobs.len()).sum()
    }

    /// The final emotion as results count it: `None` for an unscored dialogue, 0 for a malformed one, whatever the user
    /// felt before.
    pub fn counted_emotion(&self) -> Option<u8> {
        self.reward?;
        Some(if self.end == EndReason::Malformed { 0 } else { self.final_emotion.score() })
    }

    /// Number of turns in which a guard of the user fired.
    pub fn guarded_turns(&self) -> usize {
        self.turns.iter().filter(|t| t.user.as_ref().is_some_and(|u| u.guard.is_some())).count()
    }
}
