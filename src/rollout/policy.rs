use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rlver_models::qwen2::{HeadKind, Qwen2};
use rlver_models::tokenizer::{ChatFormat, Tokenizer};
use rlver_models::weights;

use crate::Error;

/// A policy network with what it needs to talk: tokenizer and chat format.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The network, without gradient tracking.
    pub model: Qwen2,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The token ids around turns.
    pub chat: ChatFormat,
    /// Sampling settings the checkpoint recommends in `generation_config.json`. They are reported and never used: the
    /// recipe's settings are the only ones.
    pub recommended_sampling: Option<String>,
}

impl Policy {
    /// Loads a model folder.
    ///
    /// # Errors
    /// When the weights, the tokenizer or its chat template cannot be used, or do not belong together.
    pub fn load(folder: &Path, device: &Device) -> Result<Policy, Error> {
        let tokenizer = Tokenizer::load(folder)?;
        let model = weights::load(folder, HeadKind::Vocabulary, device)?;
        let mut policy = Policy::new(model, tokenizer, folder.to_path_buf())?;
        policy.recommended_sampling = recommended_sampling(folder);
        Ok(policy)
    }

    /// Puts a network and a tokenizer together; `folder` is what errors name.
    ///
    /// # Errors
    /// When the tokenizer knows more ids than the network, or its chat template cannot be extended turn by turn.
    pub fn new(model: Qwen2, tokenizer: Tokenizer, folder: PathBuf) -> Result<Policy, Error> {
        let (tokens, rows) = (tokenizer.vocab_size(), model.config().vocab_size);
        if tokens > rows {
            return Err(Error::WrongTokenizer { folder, tokens, rows });
        }
        let chat = ChatFormat::probe(&tokenizer)?;
        Ok(Policy { model, tokenizer, chat, recommended_sampling: None })
    }

    /// Number of ids that may be sampled: those the tokenizer knows.
    pub fn vocabulary(&self) -> usize {
        self.tokenizer.vocab_size()
    }

    /// Ids that end a turn.
    pub fn stop_ids(&self) -> Vec<u32> {
        let mut stop = vec![self.chat.turn_end()];
        stop.extend(self.tokenizer.eos_ids().iter().filter(|id| **id != self.chat.turn_end()));
        stop
    }
}

/// The sampling keys of a folder's `generation_config.json`, if it has any.
fn recommended_sampling(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("generation_config.json")).ok()?;
    let config: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).ok()?;
    let keys = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "do_sample"];
    let found: Vec<String> = keys.iter().filter_map(|key| Some(format!("{key} = {}", config.get(*key)?))).collect();
    (!found.is_empty()).then(|| found.join(", "))
}
