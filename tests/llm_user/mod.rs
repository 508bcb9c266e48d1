//! Users played by a language model, against servers of ours and a real one.

mod faults;
mod local;
mod real_server;
pub(crate) mod rollout;
pub(crate) mod server;
mod session;

use std::path::PathBuf;

/// Where `tests/fetch_models.sh` puts models.
fn models() -> Option<PathBuf> {
    let set = std::env::var_os("RLVER_MODELS").map(PathBuf::from);
    set.or_else(|| Some(std::env::home_dir()?.join(".cache/rlver/models")))
}
