//! Resumable checkpoints: `checkpoints/step-N/` with the policy and the critic as Hugging Face folders (f32), the
//! optimizers' moments, and where the run was. A checkpoint is written beside its place and moved there whole.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rlver_models::qwen2::HeadKind;
use rlver_models::tokenizer::Tokenizer;
use rlver_models::weights::{self, WeightType};
use safetensors::tensor::{TensorView, View};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::curriculum::Controller;
use super::exact;
use super::files::{write_folder, write_whole};
use super::optimizer::NamedMoment;
use super::run_folder::RunFolder;
use super::update::Learner;
use crate::Error;

/// Where a run was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Last finished step.
    pub(super) step: usize,
    /// Optimizer updates of the policy.
    pub(super) policy_updates: u64,
    /// Optimizer updates of the critic.
    pub(super) critic_updates: u64,
    /// What else a reinforcement run carries from step to step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) carried: Option<Carried>,
}

/// What a reinforcement run carries from step to step beside networks and optimizers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Carried {
    /// Coefficient of the KL, where it adapts.
    #[serde(with = "exact")]
    pub(super) kl_coef: f64,
    /// The curriculum, where there is one.
    pub(super) curriculum: Option<Controller>,
}

/// Writes a model with its tokenizer as a Hugging Face folder.
pub(super) fn save_model(
    path: &Path,
    learner: &Learner,
    tokenizer: &Tokenizer,
    dtype: WeightType,
) -> Result<(), Error> {
    write_folder(path, |folder| {
        weights::save(&learner.model, folder, dtype)?;
        Ok(tokenizer.save(folder)?)
    })
}

/// Writes a checkpoint and deletes old ones beyond `keep`; returns its folder.
pub(super) fn save(
    run: &RunFolder,
    step: usize,
    policy: &Learner,
    critic: Option<&Learner>,
    tokenizer: &Tokenizer,
    keep: usize,
) -> Result<PathBuf, Error> {
    save_carrying(run, step, (policy, critic), tokenizer, keep, None)
}

/// As [`save`], with what a reinforcement run carries.
pub(super) fn save_carrying(
    run: &RunFolder,
    step: usize,
    (policy, critic): (&Learner, Option<&Learner>),
    tokenizer: &Tokenizer,
    keep: usize,
    carried: Option<Carried>,
) -> Result<PathBuf, Error> {
    let path = run.checkpoint(step);
    write_folder(&path, |folder| {
        save_model(&folder.join("policy"), policy, tokenizer, WeightType::F32)?;
        save_moments(&folder.join("policy-optimizer.safetensors"), policy)?;
        if let Some(critic) = critic {
            save_model(&folder.join("critic"), critic, tokenizer, WeightType::F32)?;
            save_moments(&folder.join("critic-optimizer.safetensors"), critic)?;
        }
        let progress = Progress {
            step,
            policy_updates: policy.optimizer.steps(),
            critic_updates: critic.map_or(0, |c| c.optimizer.steps()),
            carried,
        };
        let text = serde_json::to_string_pretty(&progress).expect("plain data");
        write_whole(&folder.join("progress.json"), |file| file.write_all(text.as_bytes()))
    })?;
    let all = list(run)?;
    for old in &all[..all.len().saturating_sub(keep.max(1))] {
        std::fs::remove_dir_all(old).map_err(|e| Error::write(old, e))?;
    }
    Ok(path)
}

/// Complete checkpoints, oldest first.
fn list(run: &RunFolder) -> Result<Vec<PathBuf>, Error> {
    let root = run.checkpoints();
    if !root.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(&root).map_err(|e| Error::read(&root, e))?;
    let mut all: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_none() && path.join("progress.json").exists())
        .collect();
    all.sort();
    Ok(all)
}

/// Restores the newest checkpoint into learners made from the recipe, and says where the run was.
pub(super) fn restore(
    run: &RunFolder,
    policy: &mut Learner,
    critic: Option<&mut Learner>,
    device: &Device,
) -> Result<Progress, Error> {
    let folder = list(run)?.pop().ok_or_else(|| Error::NothingToResume(run.root().into()))?;
    let progress = read_progress(&folder)?;
    policy.model = weights::load(&folder.join("policy"), HeadKind::Vocabulary, device)?;
    load_moments(&folder.join("policy-optimizer.safetensors"), policy, progress.policy_updates, device)?;
    if let Some(critic) = critic {
        critic.model = weights::load(&folder.join("critic"), HeadKind::Value, device)?;
        load_moments(&folder.join("critic-optimizer.safetensors"), critic, progress.critic_updates, device)?;
    }
    Ok(progress)
}

fn read_progress(checkpoint: &Path) -> Result<Progress, Error> {
    let path = checkpoint.join("progress.json");
    let text = std::fs::read_to_string(&path).map_err(|e| Error::read(&path, e))?;
    let progress: Progress =
        serde_json::from_str(&text).map_err(|e| Error::Damaged { path: path.clone(), problem: e.to_string() })?;
    if progress.carried.as_ref().and_then(|c| c.curriculum.as_ref()).is_some_and(|c| !c.is_complete()) {
        return Err(Error::Damaged { path, problem: "the curriculum lacks states".into() });
    }
    Ok(progress)
}

/// The curriculum as it was after a step; `None` when that step's checkpoint is not kept or has none.
pub(crate) fn curriculum_at(run: &RunFolder, step: usize) -> Result<Option<Controller>, Error> {
    let path = run.checkpoint(step);
    if !path.join("progress.json").exists() {
        return Ok(None);
    }
    Ok(read_progress(&path)?.carried.and_then(|carried| carried.curriculum))
}

fn save_moments(path: &Path, learner: &Learner) -> Result<(), Error> {
    let moments = learner.optimizer.state(&learner.model).into_iter().map(|moment| (moment.name.clone(), moment));
    safetensors::serialize_to_file(moments, None, path)
        .map_err(|e| Error::write(path, std::io::Error::other(e.to_string())))
}

/// Read when it is written: all moments as bytes beside the moments themselves would be the peak of a run.
impl View for NamedMoment {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let values: Vec<f32> = self.values.to_data().try_to_vec().expect("f32 moments");
        Cow::Owned(values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    fn data_len(&self) -> usize {
        4 * self.shape[0]
    }
}

fn load_moments(path: &Path, learner: &mut Learner, steps: u64, device: &Device) -> Result<(), Error> {
    let damaged = |problem: String| Error::Damaged { path: path.into(), problem };
    let bytes = std::fs::read(path).map_err(|e| Error::read(path, e))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(e.to_string()))?;
    let views: HashMap<&str, TensorView<'_>> = file.iter().collect();
    let read = |name: &str| {
        let view = views.get(name).filter(|v| v.dtype() == Dtype::F32)?;
        let floats = view.data().chunks_exact(4);
        Some(floats.map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect())
    };
    learner.optimizer.restore(&learner.model, steps, device, read).map_err(damaged)
}
