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
use crate::recipe::{CurriculumChoice, Recipe};
use crate::rollout::{Episode, Job, Policy};
use crate::train::curriculum::Controller;
use crate::train::{RunFolder, load_critic, load_policy, load_profiles, sample};
use crate::user::{UserChoice, UserEngine};

/// What the dialogues of a file were held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Evaluation before training.
    Before,
    /// The greedy dialogues of a training step.
    Greedy(usize),
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
            Kind::Greedy(step) | Kind::Step(step) => (step, 1),
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
    /// The run's users, if they can be run again.
    users: Option<Box<dyn UserEngine>>,
    /// Those of evaluations, where they are others.
    evaluated_with: Option<Box<dyn UserEngine>>,
    /// The curriculum as the steps so far left it.
    curriculum: Option<Controller>,
    /// The step before the next one, if all before it were seen.
    seen: Option<usize>,
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
        let curriculum = (recipe.curriculum.controller == CurriculumChoice::DualLoop).then(Controller::new);
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
            seen: Some(0),
        })
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

    fn episodes(&self, name: &str) -> Result<Vec<Episode>, Error> {
        Ok(self.folder.read_episodes(name)?.unwrap_or_default())
    }

    /// The users that a file's dialogues were held with, if they can be run again.
    pub(super) fn users(&self, kind: Kind) -> Option<&dyn UserEngine> {
        match (kind, &self.evaluated_with) {
            (Kind::Step(_) | Kind::Greedy(_), _) | (_, None) => self.users.as_deref(),
            (_, evaluated_with) => evaluated_with.as_deref(),
        }
    }

    /// Reads a file of episodes (with a step's greedy ones before it) and finds out what it should hold.
    pub(super) fn stage(
        &mut self,
        name: &str,
        kind: Kind,
        note: &mut dyn FnMut(String),
    ) -> Result<Vec<File>, AuditError> {
        let episodes = self.episodes(name)?;
        let Kind::Step(step) = kind else {
            let jobs = evaluate::jobs(&self.evaluation, (self.recipe.run.seed, self.recipe.eval.seeds));
            let name = name.to_string();
            return Ok(vec![File { name, kind, episodes, jobs: Some(jobs), rows: Vec::new(), greedy_rewards: None }]);
        };
        let (step_name, greedy_name) = (name.to_string(), format!("greedy-{step:06}"));
        let greedy = self.episodes(&greedy_name)?;
        // The curriculum learns from every step: after a gap nobody knows what it would have asked for.
        self.seen = self.seen.filter(|seen| seen + 1 == step).map(|_| step);
        let known = self.curriculum.is_none() || self.seen.is_some();
        if !known {
            note(format!("{name}: who came is not checked, since steps before are not recorded"));
        }
        let mut jobs: [Vec<Job>; 2] = Default::default();
        let controller = self.curriculum.as_ref().filter(|_| known);
        let sample = sample(&self.recipe, &self.train, step, controller, |asked, greedily| {
            let (file, held) = if greedily { (&greedy_name, &greedy) } else { (&step_name, &episodes) };
            let path = self.folder.root().join("episodes").join(format!("{file}.jsonl"));
            let find = |job: &Job| {
                let found = held.iter().find(|episode| episode.dialogue == job.dialogue).cloned();
                let problem = format!("dialogue {} is missing", job.dialogue);
                found.ok_or_else(|| Error::Damaged { path: path.clone(), problem })
            };
            let episodes = asked.iter().map(find).collect::<Result<Vec<Episode>, Error>>()?;
            jobs[usize::from(greedily)].extend(asked);
            Ok(episodes)
        })?;
        if let Some(controller) = &mut self.curriculum {
            controller.record(sample.outcomes(self.recipe.curriculum.pass_emotion), &self.recipe.curriculum);
        }
        let [step_jobs, greedy_jobs] = jobs;
        let step_file = File {
            name: step_name,
            kind,
            jobs: known.then_some(step_jobs),
            rows: sample.rows(&self.recipe),
            episodes,
            greedy_rewards: sample.greedy_rewards,
        };
        let greedy_file = File {
            name: greedy_name,
            kind: Kind::Greedy(step),
            jobs: known.then_some(greedy_jobs),
            rows: Vec::new(),
            episodes: greedy,
            greedy_rewards: None,
        };
        Ok([greedy_file, step_file].into_iter().filter(|file| !file.episodes.is_empty() || file.kind == kind).collect())
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
            Kind::Before | Kind::Step(0 | 1) | Kind::Greedy(0 | 1) => {
                Ok(self.first_policy()?.map(|policy| policy.model))
            }
            Kind::Step(step) | Kind::Greedy(step) => self.checkpoint(step - 1, "policy", HeadKind::Vocabulary),
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
