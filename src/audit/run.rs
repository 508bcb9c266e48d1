use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use rlver_models::qwen2::{HeadKind, Qwen2};
use rlver_models::weights;

use crate::Error;
use crate::device::DeviceChoice;
use crate::dialogue::{Profile, ProfileSet};
use crate::evaluate;
use crate::metrics::{Metrics, MetricsLog};
use crate::recipe::Recipe;
use crate::rollout::{Episode, Job, Policy};
use crate::train::{RunFolder, load_critic, load_policy, load_profiles, step_jobs};
use crate::user::{UserChoice, UserEngine};

/// What the dialogues of a file were held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Evaluation before training.
    Before,
    /// A training step.
    Step(usize),
    /// Evaluation after a step.
    Evaluation(usize),
    /// Evaluation after training.
    After,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        match name {
            "eval-before" => Some(Kind::Before),
            "eval-after" => Some(Kind::After),
            _ => match name.strip_prefix("eval-step-") {
                Some(step) => step.parse().ok().map(Kind::Evaluation),
                None => name.strip_prefix("step-")?.parse().ok().map(Kind::Step),
            },
        }
    }

    /// For the order of the audit: a step comes before the evaluation after it.
    fn order(self) -> (usize, usize) {
        match self {
            Kind::Before => (0, 0),
            Kind::Step(step) => (step, 1),
            Kind::Evaluation(step) => (step, 2),
            Kind::After => (usize::MAX, 3),
        }
    }
}

/// A run folder with what is needed to derive its record again.
pub(super) struct Run {
    folder: RunFolder,
    pub(super) recipe: Recipe,
    pub(super) device: Device,
    /// Tokenizer and chat format of the run; the network is some network of the run and not looked at.
    pub(super) policy: Policy,
    pub(super) metrics: Vec<Metrics>,
    train: ProfileSet,
    evaluation: ProfileSet,
    people: HashMap<String, Arc<Profile>>,
    /// The run's user, if it can be run again.
    pub(super) user: Option<Box<dyn UserEngine>>,
}

impl Run {
    pub(super) fn open(root: &Path, note: &mut dyn FnMut(String)) -> Result<Run, Error> {
        let recipe_file = root.join("recipe.toml");
        let recipe = Recipe::load(&recipe_file, &[])?;
        let folder = RunFolder::existing(root);
        let device = DeviceChoice::parse(&recipe.run.device).expect("checked with the recipe").open();
        let train = load_profiles(&recipe.user.profiles, ProfileSet::builtin_train)?
            .filtered(|p| recipe.user.languages.contains(&p.language()))?;
        let evaluation = load_profiles(&recipe.eval.profiles, ProfileSet::builtin_heldout)?;
        let people = train.iter().chain(evaluation.iter()).map(|p| (p.id.clone(), p.clone())).collect();
        let policy = match newest_policy(&folder) {
            Some(path) => Policy::load(&path, &device)?,
            None => load_policy(&recipe.model.policy, &recipe.model.revision, &device)?,
        };
        let user = match UserChoice::parse(&recipe.user.engine) {
            Ok(UserChoice::Llm) | Err(_) => None,
            Ok(UserChoice::Replay(run)) if !run.exists() => None,
            Ok(_) => Some(recipe.open_users()?),
        };
        if user.is_none() {
            note(format!(
                "users \"{}\" are not run again: their recorded answers are read again instead",
                recipe.user.engine
            ));
        }
        let metrics = MetricsLog::read(folder.metrics())?;
        Ok(Run { folder, recipe, device, policy, metrics, train, evaluation, people, user })
    }

    /// The files of episodes in the order in which they came about.
    pub(super) fn files(&self) -> Result<Vec<(String, Kind)>, Error> {
        let folder = self.folder.root().join("episodes");
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let entries = std::fs::read_dir(&folder).map_err(|e| Error::read(&folder, e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut files: Vec<(String, Kind)> = names
            .filter_map(|name| {
                let name = name.strip_suffix(".jsonl")?.to_string();
                let kind = Kind::of(&name)?;
                Some((name, kind))
            })
            .collect();
        files.sort_by_key(|(_, kind)| kind.order());
        Ok(files)
    }

    pub(super) fn episodes(&self, name: &str) -> Result<Vec<Episode>, Error> {
        Ok(self.folder.read_episodes(name)?.unwrap_or_default())
    }

    /// The dialogues that should have been held.
    pub(super) fn jobs(&self, kind: Kind) -> Vec<Job> {
        match kind {
            Kind::Step(step) => step_jobs(&self.recipe, &self.train, step),
            _ => evaluate::jobs(&self.evaluation, (self.recipe.run.seed, self.recipe.eval.seeds)),
        }
    }

    pub(super) fn person(&self, id: &str) -> Option<&Arc<Profile>> {
        self.people.get(id)
    }

    /// The policy that training started from, if it is kept.
    fn first_policy(&self) -> Result<Option<Policy>, Error> {
        let model = &self.recipe.model;
        if !is_kept(&model.policy) {
            return Ok(None);
        }
        load_policy(&model.policy, &model.revision, &self.device).map(Some)
    }

    /// The network that sampled a file's dialogues, if it is kept.
    pub(super) fn sampled_by(&self, kind: Kind) -> Result<Option<Qwen2>, Error> {
        match kind {
            Kind::Before | Kind::Step(0 | 1) => Ok(self.first_policy()?.map(|policy| policy.model)),
            Kind::Step(step) => self.checkpoint(step - 1, "policy", HeadKind::Vocabulary),
            Kind::Evaluation(step) => self.checkpoint(step, "policy", HeadKind::Vocabulary),
            Kind::After => self.checkpoint(self.recipe.run.steps, "policy", HeadKind::Vocabulary),
        }
    }

    /// The critic that valued a step's states, if it is kept.
    pub(super) fn critic_of(&self, step: usize) -> Result<Option<Qwen2>, Error> {
        if step > 1 {
            return self.checkpoint(step - 1, "critic", HeadKind::Value);
        }
        match self.first_policy()? {
            Some(policy) if self.recipe.model.critic.is_empty() || is_kept(&self.recipe.model.critic) => {
                Ok(Some(load_critic(&self.recipe, &policy, &self.device)?.model))
            }
            _ => Ok(None),
        }
    }

    fn checkpoint(&self, step: usize, network: &str, head: HeadKind) -> Result<Option<Qwen2>, Error> {
        let path = self.folder.checkpoint(step).join(network);
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(weights::load(&path, head, &self.device)?))
    }
}

/// Whether a model can be had without a download.
fn is_kept(name: &str) -> bool {
    name.starts_with("builtin:") || Path::new(name).exists()
}

/// A policy folder of the run: the final one, or that of the newest checkpoint.
fn newest_policy(folder: &RunFolder) -> Option<PathBuf> {
    let checkpoints = std::fs::read_dir(folder.root().join("checkpoints")).into_iter().flatten();
    let mut kept: Vec<PathBuf> = checkpoints.filter_map(|entry| Some(entry.ok()?.path().join("policy"))).collect();
    kept.sort();
    kept.push(folder.policy());
    kept.into_iter().rev().find(|path| path.join("config.json").exists())
}
