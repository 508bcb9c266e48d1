use rlver_models::qwen2::Qwen2Config;
use serde::Serialize;

use super::{Calibration, DialogueSize, Networks};
use crate::bench::Flops;
use crate::recipe::{Algorithm, LogprobSource, Recipe};

/// Time of a step and of the run, in seconds; users that wait for a server are not in it.
#[derive(Debug, Clone, Serialize)]
pub struct StepTime {
    /// Holding the dialogues.
    pub rollout_s: f64,
    /// Everything behind it.
    pub update_s: f64,
    /// Both.
    pub total_s: f64,
    /// Tokens of the batch per second.
    pub tokens_per_s: f64,
    /// Steps of the run.
    pub steps: usize,
    /// All steps; evaluations come on top.
    pub run_s: f64,
}

impl StepTime {
    pub(super) fn of(recipe: &Recipe, networks: &Networks, d: &DialogueSize, speed: &Calibration) -> StepTime {
        let update_s = if recipe.run.algorithm == Algorithm::Sft {
            pass(&networks.policy, d, true) / speed.update_flops
        } else {
            update_flops(recipe, networks, d) / speed.update_flops
        };
        let context = d.tokens_per_row as f64 / 2.0;
        let flops = Flops::of(&networks.policy);
        let sampled = d.sampled_per_step as f64;
        let rest = d.tokens_per_step as f64 - sampled;
        let decode_s = sampled * flops.decode(context) / speed.decode_flops;
        // What users and templates say goes through the network once, many tokens at a time.
        let prefill_s = rest.max(0.0) * flops.decode(context) / speed.update_flops;
        let rollout_s = if sampled > 0.0 { decode_s + prefill_s } else { 0.0 };
        let total_s = rollout_s + update_s;
        StepTime {
            rollout_s,
            update_s,
            total_s,
            tokens_per_s: d.tokens_per_step as f64 / total_s,
            steps: recipe.run.steps,
            run_s: total_s * recipe.run.steps as f64,
        }
    }
}

/// Every pass behind the rollout; a forward pass is a third of forward and backward.
fn update_flops(recipe: &Recipe, networks: &Networks, d: &DialogueSize) -> f64 {
    let o = &recipe.objective;
    let epochs = o.ppo_epochs as f64;
    let (policy, forward) = (pass(&networks.policy, d, true), 1.0 / 3.0);
    let one_mini_batch = o.mini_batch == 0 || o.mini_batch >= recipe.rollout.dialogues * recipe.rollout.n;
    let old = if o.old_logprobs == LogprobSource::Rollout || one_mini_batch { 0.0 } else { forward };
    let reference = if networks.reference { forward } else { 0.0 };
    let critic = networks.critic.as_ref().map_or(0.0, |c| pass(c, d, false) * (epochs + forward));
    policy * (epochs + old + reference) + critic
}

/// Forward and backward of a step's rows.
fn pass(config: &Qwen2Config, d: &DialogueSize, vocabulary_head: bool) -> f64 {
    let rows = d.tokens_per_step as f64 / d.tokens_per_row.max(1) as f64;
    let all = rows * Flops::of(config).update(d.tokens_per_row);
    let head = 6.0 * d.tokens_per_step as f64 * (config.vocab_size * config.hidden_size) as f64;
    let projected = d.vocabulary.min(config.vocab_size) as f64 / config.vocab_size as f64;
    let share = if d.reply_tokens == 0 { 1.0 } else { d.action_share() };
    all - head + if vocabulary_head { head * share * projected } else { 0.0 }
}
