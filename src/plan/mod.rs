//! What a recipe will need, before anything is loaded: memory by part, tokens, time, disk.
//!
//! Memory follows from the architecture and the recipe ([`Memory`]); the few constants beside it are in `memory.rs` with
//! what they mean. Time comes from a short [`calibrate`] of this device with a network of the same width. Tokens are at
//! most: replies are taken to be as long as the recipe allows, since nobody knows how a policy will talk.

mod advice;
mod calibrate;
mod dialogue;
mod disk;
mod memory;
mod time;

use std::path::Path;

use rlver_models::qwen2::{Qwen2Config, Qwen2Shape};
use serde::Serialize;

pub use advice::{Remedy, remedies};
pub use calibrate::{Calibration, calibrate};
pub use dialogue::DialogueSize;
pub use disk::Disk;
pub use memory::{Memory, Networks};
pub use time::StepTime;

use crate::Error;
use crate::bench::available_bytes;
use crate::recipe::{Algorithm, KlUse, Recipe};
use crate::train::load_config;

/// Everything that is known of a run before it starts.
#[derive(Debug, Serialize)]
pub struct RunPlan {
    /// The policy as the recipe names it.
    pub policy: String,
    /// Parameters of the policy.
    pub parameters: usize,
    /// Parameters of the critic, if there is one.
    pub critic_parameters: usize,
    /// Most memory at any time.
    pub peak_memory_bytes: u64,
    /// What it consists of.
    pub memory: Memory,
    /// Memory that is free on this machine; `None` where it cannot be asked, as on a GPU.
    pub available_memory_bytes: Option<u64>,
    /// Whether it fits; `None` where that is not known.
    pub fits: Option<bool>,
    /// Recipe keys to change if it does not fit.
    pub remedies: Vec<Remedy>,
    /// Tokens of dialogues.
    pub dialogue: DialogueSize,
    /// Tokens a step trains on, at most.
    pub tokens_per_step: u64,
    /// Time of a step, from the calibration.
    pub step: Option<StepTime>,
    /// Disk.
    pub disk: Disk,
}

impl RunPlan {
    /// Plans a recipe; `calibration` gives times.
    ///
    /// # Errors
    /// When the policy's configuration or tokenizer cannot be read.
    pub fn new(recipe: &Recipe, calibration: Option<&Calibration>) -> Result<RunPlan, Error> {
        let networks = networks(recipe)?;
        let dialogue = DialogueSize::of(recipe, &networks.policy)?;
        let memory = Memory::of(recipe, &networks, &dialogue);
        let peak = memory.peak();
        let available = (recipe.run.device == "flex" || recipe.run.device == "cpu").then(available_bytes).flatten();
        let fits = available.map(|a| peak <= a);
        let remedies = match (fits, available) {
            (Some(false), Some(available)) => remedies(recipe, &networks, &dialogue, available),
            _ => Vec::new(),
        };
        Ok(RunPlan {
            policy: recipe.model.policy.clone(),
            parameters: networks.policy.num_parameters(),
            critic_parameters: networks.critic_parameters(),
            peak_memory_bytes: peak,
            memory,
            available_memory_bytes: available,
            fits,
            remedies,
            tokens_per_step: dialogue.tokens_per_step,
            step: calibration.map(|c| StepTime::of(recipe, &networks, &dialogue, c)),
            disk: Disk::of(recipe, &networks, &dialogue),
            dialogue,
        })
    }
}

/// The networks a recipe holds.
///
/// # Errors
/// When a configuration cannot be read.
pub fn networks(recipe: &Recipe) -> Result<Networks, Error> {
    if recipe.run.algorithm == Algorithm::Sft {
        let s = &recipe.sft;
        let policy = Qwen2Config::new(Qwen2Shape {
            vocab_size: s.vocab_size,
            hidden_size: s.hidden_size,
            intermediate_size: s.intermediate_size,
            layers: s.layers,
            heads: s.heads,
            kv_heads: s.kv_heads,
            max_positions: s.max_positions,
        });
        return Ok(Networks { policy, critic: None, reference: false, user: None });
    }
    let policy = load_config(&recipe.model.policy, &recipe.model.revision)?;
    let critic = match (recipe.has_critic(), recipe.model.critic.as_str()) {
        (false, _) => None,
        (true, "") => Some(policy.clone()),
        (true, name) => Some(load_config(name, "")?),
    };
    let in_process = recipe.user.engine == "llm" && recipe.llm.url.is_empty();
    let user = if in_process { Some(load_config(&recipe.llm.model, "")?) } else { None };
    Ok(Networks { policy, critic, reference: recipe.objective.kl != KlUse::None, user })
}

/// The recipe file's plan as text, for people.
impl RunPlan {
    /// A table of memory, then everything else, one line each.
    pub fn text(&self, recipe: &Path) -> String {
        let mut out =
            format!("{}: {}, {:.1} M parameters", recipe.display(), self.policy, self.parameters as f64 / 1e6);
        if self.critic_parameters > 0 {
            out += &format!(", critic {:.1} M", self.critic_parameters as f64 / 1e6);
        }
        out += "\n\nmemory, at most:\n";
        for (name, bytes) in self.memory.parts() {
            out += &format!("  {name:<28}{:>12}\n", size(bytes));
        }
        out += &format!("  {:<28}{:>12}\n", "peak", size(self.peak_memory_bytes));
        out += &match (self.fits, self.available_memory_bytes) {
            (Some(true), Some(free)) => format!("fits: {} are free\n", size(free)),
            (Some(false), Some(free)) => format!("does not fit: {} are free\n", size(free)),
            _ => "this device's free memory is not known here; compare the peak with what it has\n".into(),
        };
        for remedy in &self.remedies {
            out += &format!(
                "  {} = {}: peak {}{}\n",
                remedy.key,
                remedy.value,
                size(remedy.peak_memory_bytes),
                if remedy.fits { ", fits" } else { "" }
            );
        }
        let d = &self.dialogue;
        out += &format!(
            "\ntokens per step, at most: {} in {} rows of {}\n",
            self.tokens_per_step, d.rows, d.tokens_per_row
        );
        if let Some(step) = &self.step {
            out += &format!(
                "time per step, about: {} (rollout {}, update {}); {} steps: {}\n",
                duration(step.total_s),
                duration(step.rollout_s),
                duration(step.update_s),
                step.steps,
                duration(step.run_s),
            );
        }
        out += &format!(
            "disk: {} for checkpoints ({} each), {} for the final policy\n",
            size(self.disk.checkpoints_bytes),
            size(self.disk.checkpoint_bytes),
            size(self.disk.policy_bytes),
        );
        out
    }
}

fn duration(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1} s") } else { crate::metrics::human_duration(seconds) }
}

/// Bytes in decimal units.
fn size(bytes: u64) -> String {
    let b = bytes as f64;
    if b >= 1e9 { format!("{:.2} GB", b / 1e9) } else { format!("{:.1} MB", b / 1e6) }
}
