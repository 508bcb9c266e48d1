use serde::Serialize;

use super::{DialogueSize, Networks};
use crate::recipe::{Recipe, SavedType};

/// Bytes on disk.
#[derive(Debug, Clone, Serialize)]
pub struct Disk {
    /// One resumable checkpoint: weights and moments of policy and critic, f32.
    pub checkpoint_bytes: u64,
    /// All that are there at once: those kept, and the one being written.
    pub checkpoints_bytes: u64,
    /// The final policy.
    pub policy_bytes: u64,
    /// Episodes of all steps, about: ids, log-probabilities and what else stands beside a token as text.
    pub episodes_bytes: u64,
}

/// JSON of a token: id, log-probability, advantage, ratio, value and the text it belongs to.
const JSON_PER_TOKEN: u64 = 60;

impl Disk {
    pub(super) fn of(recipe: &Recipe, networks: &Networks, dialogue: &DialogueSize) -> Disk {
        let parameters = networks.policy.num_parameters() as u64;
        let checkpoint_bytes = 12 * (parameters + networks.critic_parameters() as u64);
        let c = &recipe.checkpoint;
        let written = recipe.run.steps.checked_div(c.episodes_every).unwrap_or(0);
        Disk {
            checkpoint_bytes,
            checkpoints_bytes: checkpoint_bytes * (c.keep as u64 + 1),
            policy_bytes: parameters * if recipe.model.save_dtype == SavedType::F32 { 4 } else { 2 },
            episodes_bytes: written as u64 * dialogue.tokens_per_step * JSON_PER_TOKEN,
        }
    }
}
