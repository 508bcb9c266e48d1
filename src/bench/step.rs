//! Whole training steps: `train::run` with a recipe of ours, which is held after every step until the next is asked for.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use burn::tensor::Device;
use rlver_models::weights::{self, WeightType};

use super::stage::Measured;
use super::{BenchError, ModelSource, Sample};
use crate::metrics::Metrics;
use crate::recipe::Recipe;
use crate::train::{self, Event, RunOptions, StopFlag, load_tokenizer};

/// Replies of random weights please nobody: people start happy, so that they stay for all turns.
const RECIPE: &str = r#"
[run]
algorithm = "ppo"
steps = 1000000
[user]
start_emotion = 90
[rollout]
dialogues = 8
max_turns = 8
max_new_tokens = 32
max_context = 1024
batch = 8
[objective]
kl = "loss"
[eval]
max_turns = 1
[checkpoint]
every = 0
episodes_every = 0
"#;

pub(super) struct Steps {
    go: Sender<()>,
    done: Receiver<Result<Sample, crate::Error>>,
    folder: PathBuf,
}

impl Steps {
    /// Starts training in a thread of its own, which waits before every step but the first.
    pub(super) fn start(source: &ModelSource, device_name: &str, device: &Device) -> Result<Steps, BenchError> {
        let folder = std::env::temp_dir().join(format!("rlver-bench-{}", std::process::id()));
        let policy = match source {
            ModelSource::Checkpoint(name) => name.clone(),
            ModelSource::Shape(_) => {
                let policy = folder.join("policy");
                save_random(source, &policy, device)?;
                policy.display().to_string()
            }
        };
        let people = folder.join("people.jsonl");
        std::fs::create_dir_all(&folder).map_err(|e| io(&folder, e))?;
        std::fs::write(&people, one_person()).map_err(|e| io(&people, e))?;
        let set = [
            format!("model.policy={}", toml::Value::from(policy)),
            format!("run.device={}", toml::Value::from(device_name)),
            format!("eval.profiles={}", toml::Value::from(people.display().to_string())),
        ];
        let recipe = Recipe::parse("the benchmark's recipe", RECIPE, &set).map_err(crate::Error::from)?;
        let (go, wait) = channel();
        let (tell, done) = channel();
        let run = folder.join("run");
        thread::spawn(move || train_in_steps(&recipe, &run, &tell, &wait));
        Ok(Steps { go, done, folder })
    }
}

impl Measured for Steps {
    fn once(&mut self) -> Result<Sample, BenchError> {
        // The thread is gone only after it told why.
        let _ = self.go.send(());
        let told = self.done.recv().map_err(|_| BenchError::Child {
            stage: "step".into(),
            problem: "ended before its step was done".into(),
        })?;
        Ok(told?)
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn train_in_steps(recipe: &Recipe, folder: &Path, tell: &Sender<Result<Sample, crate::Error>>, wait: &Receiver<()>) {
    let stop = StopFlag::default();
    let options = RunOptions { recipe, folder, resume: false, stop: &stop };
    let hold = || {
        while wait.recv().is_err() {
            // Nobody asks any more: the process is about to end, and what a run would write last is not wanted.
            thread::park();
        }
    };
    let mut waited = false;
    let result = train::run(&options, &mut |event| match event {
        Event::Evaluated("before", _) => {
            hold();
            waited = true;
        }
        Event::Step(metrics, _) if waited => {
            let _ = tell.send(Ok(sample(metrics)));
            hold();
        }
        _ => {}
    });
    if let Err(error) = result {
        let _ = tell.send(Err(error));
    }
}

/// What a step's metrics say, in seconds and tokens.
fn sample(metrics: &Metrics) -> Sample {
    let get = |key: &str| metrics.get(key).unwrap_or(0.0);
    let seconds = get("time/total_s");
    let mut sample = Sample::new(seconds, (get("throughput/tokens_per_s") * seconds).round() as usize);
    for key in ["time/rollout_s", "time/update_s", "rollout/tokens", "rollout/turns_per_dialogue"] {
        sample.note(key, get(key));
    }
    sample
}

fn save_random(source: &ModelSource, folder: &Path, device: &Device) -> Result<(), BenchError> {
    let tokenizer = load_tokenizer("builtin:pico")?;
    let (rows, ids) = (source.config()?.vocab_size, tokenizer.vocab_size());
    if rows < ids {
        let problem =
            format!("vocab = {rows} has no room for the {ids} ids of the tokenizer that steps are measured with");
        return Err(BenchError::Shape { given: source.name().into(), problem });
    }
    std::fs::create_dir_all(folder).map_err(|e| io(folder, e))?;
    weights::save(&source.network(device)?, folder, WeightType::F32)?;
    tokenizer.save(folder).map_err(crate::Error::from)?;
    Ok(())
}

/// A file of one person to evaluate with, since a run evaluates before its first step.
fn one_person() -> String {
    let person = crate::dialogue::ProfileSet::builtin_heldout().get(0).clone();
    serde_json::to_string(person.as_ref()).expect("a profile is plain data")
}

fn io(path: &Path, source: std::io::Error) -> BenchError {
    BenchError::Io { path: path.into(), source }
}
