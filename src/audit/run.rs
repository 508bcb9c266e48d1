use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rlver_models::qwen2::{HeadKind, Qwen2};
use rlver_models::weights;

use crate::Error;
use crate::device::DeviceChoice;
use crate::dialogue::ProfileSet;
use crate::evaluate;
use crate::metrics::{Metrics, MetricsLog};
use crate::recipe::{Environment, Recipe};
use crate::rollout::{Episode, Job, Policy};
use crate::train::curriculum::{Controller, challenging_user};
use crate::train::{RunFolder, Sample, Stage, curriculum_at, load_critic, load_policy, load_profiles, sample};
use crate::user::builtin::BuiltinUser;
use crate::user::{UserChoice, UserEngine};

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
    /// The run's user, if it can be run again.
    user: Option<Box<dyn UserEngine>>,
    /// The user of training, where it is another one.
    challenging: Option<BuiltinUser>,
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
        let challenging = (recipe.user.environment == Environment::Challenging).then(challenging_user);
        let metrics = MetricsLog::read(folder.metrics())?;
        Ok(Run { folder, recipe, device, policy, metrics, train, evaluation, user, challenging })
    }

    /// The files of episodes in the order in which they came about.
    pub(super) fn files(&self) -> Result<Vec<(String, Stage)>, Error> {
        let folder = self.folder.root().join("episodes");
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let entries = std::fs::read_dir(&folder).map_err(|e| Error::read(&folder, e))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut files: Vec<(String, Stage)> = names
            .filter_map(|name| {
                let name = name.strip_suffix(".jsonl")?.to_string();
                let stage = Stage::from_name(&name)?;
                Some((name, stage))
            })
            .collect();
        files.sort_by_key(|(_, stage)| *stage);
        Ok(files)
    }

    pub(super) fn episodes(&self, name: &str) -> Result<Vec<Episode>, Error> {
        Ok(self.folder.read_episodes(name)?.unwrap_or_default())
    }

    /// The user of a file's dialogues, if it can be run again.
    pub(super) fn user(&self, stage: Stage) -> Option<&dyn UserEngine> {
        match &self.challenging {
            Some(user) if !stage.is_evaluation() => Some(user),
            _ => self.user.as_deref(),
        }
    }

    /// Holds a file's dialogues again with what is recorded of them: who should have been talked with, and which
    /// dialogues a step learned from. `curriculum` is as it was before the step.
    pub(super) fn hold_again(
        &self,
        stage: Stage,
        recorded: Vec<Episode>,
        curriculum: Option<&Controller>,
    ) -> Result<(Sample, Vec<Job>), Error> {
        let Stage::Step(step) = stage else {
            let jobs = evaluate::jobs(&self.evaluation, (self.recipe.run.seed, self.recipe.eval.seeds));
            return Ok((Sample::of(recorded), jobs));
        };
        let mut all = Vec::new();
        let mut rest = recorded.into_iter();
        let mut held = sample(&self.recipe, &self.train, step, curriculum, |jobs, greedy| {
            // Greedy dialogues are not recorded.
            let n = if greedy { 0 } else { jobs.len() };
            all.extend(jobs.into_iter().take(n));
            Ok(rest.by_ref().take(n).collect())
        })?;
        held.episodes.extend(rest);
        held.greedy_rewards = None;
        Ok((held, all))
    }

    /// The curriculum as it was after a step, from its checkpoint.
    pub(super) fn curriculum_at(&self, step: usize) -> Result<Option<Controller>, Error> {
        curriculum_at(&self.folder, step)
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
    pub(super) fn sampled_by(&self, kind: Stage) -> Result<Option<Qwen2>, Error> {
        match stage {
            Stage::Before | Stage::Step(1) => Ok(self.first_policy()?.map(|policy| policy.model)),
            Stage::Step(step) => self.checkpoint(step - 1, "policy", HeadStage::Vocabulary),
            Stage::Evaluation(step) => self.checkpoint(step, "policy", HeadStage::Vocabulary),
            Stage::After => self.checkpoint(self.recipe.run.steps, "policy", HeadStage::Vocabulary),
        }
    }

    /// The critic that valued a step's states, if it is kept.
    pub(super) fn critic_of(&self, step: usize) -> Result<Option<Qwen2>, Error> {
        if step > 1 {
            return self.checkpoint(step - 1, "critic", HeadStage::Value);
        }
        match self.first_policy()? {
            Some(policy) if self.recipe.model.critic.is_empty() || is_kept(&self.recipe.model.critic) => {
                Ok(Some(load_critic(&self.recipe, &policy, &self.device)?.model))
            }
            _ => Ok(None),
        }
    }

    fn checkpoint(&self, step: usize, network: &str, head: HeadStage) -> Result<Option<Qwen2>, Error> {
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
