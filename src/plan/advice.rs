use serde::Serialize;

use super::{DialogueSize, Memory, Networks};
use crate::recipe::{Algorithm, KlUse, Recipe};

/// A key that lowers the peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// The recipe key.
    pub key: &'static str,
    /// What to set it to.
    pub value: String,
    /// The peak then.
    pub peak_memory_bytes: u64,
    /// Whether that fits.
    pub fits: bool,
}

/// Changes of one key each, the mildest first; each comes on top of those before it, until all of it fits.
pub fn remedies(recipe: &Recipe, networks: &Networks, dialogue: &DialogueSize, available: u64) -> Vec<Remedy> {
    let (mut recipe, mut networks, mut dialogue) = (recipe.clone(), networks.clone(), dialogue.clone());
    let mut found: Vec<Remedy> = Vec::new();
    let mut before = Memory::of(&recipe, &networks, &dialogue).peak();
    let mut note = |key, value: String, recipe: &Recipe, networks: &Networks, dialogue: &DialogueSize| {
        let peak = Memory::of(recipe, networks, dialogue).peak();
        if peak < before {
            before = peak;
            found.push(Remedy { key, value, peak_memory_bytes: peak, fits: peak <= available });
        }
        peak <= available
    };
    // Gradients do not depend on how a mini-batch is split; one row is the least.
    if dialogue.micro_batch > dialogue.tokens_per_row {
        recipe.objective.micro_batch_tokens = dialogue.tokens_per_row;
        dialogue.micro_batches = dialogue.micro_batches.max(2);
        dialogue.micro_batch = dialogue.tokens_per_row;
        let value = dialogue.tokens_per_row.to_string();
        if note("objective.micro_batch_tokens", value, &recipe, &networks, &dialogue) {
            return found;
        }
    }
    // Dialogues then wait for each other; nothing else changes.
    if recipe.rollout.batch > 8 {
        recipe.rollout.batch = 8;
        if note("rollout.batch", "8".into(), &recipe, &networks, &dialogue) {
            return found;
        }
    }
    if networks.reference {
        networks.reference = false;
        recipe.objective.kl = KlUse::None;
        if note("objective.kl", "\"none\"".into(), &recipe, &networks, &dialogue) {
            return found;
        }
    }
    if networks.critic.is_some() {
        networks.critic = None;
        recipe.run.algorithm = Algorithm::Grpo;
        if note("run.algorithm", "\"grpo\"".into(), &recipe, &networks, &dialogue) {
            return found;
        }
    }
    let limit = available.saturating_sub(Memory::of(&recipe, &networks, &dialogue).program) / 16 / 1_000_000;
    found.push(Remedy {
        key: "model.policy",
        value: format!("a model of less than about {limit} M parameters"),
        peak_memory_bytes: available,
        fits: true,
    });
    found
}
