use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rlver_models::qwen2::{HeadKind, Qwen2};
use rlver_models::weights;

use super::{AuditError, File};
use crate::Error;
use crate::device::DeviceChoice;
use crate::dialogue::ProfileSet;
use crate::evaluate;
use crate::metrics::{Metrics, MetricsLog};
use crate::recipe::Recipe;
use crate::rollout::{Episode, Policy};
use crate::train::curriculum::Controller;
use crate::train::{
    RunFolder, Sample, Stage, curriculum_at, first_curriculum, load_critic, load_policy, load_profiles, sample,
};
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
    /// The run's users, if they can be run again.
    users: Option<Box<dyn UserEngine>>,
    /// Those of evaluations, where they are others.
    evaluated_with: Option<Box<dyn UserEngine>>,
    /// The curriculum as it was after step `seen`.
    curriculum: Option<Controller>,
    seen: usize,
}

impl Run {
    /// `device` is the run's own when empty.
    pub(super) fn open(root: &Path, device: &str, note: &mut dyn FnMut(String)) -> Result<Run, Error> {
        let recipe_file = root.join("recipe.toml");
        let elsewhere = if device.is_empty() { vec![] } else { vec![format!("run.device={device}")] };
        let recipe = Recipe::load(&recipe_file, &elsewhere)?;
        let folder = RunFolder::existing(root);
        let device = DeviceChoice::parse(&recipe.run.device).expect("checked with the recipe").open();
        let train = load_profiles(&recipe.user.profiles, ProfileSet::builtin_train)?
            .filtered(|p| recipe.user.languages.contains(&p.language()))?;
        let evaluation = load_profiles(&recipe.eval.profiles, ProfileSet::builtin_heldout)?;
        let policy = match newest_policy(&folder) {
            Some(path) => Policy::load(&path, &device)?,
            None => load_policy(&recipe.model.policy, &recipe.model.revision, &device)?,
        };
        let users = match UserChoice::parse(&recipe.user.engine) {
            Ok(UserChoice::Llm) | Err(_) => None,
            Ok(UserChoice::Replay(run)) if !run.exists() => None,
            Ok(_) => Some(recipe.open_users()?),
        };
        if users.is_none() {
            note(format!(
                "users \"{}\" are not run again: their recorded answers are read again instead",
                recipe.user.engine
            ));
        }
        let metrics = MetricsLog::read(folder.metrics())?;
        let evaluated_with = recipe.open_evaluation_users()?;
        let curriculum = first_curriculum(&recipe);
        Ok(Run {
            folder,
            recipe,
            device,
            policy,
            metrics,
            train,
            evaluation,
            users,
            evaluated_with,
            curriculum,
            seen: 0,
        })
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
                // Greedy dialogues are looked at with their step.
                let kind = Stage::from_name(&name).filter(|kind| !matches!(kind, Stage::Greedy(_)))?;
                Some((name, kind))
            })
            .collect();
        files.sort_by_key(|(_, kind)| *kind);
        Ok(files)
    }

    fn episodes(&self, name: &str) -> Result<Vec<Episode>, Error> {
        Ok(self.folder.read_episodes(name)?.unwrap_or_default())
    }

    /// The users that a file's dialogues were held with, if they can be run again.
    pub(super) fn users(&self, kind: Stage) -> Option<&dyn UserEngine> {
        match &self.evaluated_with {
            Some(users) if kind.is_evaluation() => Some(users.as_ref()),
            _ => self.users.as_deref(),
        }
    }

    /// Reads a file of episodes (with a step's greedy ones before it) and finds out what it should hold.
    pub(super) fn stage(
        &mut self,
        name: &str,
        kind: Stage,
        note: &mut dyn FnMut(String),
    ) -> Result<Vec<File>, AuditError> {
        let episodes = self.episodes(name)?;
        let Stage::Step(step) = kind else {
            let jobs = evaluate::jobs(&self.evaluation, (self.recipe.run.seed, self.recipe.eval.seeds));
            let held = Sample { episodes, ..Sample::default() };
            return Ok(vec![File { name: name.into(), kind, held, jobs, rows: Vec::new(), states_known: true }]);
        };
        let states_known = self.find_curriculum(step)?;
        if !states_known {
            note(format!(
                "{name}: in which state people came is not checked, nor what follows from it: that takes the dialogues of \
                 all steps before, or the checkpoint of the step before"
            ));
        }
        let greedy_name = Stage::Greedy(step).name();
        let (mut rest, mut greedy_rest) = (episodes.into_iter(), self.episodes(&greedy_name)?.into_iter());
        let (mut jobs, mut greedy_jobs) = (Vec::new(), Vec::new());
        let controller = self.curriculum.as_ref().filter(|_| states_known);
        // What training asked for, answered from the record.
        let mut held = sample(&self.recipe, &self.train, step, controller, |asked, greedily| {
            let (rest, jobs) = if greedily { (&mut greedy_rest, &mut greedy_jobs) } else { (&mut rest, &mut jobs) };
            let recorded = rest.take(asked.len()).collect();
            jobs.extend(asked);
            Ok(recorded)
        })?;
        held.episodes.extend(rest);
        held.greedy.extend(greedy_rest);
        if let Some(controller) = self.curriculum.as_mut().filter(|_| states_known) {
            controller.record(held.outcomes(self.recipe.curriculum.pass_emotion), &self.recipe.curriculum);
            self.seen = step;
        }
        let greedy = Sample { episodes: std::mem::take(&mut held.greedy), ..Sample::default() };
        let greedy = File {
            name: greedy_name,
            kind: Stage::Greedy(step),
            held: greedy,
            jobs: greedy_jobs,
            rows: Vec::new(),
            states_known,
        };
        let rows = held.rows(&self.recipe);
        let file = File { name: name.into(), kind, held, jobs, rows, states_known };
        let both = [greedy, file].into_iter();
        Ok(both.filter(|file| file.kind == kind || !file.jobs.is_empty() || !file.held.episodes.is_empty()).collect())
    }

    /// Brings the curriculum to where it was before a step; whether that can be done.
    fn find_curriculum(&mut self, step: usize) -> Result<bool, Error> {
        if self.curriculum.is_none() || self.seen + 1 == step {
            return Ok(true);
        }
        let Some(kept) = curriculum_at(&self.folder, step - 1)? else { return Ok(false) };
        (self.curriculum, self.seen) = (Some(kept), step - 1);
        Ok(true)
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
        match kind {
            Stage::Before | Stage::Step(1) | Stage::Greedy(1) => Ok(self.first_policy()?.map(|policy| policy.model)),
            Stage::Step(step) | Stage::Greedy(step) => self.checkpoint(step - 1, "policy", HeadKind::Vocabulary),
            Stage::Evaluation(step) => self.checkpoint(step, "policy", HeadKind::Vocabulary),
            Stage::After => self.checkpoint(self.recipe.run.steps, "policy", HeadKind::Vocabulary),
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
