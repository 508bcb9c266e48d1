use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::files::write_whole;
use crate::Error;
use crate::recipe::{LlmSection, Recipe};
use crate::rollout::Episode;

/// A run's folder and the names of what lies in it.
#[derive(Debug, Clone)]
pub struct RunFolder {
    root: PathBuf,
}

impl RunFolder {
    /// Makes a new run folder with the resolved recipe in it.
    ///
    /// # Errors
    /// When it exists already or cannot be written.
    pub fn create(root: &Path, recipe: &Recipe) -> Result<RunFolder, Error> {
        if root.exists() {
            return Err(Error::RunExists(root.into()));
        }
        std::fs::create_dir_all(root).map_err(|e| Error::write(root, e))?;
        let folder = RunFolder { root: root.into() };
        folder.write_text("recipe.toml", &recipe.to_toml())?;
        Ok(folder)
    }

    /// Opens a run folder to continue it with `recipe`.
    ///
    /// # Errors
    /// When there is no checkpoint, or the recipe differs in more than may change.
    pub fn reopen(root: &Path, recipe: &Recipe) -> Result<RunFolder, Error> {
        let path = root.join("recipe.toml");
        if !path.exists() {
            return Err(Error::NothingToResume(root.into()));
        }
        let recorded = Recipe::load(&path, &[])?;
        if let Some((key, was, now)) = first_difference(&recorded, recipe) {
            return Err(Error::RecipeChanged { folder: root.into(), key, was, now });
        }
        let folder = RunFolder { root: root.into() };
        folder.write_text("recipe.toml", &recipe.to_toml())?;
        Ok(folder)
    }

    /// A run folder that is there already, to look at.
    pub(crate) fn existing(root: &Path) -> RunFolder {
        RunFolder { root: root.into() }
    }

    /// A resumable checkpoint.
    pub(crate) fn checkpoint(&self, step: usize) -> PathBuf {
        self.checkpoints().join(format!("step-{step:06}"))
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The final model.
    pub fn policy(&self) -> PathBuf {
        self.root.join("policy")
    }

    /// One record per step.
    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// TensorBoard's event files.
    pub fn tensorboard(&self) -> PathBuf {
        self.root.join("tensorboard")
    }

    /// The learning curve.
    pub fn curve(&self) -> PathBuf {
        self.root.join("curve.svg")
    }

    pub(super) fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    pub(super) fn write_text(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.root.join(name);
        write_whole(&path, |file| file.write_all(text.as_bytes()))
    }

    pub(super) fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value).expect("plain data");
        self.write_text(name, &(text + "\n"))
    }

    /// Reads episodes written by [`RunFolder::write_episodes`]; `None` when there are none of that name.
    pub(crate) fn read_episodes(&self, name: &str) -> Result<Option<Vec<Episode>>, Error> {
        let path = self.root.join("episodes").join(format!("{name}.jsonl"));
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(|e| Error::read(&path, e))?;
        let parse = |(i, line): (usize, &str)| {
            serde_json::from_str(line)
                .map_err(|e| Error::Damaged { path: path.clone(), problem: format!("line {}: {e}", i + 1) })
        };
        text.lines().enumerate().map(parse).collect::<Result<_, _>>().map(Some)
    }

    /// Writes episodes as JSON lines under `episodes/`.
    pub(super) fn write_episodes(&self, name: &str, episodes: &[Episode]) -> Result<(), Error> {
        let folder = self.root.join("episodes");
        std::fs::create_dir_all(&folder).map_err(|e| Error::write(&folder, e))?;
        write_whole(&folder.join(format!("{name}.jsonl")), |file| {
            for episode in episodes {
                serde_json::to_writer(&mut *file, episode)?;
                file.write_all(b"\n")?;
            }
            Ok(())
        })
    }
}

/// The first key, outside those that may change, in which two recipes differ.
fn first_difference(was: &Recipe, now: &Recipe) -> Option<(String, String, String)> {
    let neutral = |recipe: &Recipe| {
        let mut recipe = recipe.clone();
        let default = Recipe::default();
        recipe.run.steps = default.run.steps;
        recipe.run.out = default.run.out.clone();
        recipe.checkpoint = default.checkpoint.clone();
        recipe.eval = default.eval.clone();
        let reached = recipe.llm;
        recipe.llm = LlmSection {
            model: reached.model,
            variant: reached.variant,
            temperature: reached.temperature,
            top_p: reached.top_p,
            max_tokens: reached.max_tokens,
            ..default.llm.clone()
        };
        toml::Table::try_from(recipe).expect("plain data")
    };
    let (was, now) = (neutral(was), neutral(now));
    was.iter().find_map(|(section, keys)| {
        keys.as_table()?.iter().find_map(|(key, value)| {
            let other = now.get(section)?.get(key)?;
            (value != other).then(|| (format!("{section}.{key}"), value.to_string(), other.to_string()))
        })
    })
}
