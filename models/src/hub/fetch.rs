//! Downloading through `hf-hub`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde_json::Value;

use super::HubError;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Files that a repository may or may not have. They are fetched before the weights, so that a snapshot with weights
/// is a whole one.
const SMALL: [&str; 5] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
];
/// How often a branch may move while we download from it.
const ATTEMPTS: usize = 3;

/// How much of a repository is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but the weights.
    Description,
    /// Everything.
    Whole,
}

/// One repository at one revision, and who to ask for it.
struct Remote<'a> {
    model: &'a str,
    revision: &'a str,
    endpoint: String,
    with_token: bool,
    api: Api,
    repo: ApiRepo,
    cache: CacheRepo,
}

/// The snapshot folder of `model`, fetched as far as it is not in the cache: of `part` at least.
pub(super) fn snapshot(model: &str, revision: &str, part: Part) -> Result<PathBuf, HubError> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
    let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
    let endpoint = endpoint.trim().trim_end_matches('/').to_owned();
    let unreachable = |reason: String| HubError::Unreachable {
        model: model.to_owned(),
        endpoint: endpoint.clone(),
        file: CONFIG.to_owned(),
        reason,
    };
    // `Cache::from_env` knows HF_HOME only, and panics where there is no home folder.
    let cache = match (set("HF_HUB_CACHE"), set("HF_HOME"), env::home_dir()) {
        (Some(cache), ..) => Cache::new(cache.into()),
        (_, Some(home), _) => Cache::new(Path::new(&home).join("hub")),
        (.., Some(home)) => Cache::new(home.join(".cache/huggingface/hub")),
        _ => return Err(unreachable("there is no home folder for the cache: set HF_HOME".to_owned())),
    };
    // `from_env` does not read HF_TOKEN either; it wins over the token file of a login.
    let token = set("HF_TOKEN").map(|token| token.trim().to_owned()).or_else(|| cache.token());
    let with_token = token.is_some();
    let builder = ApiBuilder::from_cache(cache.clone())
        .with_endpoint(endpoint.clone())
        .with_token(token)
        .with_retries(3)
        .with_user_agent("rlver", env!("CARGO_PKG_VERSION"));
    let api = builder.build().map_err(|e| unreachable(e.to_string()))?;
    let repo = Repo::with_revision(model.to_owned(), RepoType::Model, revision.to_owned());
    let remote = Remote {
        model,
        revision,
        with_token,
        repo: api.repo(repo.clone()),
        api,
        cache: cache.repo(repo),
        endpoint: endpoint.clone(),
    };
    if let Some(folder) = remote.cached(part) {
        return Ok(folder);
    }
    for _ in 0..ATTEMPTS {
        if let Some(folder) = remote.download(part)? {
            return Ok(folder);
        }
    }
    Err(unreachable(format!("the branch {revision:?} moved during each of {ATTEMPTS} attempts")))
}

impl Remote<'_> {
    /// The snapshot, if what `part` needs is all in the cache.
    fn cached(&self, part: Part) -> Option<PathBuf> {
        let folder = self.in_cache(CONFIG)?.parent()?.to_owned();
        let described = part == Part::Description && self.in_cache(SMALL[0]).is_some();
        if described || self.in_cache(WEIGHTS).is_some() {
            return Some(folder);
        }
        let shards = self.shards(&self.in_cache(INDEX)?).ok()?;
        shards.iter().all(|shard| self.in_cache(shard).is_some()).then_some(folder)
    }

    /// A file of the revision that the cache already has. `hf-hub` finds a revision by its ref; a commit that another
    /// program fetched has none and is found by the snapshot's name.
    fn in_cache(&self, file: &str) -> Option<PathBuf> {
        let by_commit = || Some(self.cache.pointer_path(self.revision).join(file)).filter(|path| path.exists());
        self.cache.get(file).or_else(by_commit)
    }

    /// Fetches every file of `part`; `None` if the revision came to mean another commit halfway.
    fn download(&self, part: Part) -> Result<Option<PathBuf>, HubError> {
        let mut paths = vec![self.require(CONFIG)?];
        for file in SMALL {
            paths.extend(self.fetch(file)?);
        }
        if part == Part::Description {
            // What is small is all.
        } else if let Some(weights) = self.fetch(WEIGHTS)? {
            paths.push(weights);
        } else {
            let index = self.fetch(INDEX)?.ok_or_else(|| self.missing(&format!("{WEIGHTS} or {INDEX}")))?;
            for shard in self.shards(&index)? {
                paths.push(self.require(&shard)?);
            }
            paths.push(index);
        }
        let folder = paths[0].parent().map(Path::to_owned);
        Ok(folder.filter(|folder| paths.iter().all(|path| path.parent() == Some(folder))))
    }

    fn require(&self, file: &str) -> Result<PathBuf, HubError> {
        self.fetch(file)?.ok_or_else(|| self.missing(file))
    }

    /// A file from the cache or the hub; `None` where the repository does not have it.
    fn fetch(&self, file: &str) -> Result<Option<PathBuf>, HubError> {
        if let Some(path) = self.in_cache(file) {
            return Ok(Some(path));
        }
        let meta = match self.api.metadata(&self.repo.url(file)) {
            Ok(meta) => meta,
            Err(e) if status(&e) == Some(404) => return Ok(None),
            Err(e) => return Err(self.failure(file, &e)),
        };
        let path = self.repo.download(file).map_err(|e| self.failure(file, &e))?;
        let (expected, found) = (meta.size() as u64, fs::metadata(&path).map_or(0, |m| m.len()));
        if expected != found {
            // The snapshot's entry is a link to the blob: both must go, or the cache would hand the stump out.
            let blob = fs::canonicalize(&path);
            for stump in [Ok(path), blob].into_iter().flatten() {
                let _ = fs::remove_file(stump);
            }
            return Err(HubError::Truncated { model: self.model.to_owned(), file: file.to_owned(), expected, found });
        }
        Ok(Some(path))
    }

    /// The shard files an index names, sorted.
    fn shards(&self, index: &Path) -> Result<Vec<String>, HubError> {
        let unusable =
            |reason: String| HubError::Unusable { model: self.model.to_owned(), file: INDEX.to_owned(), reason };
        let text = fs::read(index).map_err(|e| unusable(e.to_string()))?;
        let json: Value = serde_json::from_slice(&text).map_err(|e| unusable(e.to_string()))?;
        let map = json["weight_map"].as_object().ok_or_else(|| unusable("there is no `weight_map`".to_owned()))?;
        let mut shards: Vec<String> = map.values().filter_map(|v| v.as_str().map(str::to_owned)).collect();
        shards.sort();
        shards.dedup();
        let plain = |name: &String| name.ends_with(".safetensors") && !name.contains(['/', '\\']);
        match shards.iter().find(|name| !plain(name)) {
            Some(name) => Err(unusable(format!("it names {name:?} as a file of weights"))),
            None if shards.is_empty() => Err(unusable("`weight_map` is empty".to_owned())),
            None => Ok(shards),
        }
    }

    fn missing(&self, file: &str) -> HubError {
        HubError::NotFound {
            model: self.model.to_owned(),
            endpoint: self.endpoint.clone(),
            revision: self.revision.to_owned(),
            file: file.to_owned(),
        }
    }

    fn failure(&self, file: &str, error: &ApiError) -> HubError {
        match status(error) {
            Some(404) => self.missing(file),
            Some(status @ (401 | 403)) => HubError::Gated {
                model: self.model.to_owned(),
                endpoint: self.endpoint.clone(),
                status,
                with_token: self.with_token,
            },
            _ => HubError::Unreachable {
                model: self.model.to_owned(),
                endpoint: self.endpoint.clone(),
                file: file.to_owned(),
                reason: error.to_string(),
            },
        }
    }
}

/// The HTTP status behind an error. `hf-hub` does not re-export its client's error type, but it does print the status.
fn status(error: &ApiError) -> Option<u16> {
    match error {
        ApiError::RequestError(inner) => inner.to_string().strip_prefix("http status: ")?.trim().parse().ok(),
        ApiError::TooManyRetries(inner) => status(inner),
        _ => None,
    }
}
