use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rlver_models::qwen2::{HeadKind, Qwen2, Qwen2Config};
use rlver_models::tokenizer::Tokenizer;
use rlver_models::{hub, weights};

use crate::Error;
use crate::rollout::Policy;

/// The name of the policy that is part of the binary.
pub(crate) const PICO: &str = "builtin:pico";

macro_rules! pico {
    ($file:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/pico/", $file))
    };
}

/// Loads the policy `name` stands for: `builtin:pico`, a folder, or a Hugging Face id.
///
/// # Errors
/// When it cannot be found, downloaded or read.
pub fn load_policy(name: &str, revision: &str, device: &Device) -> Result<Policy, Error> {
    if name == PICO {
        return Policy::new(load_pico(HeadKind::Vocabulary, device)?, load_tokenizer(name)?, PathBuf::from(PICO));
    }
    Policy::load(&resolve(name, revision)?, device)
}

/// Loads a policy's tokenizer alone.
///
/// # Errors
/// As [`load_policy`].
pub fn load_tokenizer(name: &str) -> Result<Tokenizer, Error> {
    if name == PICO {
        return Ok(Tokenizer::from_bytes(pico!("tokenizer.json"), pico!("tokenizer_config.json"))?);
    }
    Ok(Tokenizer::load(&hub::describe(name, None)?)?)
}

/// Loads a policy's network alone; a folder needs no tokenizer for it.
///
/// # Errors
/// As [`load_policy`].
pub fn load_network(name: &str, revision: &str, device: &Device) -> Result<Qwen2, Error> {
    if name == PICO {
        return load_pico(HeadKind::Vocabulary, device);
    }
    Ok(weights::load(&resolve(name, revision)?, HeadKind::Vocabulary, device)?)
}

/// Reads a policy's architecture, without its weights, which are not downloaded for it.
///
/// # Errors
/// As [`load_policy`].
pub fn load_config(name: &str, revision: &str) -> Result<Qwen2Config, Error> {
    if name == PICO {
        return Ok(Qwen2Config::from_json(Path::new(PICO), pico!("config.json"))?);
    }
    Ok(Qwen2Config::load(&hub::describe(name, revision_of(revision))?)?)
}

/// Loads a critic from a critic's or a policy's checkpoint.
pub(crate) fn load_critic(name: &str, revision: &str, device: &Device) -> Result<Qwen2, Error> {
    if name == PICO {
        return load_pico(HeadKind::Value, device);
    }
    Ok(weights::load(&resolve(name, revision)?, HeadKind::Value, device)?)
}

fn load_pico(head: HeadKind, device: &Device) -> Result<Qwen2, Error> {
    Ok(weights::load_embedded(Path::new(PICO), pico!("config.json"), pico!("model.safetensors"), head, device)?)
}

fn resolve(name: &str, revision: &str) -> Result<PathBuf, Error> {
    Ok(hub::resolve(name, revision_of(revision))?)
}

/// An empty revision is the repository's main branch.
fn revision_of(revision: &str) -> Option<&str> {
    (!revision.is_empty()).then_some(revision)
}
