//! A policy small enough to train within a test, and recipes, users and runs to go with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rlver::Error;
use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{Profile, ProfileSet, prompt};
use rlver::metrics::{Metrics, MetricsLog};
use rlver::recipe::Recipe;
use rlver::rollout::{Episode, Job, Policy, RolloutSettings};
use rlver::train::{Event, Outcome, RunOptions, StopFlag, run_with_users};
use rlver::user::{Appraisal, Emotion, SessionSettings, UserEngine, UserError, UserSession, UserTurn};
use rlver_models::generate::{Engine, SamplingSettings};
use rlver_models::qwen2::{Qwen2, Qwen2Config};
use rlver_models::tokenizer::{QWEN_SPECIAL_TOKENS, Tokenizer, chatml_config, train_bpe};
use rlver_models::weights::{self, WeightType};

/// Width of the tiny networks.
pub(crate) const HIDDEN: usize = 32;

/// Rows the tiny head has beyond the tokenizer's ids.
pub(crate) const EXTRA: usize = 24;

/// A byte-level BPE of 600 ids that knows the system prompts well, so that prompts are short, and the words of scripted
/// replies as tokens of which each has one successor.
pub(crate) fn tokenizer() -> Tokenizer {
    let prompts = [ReplyMode::Direct, ReplyMode::Think]
        .into_iter()
        .flat_map(|mode| rlver::dialogue::Language::ALL.map(|language| prompt::system(mode, language)));
    let scripted = "<think></think>\nsad\nsorry\nthink";
    let texts: Vec<&str> = prompts.chain(["system user assistant", scripted, scripted, scripted]).collect();
    let profiles = ProfileSet::builtin_heldout();
    let more = profiles.iter().map(|p| p.scene.as_str());
    let texts = texts.iter().cycle().take(30 * texts.len()).copied().chain(more);
    let joined = [("<", "think"), (">", "sad"), (">", "sorry")];
    let json = train_bpe(texts, 600 - joined.len(), &QWEN_SPECIAL_TOKENS).expect("a corpus this size trains");
    let mut json: serde_json::Value = serde_json::from_slice(&json).expect("we write JSON");
    for (left, right) in joined {
        let model = &mut json["model"];
        let next = model["vocab"].as_object().expect("a vocabulary").len();
        let pair = if model["merges"][0].is_string() {
            format!("{left} {right}").into()
        } else {
            serde_json::json!([left, right])
        };
        model["vocab"][format!("{left}{right}")] = next.into();
        model["merges"].as_array_mut().expect("merges").push(pair);
    }
    let json = serde_json::to_vec(&json).expect("it was JSON");
    Tokenizer::from_bytes(&json, &chatml_config()).expect("what we train, we load")
}

/// Standard normal numbers, the same on every machine.
pub(crate) fn normal(seed: u64) -> impl FnMut() -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = move || ((rng.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    move || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

fn config(rows: usize, initializer_range: f64) -> Qwen2Config {
    let json = serde_json::json!({
        "model_type": "qwen2", "vocab_size": rows, "hidden_size": HIDDEN, "intermediate_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "tie_word_embeddings": false, "initializer_range": initializer_range,
    });
    Qwen2Config::from_json(Path::new("tiny"), json.to_string().as_bytes()).expect("a valid configuration")
}

/// The device that parity is tested on: `RLVER_TEST_DEVICE`, Flex by default; others need their cargo feature.
pub(crate) fn test_device() -> Device {
    let name = std::env::var("RLVER_TEST_DEVICE").unwrap_or_default();
    let name = if name.is_empty() { "flex" } else { &name };
    rlver::device::DeviceChoice::parse(name).unwrap_or_else(|e| panic!("RLVER_TEST_DEVICE={name}: {e}")).open()
}

/// An untrained policy network. All states share a direction, along which the head favours `<|im_end|>` (a few percent
/// per token, so that replies end at different lengths) and the extra rows beyond the tokenizer (the likeliest of all).
pub(crate) fn network(tokenizer: &Tokenizer) -> Qwen2 {
    let ids = tokenizer.vocab_size();
    let end = tokenizer.im_end_id().expect("the tokenizer has it") as usize;
    let device = Device::flex();
    let mut model = Qwen2::init(config(ids + EXTRA, 0.2), &device, normal(1));
    model.visit(&mut |name, shape, mut slot| {
        let rlver_models::qwen2::Parameter::Matrix(tensor) = slot.get() else { return };
        let mut values: Vec<f32> = tensor.to_data().try_to_vec().expect("f32 weights");
        match name {
            "model.embed_tokens.weight" => values.iter_mut().for_each(|v| *v += 0.3),
            "lm_head.weight" => {
                let boost = |values: &mut [f32], by: f32| values.iter_mut().for_each(|v| *v += by);
                boost(&mut values[end * HIDDEN..][..HIDDEN], 0.6);
                boost(&mut values[ids * HIDDEN..], 1.5);
            }
            _ => return,
        }
        slot.set(values, shape, &device);
    });
    model
}

/// A network that says the same tokens in every turn: the first after the newline of the assistant header, each of the
/// others after the one before, `<|im_end|>` after the last.
pub(crate) fn scripted_network(tokenizer: &Tokenizer, tokens: &[&str]) -> Qwen2 {
    let id = |token: &str| tokenizer.token_id(token).unwrap_or_else(|| panic!("{token} is no token")) as usize;
    let chain: Vec<usize> = ["Ċ"].iter().chain(tokens).chain(&["<|im_end|>"]).map(|t| id(t)).collect();
    let device = Device::flex();
    let mut model = Qwen2::init(config(tokenizer.vocab_size(), 0.01), &device, normal(2));
    model.visit(&mut |name, shape, mut slot| {
        let rlver_models::qwen2::Parameter::Matrix(tensor) = slot.get() else { return };
        let mut values: Vec<f32> = tensor.to_data().try_to_vec().expect("f32 weights");
        if name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight") {
            // Nothing but the last token decides.
            values.fill(0.0);
        }
        for (axis, pair) in chain.windows(2).enumerate() {
            match name {
                "model.embed_tokens.weight" => values[pair[0] * HIDDEN + axis] = 1.0,
                "lm_head.weight" => values[pair[1] * HIDDEN + axis] = 10.0,
                _ => {}
            }
        }
        slot.set(values, shape, &device);
    });
    model
}

/// The tiny policy.
pub(crate) fn policy() -> Policy {
    let tokenizer = tokenizer();
    Policy::new(network(&tokenizer), tokenizer, "tiny".into()).expect("they belong together")
}

/// A policy that always says `tokens`.
pub(crate) fn scripted(tokens: &[&str]) -> Policy {
    let tokenizer = tokenizer();
    Policy::new(scripted_network(&tokenizer, tokens), tokenizer, "scripted".into()).expect("they belong together")
}

/// Writes a policy as a model folder.
pub(crate) fn save(policy: &Policy, folder: &Path) {
    std::fs::create_dir_all(folder).expect("creates");
    weights::save(&policy.model, folder, WeightType::F32).expect("saves");
    policy.tokenizer.save(folder).expect("saves");
}

/// A temporary folder with the tiny policy and two held-out profiles in it.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Home {
        let home = Home(tempfile::tempdir().expect("a temporary folder"));
        save(&policy(), &home.path("policy"));
        let heldout = ProfileSet::builtin_heldout();
        let lines = [0, heldout.len() - 1].map(|i| serde_json::to_string(heldout.get(i).as_ref()).expect("plain data"));
        std::fs::write(home.path("heldout.jsonl"), lines.join("\n")).expect("writes");
        std::fs::write(home.path("recipe.toml"), home.recipe_text("ppo")).expect("writes");
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A recipe of a few seconds.
    pub(crate) fn recipe_text(&self, algorithm: &str) -> String {
        let advantage = if algorithm == "grpo" { "grpo" } else { "gae" };
        format!(
            "[run]\nalgorithm = \"{algorithm}\"\nsteps = 4\n\
             [model]\npolicy = {policy:?}\n\
             [rollout]\ndialogues = 4\nn = 2\nmax_turns = 3\nmax_new_tokens = 16\nmax_context = 700\nbatch = 3\n\
             [objective]\nadvantage = \"{advantage}\"\nlambda = 0.95\nmini_batch = 4\nppo_epochs = 2\n\
             micro_batch_tokens = 1500\nentropy_coef = 0.01\n\
             [optimizer]\nlr = 1e-3\ncritic_lr = 1e-3\n\
             [eval]\nprofiles = {heldout:?}\nmax_turns = 2\n\
             [checkpoint]\nevery = 0\n\
             [sft]\nvocab_size = 600\nhidden_size = 16\nintermediate_size = 32\nlayers = 1\nheads = 2\nkv_heads = 1\n\
             dialogues = 40\nbatch_tokens = 1024\n",
            policy = self.path("policy"),
            heldout = self.path("heldout.jsonl"),
        )
    }

    pub(crate) fn recipe(&self, algorithm: &str, set: &[&str]) -> Recipe {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        Recipe::parse("tiny.toml", &self.recipe_text(algorithm), &set).expect("a valid recipe")
    }
}

/// Carries out a recipe; `stop_after` asks for a stop while that step is reported.
pub(crate) fn train(
    recipe: &Recipe,
    folder: &Path,
    users: impl UserEngine + 'static,
    resume: bool,
    stop_after: Option<u64>,
) -> Result<Outcome, Error> {
    let stop = StopFlag::default();
    let options = RunOptions { recipe, folder, resume, stop: &stop };
    run_with_users(&options, Box::new(users), &mut |event| {
        if let Event::Step(metrics, _) = event
            && Some(metrics.step()) == stop_after
        {
            stop.raise();
        }
    })
}

/// The metrics of a run, without how long things took.
pub(crate) fn metrics(run: &Path) -> Vec<(u64, Vec<(String, f64)>)> {
    let timeless = |m: &Metrics| {
        let kept = m.iter().filter(|(key, _)| !key.starts_with("time/") && !key.starts_with("throughput/"));
        (m.step(), kept.map(|(key, value)| (key.to_string(), value)).collect())
    };
    MetricsLog::read(run.join("metrics.jsonl")).expect("readable").iter().map(timeless).collect()
}

/// Every file below `folder` with its bytes, by relative path, without event files (named after the clock) and metrics
/// (which hold times).
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.strip_prefix(folder).expect("below it").to_path_buf();
            if path.is_dir() {
                open.push(path);
            } else if !name.starts_with("tensorboard") && name != Path::new("metrics.jsonl") {
                all.push((name, std::fs::read(&path).expect("readable")));
            }
        }
    }
    all.sort();
    all
}

pub(crate) fn episodes(file: &Path) -> Vec<Episode> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("an episode")).collect()
}

/// A user whose emotion moves with the letters of each reply, so that rewards differ even among untrained replies; it
/// fails at the turn `fails` names for a profile (0 is the opening).
pub(crate) struct Fickle {
    pub(crate) fails: fn(&Profile) -> Option<usize>,
}

/// [`Fickle`] that never fails.
pub(crate) const FICKLE: Fickle = Fickle { fails: |_| None };

/// A user whom no reply moves.
pub(crate) struct Still;

/// [`Fickle`], but every third person of the training set is [`Still`].
pub(crate) struct SomeStill;

struct StillSession(Emotion);

impl UserEngine for Still {
    fn name(&self) -> String {
        "still/1".into()
    }

    fn open(&self, _: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession> {
        Box::new(StillSession(settings.start))
    }
}

impl UserEngine for SomeStill {
    fn name(&self) -> String {
        "some-still/1".into()
    }

    fn open(&self, profile: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession> {
        let number: usize = profile.id.rsplit('-').next().and_then(|n| n.parse().ok()).expect("numbered profiles");
        if number.is_multiple_of(3) { Still.open(profile, settings) } else { FICKLE.open(profile, settings) }
    }
}

impl UserSession for StillSession {
    fn opening(&mut self) -> Result<String, UserError> {
        Ok("hello".into())
    }

    fn respond(&mut self, _: &str) -> Result<UserTurn, UserError> {
        let (before, after) = (self.0, self.0);
        let appraisal = Appraisal::default();
        Ok(UserTurn { appraisal, before, after, line: "well".into(), farewell: false, guard: None })
    }

    fn emotion(&self) -> Emotion {
        self.0
    }
}

struct FickleSession {
    profile: Arc<Profile>,
    emotion: Emotion,
    turn: usize,
    fails: Option<usize>,
}

impl UserEngine for Fickle {
    fn name(&self) -> String {
        "fickle/1".into()
    }

    fn open(&self, profile: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession> {
        let fails = (self.fails)(&profile);
        Box::new(FickleSession { profile, emotion: settings.start, turn: 0, fails })
    }
}

impl FickleSession {
    fn refuse(&self) -> Result<(), UserError> {
        match self.fails {
            Some(turn) if turn == self.turn => {
                Err(UserError { user: "fickle/1".into(), problem: format!("{} does not answer", self.profile.id) })
            }
            _ => Ok(()),
        }
    }
}

impl UserSession for FickleSession {
    fn opening(&mut self) -> Result<String, UserError> {
        self.refuse()?;
        Ok(format!("{}: hello", self.profile.id))
    }

    fn respond(&mut self, reply: &str) -> Result<UserTurn, UserError> {
        self.turn += 1;
        self.refuse()?;
        let letters: u32 = reply.bytes().map(u32::from).sum::<u32>() + self.turn as u32;
        let change = (letters % 21) as i8 - 10;
        let appraisal = Appraisal { change, content: reply.into(), ..Appraisal::default() };
        let before = self.emotion;
        self.emotion = before.after(&appraisal);
        let line = format!("{} says {letters}", self.profile.id);
        Ok(UserTurn { appraisal, before, after: self.emotion, line, farewell: false, guard: None })
    }

    fn emotion(&self) -> Emotion {
        self.emotion
    }
}

/// `n` dialogues with different built-in training people, in both languages.
pub(crate) fn jobs(n: usize) -> Vec<Job> {
    let profiles = ProfileSet::builtin_train();
    let job = |i: usize| Job {
        dialogue: 100 + i as u64,
        group: i as u64,
        profile: profiles.get(i * 37 % profiles.len()).clone(),
        start: None,
        user_seed: 7 + i as u64,
        sampling_seed: 900 + i as u64,
    };
    (0..n).map(job).collect()
}

pub(crate) fn settings(mode: ReplyMode, temperature: f32) -> RolloutSettings {
    RolloutSettings {
        mode,
        max_turns: 4,
        start: Emotion::new(40).expect("on the scale"),
        sampling: SamplingSettings::at(temperature),
        max_new_tokens: 16,
    }
}

/// Holds dialogues, `rows` side by side.
pub(crate) fn roll_out(
    policy: &Policy,
    users: &dyn UserEngine,
    jobs: Vec<Job>,
    settings: RolloutSettings,
    rows: usize,
) -> Vec<Episode> {
    let mut engine = Engine::new(&policy.model, policy.vocabulary(), rows, 900);
    rlver::rollout::run(policy, &mut engine, users, jobs, settings, |_| {}).expect("the policy runs")
}
