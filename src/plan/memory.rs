use rlver_models::generate::KvCache;
use rlver_models::qwen2::Qwen2Config;
use serde::Serialize;

use super::DialogueSize;
use crate::recipe::{Algorithm, Recipe};

/// Bytes of an f32, the type of everything here.
const F32: u64 = 4;
/// Largest block of logits that is held at once: hidden rows by vocabulary rows (`kernels/src/logprob`).
const LOGIT_ROWS: usize = 1024;
const LOGIT_COLUMNS: usize = 2048;
/// What the process holds before any network: code, word lists, profiles, tokenizer, threads. Measured as `VmHWM` of
/// `rlver plan` without calibration.
const PROGRAM_BYTES: u64 = 28_000_000;
/// What the allocator holds beyond live buffers: freed blocks below glibc's largest threshold for giving them back
/// (32 MiB), and gaps that nothing fits into, as a share of everything that comes and goes within an update. Measured
/// as what is left between `VmHWM` of training runs and the sum of their live tensors.
const ALLOCATOR_KEPT: u64 = 32 << 20;
const ALLOCATOR_SHARE: f64 = 0.06;

/// The networks a run holds.
#[derive(Debug, Clone)]
pub struct Networks {
    /// The policy.
    pub policy: Qwen2Config,
    /// The critic's trunk.
    pub critic: Option<Qwen2Config>,
    /// Whether a copy of the first policy is kept.
    pub reference: bool,
    /// A model in this process that plays users.
    pub user: Option<Qwen2Config>,
}

impl Networks {
    /// Parameters of the critic; 0 without one.
    pub fn critic_parameters(&self) -> usize {
        self.critic.as_ref().map_or(0, critic_parameters)
    }
}

/// A trunk with a value head in place of its own vocabulary head.
fn critic_parameters(config: &Qwen2Config) -> usize {
    let head = if config.tie_word_embeddings { 0 } else { config.vocab_size * config.hidden_size };
    config.num_parameters() - head + config.hidden_size + 1
}

/// Memory by part, in bytes, at the moment at which a run needs most.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// The policy's weights.
    pub weights: u64,
    /// A second copy of the weights in higher precision: none, since the weights are f32 themselves.
    pub master_weights: u64,
    /// Gradients, summed and of the micro-batch in progress.
    pub gradients: u64,
    /// AdamW's two moments, of policy and critic.
    pub optimizer: u64,
    /// What the forward pass keeps for the backward, and what that works in.
    pub activations: u64,
    /// Keys and values of the rollout's dialogues.
    pub kv_cache: u64,
    /// Logits held at once.
    pub logits_chunk: u64,
    /// The critic's weights.
    pub critic: u64,
    /// The reference policy's weights.
    pub reference: u64,
    /// A model in this process that plays users, with its cache.
    pub user_model: u64,
    /// The program itself.
    pub program: u64,
    /// What the allocator holds beyond live buffers.
    pub allocator: u64,
}

impl Memory {
    pub(super) fn of(recipe: &Recipe, networks: &Networks, dialogue: &DialogueSize) -> Memory {
        let policy = Pass::of(&networks.policy, networks.policy.num_parameters(), dialogue, true);
        let critic = networks.critic.as_ref().map(|c| Pass::of(c, critic_parameters(c), dialogue, false));
        // Policy and critic are updated one after the other; the larger one decides.
        let largest = critic.filter(|c| c.total() > policy.total()).unwrap_or(policy);
        let parameters = networks.policy.num_parameters() as u64;
        let critic_parameters = networks.critic_parameters() as u64;
        let coming_and_going = largest.total();
        let r = &recipe.rollout;
        let rows = if recipe.run.algorithm == Algorithm::Sft { 0 } else { r.batch.min(r.dialogues * r.n) };
        Memory {
            weights: F32 * parameters,
            master_weights: 0,
            gradients: largest.gradients,
            optimizer: 2 * F32 * (parameters + critic_parameters),
            activations: largest.activations,
            // Pages of the cache that no dialogue reaches are never touched, so they take no memory.
            kv_cache: KvCache::bytes(&networks.policy, rows, dialogue.tokens_per_row) as u64,
            logits_chunk: largest.logits,
            critic: F32 * critic_parameters,
            reference: if networks.reference { F32 * parameters } else { 0 },
            user_model: networks.user.as_ref().map_or(0, |user| {
                let cache = KvCache::bytes(user, recipe.llm.concurrency, recipe.llm.max_context) as u64;
                F32 * user.num_parameters() as u64 + cache
            }),
            program: PROGRAM_BYTES,
            allocator: ALLOCATOR_KEPT + (ALLOCATOR_SHARE * coming_and_going as f64) as u64,
        }
    }

    /// Every part with its name.
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("weights", self.weights),
            ("master weights", self.master_weights),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("activations", self.activations),
            ("key/value cache", self.kv_cache),
            ("logits chunk", self.logits_chunk),
            ("critic", self.critic),
            ("reference", self.reference),
            ("user's model", self.user_model),
            ("program", self.program),
            ("allocator", self.allocator),
        ];
        all.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// All of it.
    pub fn peak(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// What a forward and backward pass holds at its fullest, beside weights and moments.
#[derive(Debug, Clone, Copy)]
struct Pass {
    gradients: u64,
    activations: u64,
    logits: u64,
}

impl Pass {
    /// A backward pass trades activations for gradients, layer by layer, so its fullest moment is its first or its last.
    fn of(config: &Qwen2Config, parameters: usize, dialogue: &DialogueSize, vocabulary_head: bool) -> Pass {
        let tokens = dialogue.micro_batch as u64;
        let actions =
            (tokens as f64 * dialogue.action_share().max(f64::from(u8::from(dialogue.reply_tokens == 0)))) as u64;
        let (h, f) = (config.hidden_size as u64, config.intermediate_size as u64);
        let saved = F32 * (tokens * (config.num_hidden_layers as u64 * saved_per_layer(config) + 2 * h) + actions * h);
        // The gradients that a feed-forward's backward has at once: of its output, of the product, of gate and up.
        let work = F32 * tokens * (2 * h + 3 * f);
        let embedding = F32 * (config.vocab_size * config.hidden_size) as u64;
        let all = F32 * parameters as u64;
        let summed = if dialogue.micro_batches > 1 { all } else { 0 };
        let (head, logits) = if vocabulary_head {
            let columns = dialogue.vocabulary.min(LOGIT_COLUMNS);
            (embedding, F32 * (actions.min(LOGIT_ROWS as u64)) * columns as u64)
        } else {
            (0, 0)
        };
        let first = Pass { gradients: summed + head, activations: saved + work, logits };
        // At the end, the embedding's own gradient stands beside that of the head it is tied to.
        let twice = if vocabulary_head && config.tie_word_embeddings { embedding } else { 0 };
        let last = Pass { gradients: summed + all + twice, activations: F32 * tokens * 2 * h, logits: 0 };
        if first.total() > last.total() { first } else { last }
    }

    fn total(self) -> u64 {
        self.gradients + self.activations + self.logits
    }
}

/// Numbers that a block keeps per token (`kernels/src/backends/autodiff.rs`): the inputs of both normalisations and what
/// they give, q, k, v, the attention's output and log-sum-exps, gate, up and their product.
fn saved_per_layer(config: &Qwen2Config) -> u64 {
    let q = config.num_attention_heads * config.head_dim;
    let kv = config.num_key_value_heads * config.head_dim;
    (4 * config.hidden_size + 2 * q + 2 * kv + config.num_attention_heads + 3 * config.intermediate_size) as u64
}
