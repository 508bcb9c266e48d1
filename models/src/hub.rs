//! Models by name: a local folder, or a repository of the Hugging Face hub fetched once into its cache.
//!
//! `HF_HOME` (or `HF_HUB_CACHE`) says where the cache is, `HF_ENDPOINT` names a mirror, `HF_TOKEN` opens gated
//! repositories. A model that is complete in the cache needs no network.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a model could not be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HubError {
    /// The name is neither a folder nor the id of a hub repository.
    #[error(
        "{model:?} is neither a folder nor an id like \"Qwen/Qwen2.5-0.5B-Instruct\"; \
         give a model folder's path or such an id"
    )]
    NotAModel {
        /// The name as given.
        model: String,
    },

    /// The crate was built without the hub.
    #[error(
        "{model:?} is not a folder here, and this build cannot download it: build with the cargo feature `hub`, \
         or download the model yourself and give its folder"
    )]
    Disabled {
        /// The name as given.
        model: String,
    },

    /// The hub does not have what was asked for.
    #[error(
        "{model:?} is neither a folder here nor found on {endpoint} (revision {revision:?}, {file}); \
         check the spelling and the revision"
    )]
    NotFound {
        /// The repository's id.
        model: String,
        /// Where it was looked for.
        endpoint: String,
        /// The revision asked for.
        revision: String,
        /// What was missing.
        file: String,
    },

    /// The hub wants to know who asks.
    #[error(
        "{endpoint} refuses {model:?} (HTTP {status}): {}", if *with_token {
            "the token was not accepted; ask for access on the model's page, or set HF_TOKEN to a token that has it"
        } else {
            "it is gated or private, or does not exist; accept its terms on the model's page and set HF_TOKEN"
        }
    )]
    Gated {
        /// The repository's id.
        model: String,
        /// Who refused.
        endpoint: String,
        /// 401 or 403.
        status: u16,
        /// Whether a token was sent.
        with_token: bool,
    },

    /// The hub could not be reached, or broke off.
    #[error(
        "{model:?} is not a folder here, and fetching {file} from {endpoint} failed: {reason}; check the network \
         (HF_ENDPOINT names a mirror) and run again, or give the folder of a downloaded model"
    )]
    Unreachable {
        /// The repository's id.
        model: String,
        /// Who was asked.
        endpoint: String,
        /// The file.
        file: String,
        /// What went wrong.
        reason: String,
    },

    /// A file arrived with the wrong size. It was removed again.
    #[error("{file} of {model:?} came as {found} bytes, expected {expected}; run again to fetch the rest")]
    Truncated {
        /// The repository's id.
        model: String,
        /// The file.
        file: String,
        /// Size announced, in bytes.
        expected: u64,
        /// Size received, in bytes.
        found: u64,
    },

    /// A file of the repository is not what it should be.
    #[error("{file} of {model:?} is unusable: {reason}; use a repository with safetensors weights")]
    Unusable {
        /// The repository's id.
        model: String,
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The folder of a model: `model` itself if it is one, otherwise the cached snapshot of that hub repository, downloaded
/// as far as it is missing. `revision` is a branch, tag or commit; `None` means `main`.
///
/// # Errors
/// See [`HubError`]; every message says what to do.
pub fn resolve(model: &str, revision: Option<&str>) -> Result<PathBuf, HubError> {
    #[cfg(feature = "hub")]
    return folder(model, |model| fetch::snapshot(model, revision.unwrap_or("main"), fetch::Part::Whole));
    #[cfg(not(feature = "hub"))]
    disabled(model, revision)
}

/// As [`resolve`], for those who need a model's configuration and tokenizer: no weights are downloaded, and the folder may
/// have none.
///
/// # Errors
/// As [`resolve`].
pub fn describe(model: &str, revision: Option<&str>) -> Result<PathBuf, HubError> {
    #[cfg(feature = "hub")]
    return folder(model, |model| fetch::snapshot(model, revision.unwrap_or("main"), fetch::Part::Description));
    #[cfg(not(feature = "hub"))]
    disabled(model, revision)
}

#[cfg(not(feature = "hub"))]
fn disabled(model: &str, _: Option<&str>) -> Result<PathBuf, HubError> {
    folder(model, |model| Err(HubError::Disabled { model: model.to_owned() }))
}

/// The folder that `model` is, or the one that `fetch` finds for a repository's id.
fn folder(model: &str, fetch: impl FnOnce(&str) -> Result<PathBuf, HubError>) -> Result<PathBuf, HubError> {
    if Path::new(model).is_dir() {
        return Ok(PathBuf::from(model));
    }
    if !is_repository_id(model) {
        return Err(HubError::NotAModel { model: model.to_owned() });
    }
    fetch(model)
}

/// `owner/name` in the hub's alphabet: nothing that could be meant as a path, or become one.
fn is_repository_id(model: &str) -> bool {
    let part = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && !s.contains("..")
    };
    model.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
}

#[cfg(feature = "hub")]
mod fetch;
