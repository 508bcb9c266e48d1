mod probe;
mod retention;

use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::device::DeviceChoice;
use rlver::dialogue::ProfileSet;
use rlver::dialogue::think::ReplyMode;
use rlver::evaluate::probe::Probe;
use rlver::evaluate::strategy::BuiltinLabeller;
use rlver::evaluate::{
    Behaviour, EvalResult, compare, fingerprint, hold_dialogues, outcomes, recorded, refuse_too_many_unscored,
};
use rlver::rollout::{Episode, Policy, RolloutSettings};
use rlver::train::load_policy;
use rlver::user::{Emotion, UserEngine};
use rlver_models::generate::{Engine, SamplingSettings};
use serde_json::{Map, Value, json};

use super::Ended;

/// `rlver eval`: dialogues with held-out people under the Sentient Benchmark's protocol, probes for harm, and what a policy
/// still knows.
///
/// `--compare` sets two results of `--json` side by side, dialogue by dialogue; `--recorded` scores dialogues that were held
/// elsewhere. Neither needs a model.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy: `builtin:pico`, a folder or a Hugging Face id.
    #[arg(long, required_unless_present_any = ["compare", "recorded"])]
    model: Option<String>,
    /// Compare two result files; differences are second minus first.
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"], conflicts_with_all = ["model", "recorded"])]
    compare: Option<Vec<PathBuf>>,
    /// Score recorded dialogues: SAGE's published ones or our episodes, JSON lines.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    recorded: Option<PathBuf>,
    /// Probe for harm instead: `sycophancy`, `adversarial`, `dependency` or `all`.
    #[arg(long, value_name = "PROBE", value_delimiter = ',', conflicts_with = "retention")]
    probe: Vec<String>,
    /// Check what the policy still knows instead: `builtin`, or files in the format of MATH-500 or IFEval.
    #[arg(long, value_name = "SET", value_delimiter = ',')]
    retention: Vec<String>,
    /// Profiles (published RLVER JSONL); by default the built-in held-out ones.
    #[arg(long)]
    profiles: Option<PathBuf>,
    /// The simulated user: `builtin`, `builtin:calibrated`, `llm:KEY=VALUE,…` with keys of `[llm]`, `replay:RUN`, or
    /// a recipe file.
    #[arg(long, default_value = "builtin")]
    user: String,
    /// Largest share of dialogues whose user may fail.
    #[arg(long, default_value_t = 0.2)]
    max_unscored: f64,
    /// Dialogues per profile.
    #[arg(long, default_value_t = 1)]
    seeds: usize,
    /// Seed of users and sampling.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the dialogues as JSON lines.
    #[arg(long, value_name = "FILE")]
    episodes: Option<PathBuf>,
    /// `direct` or `think`.
    #[arg(long, default_value = "direct")]
    mode: String,
    /// Emotion a dialogue starts with.
    #[arg(long, default_value_t = 40)]
    start_emotion: u8,
    /// Most replies per dialogue.
    #[arg(long, default_value_t = 10)]
    max_turns: usize,
    /// Sampling temperature; 0 is greedy.
    #[arg(long, default_value_t = 1.0)]
    temperature: f32,
    /// Most tokens per reply.
    #[arg(long, default_value_t = 256)]
    max_new_tokens: usize,
    /// Most tokens per dialogue.
    #[arg(long, default_value_t = 4096)]
    max_context: usize,
    /// Dialogues held side by side.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Where to compute.
    #[arg(long, default_value = "flex")]
    device: String,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    if let Some([first, second]) = args.compare.as_deref() {
        return set_side_by_side(first, second, &args);
    }
    if let Some(path) = &args.recorded {
        let dialogues = recorded::load(path)?;
        return finish(&recorded::result(&dialogues, &path.display().to_string()), None, args.json.as_deref());
    }
    let settings = settings(&args)?;
    let users = super::user::open_evaluation_users(&args.user, &args.device)?;
    let probes: Vec<Probe> = probe::chosen(&args.probe)?;
    let sets = retention::chosen(&args.retention)?;
    let profiles = match &args.profiles {
        Some(path) => ProfileSet::load(path)?,
        None => ProfileSet::builtin_heldout(),
    };
    let device = DeviceChoice::parse(&args.device).map_err(anyhow::Error::msg)?.open();
    let policy = load_policy(args.model.as_deref().context("--model is missing")?, "", &device)?;
    let bench = Bench::new(&args, policy, settings);
    if !probes.is_empty() {
        return probe::run(&bench, &probes);
    }
    if !sets.is_empty() {
        return retention::run(&bench, &sets);
    }
    let episodes = bench.hold(users.as_ref(), &profiles, bench.settings)?;
    bench.write_episodes(&episodes)?;
    refuse_too_many_unscored(&episodes, args.max_unscored)?;
    let mut written = bench.written();
    written.insert("profiles".into(), profiles.origin().into());
    written.insert("profiles_fingerprint".into(), fingerprint(&profiles).into());
    written.insert("user".into(), users.name().into());
    let outcomes = outcomes(&episodes);
    let unscored = episodes.len() - outcomes.len();
    if let Some(used) = users.usage() {
        super::tell(format_args!("user model: {used}"));
    }
    let result = EvalResult { outcomes, unscored, settings: written, seed: args.seed };
    finish(&result, Some(&Behaviour::of(&episodes, &BuiltinLabeller)), args.json.as_deref())
}

/// A loaded policy and how it is asked.
struct Bench<'a> {
    args: &'a Args,
    policy: Policy,
    capacity: usize,
    settings: RolloutSettings,
}

impl<'a> Bench<'a> {
    fn new(args: &'a Args, policy: Policy, settings: RolloutSettings) -> Bench<'a> {
        let capacity = args.max_context.min(policy.model.config().max_position_embeddings);
        Bench { args, policy, capacity, settings }
    }

    fn engine(&self, most: usize) -> Engine {
        Engine::new(&self.policy.model, self.policy.vocabulary(), self.args.batch.clamp(1, most.max(1)), self.capacity)
    }

    fn hold(
        &self,
        users: &dyn UserEngine,
        profiles: &ProfileSet,
        settings: RolloutSettings,
    ) -> anyhow::Result<Vec<Episode>> {
        let seeds = self.args.seeds.max(1);
        let mut engine = self.engine(profiles.len() * seeds);
        let bar = indicatif::ProgressBar::new(0);
        let episodes =
            hold_dialogues(&self.policy, &mut engine, users, profiles, settings, (self.args.seed, seeds), |p| {
                bar.set_length(p.total as u64);
                bar.set_position(p.done as u64);
            })?;
        bar.finish_and_clear();
        Ok(episodes)
    }

    /// Everything a result depends on, so that it can be reproduced.
    fn written(&self) -> Map<String, Value> {
        let args = self.args;
        let system = |language| rlver::dialogue::prompt::system(self.settings.mode, language);
        let written = json!({
            "rlver": env!("CARGO_PKG_VERSION"),
            "model": args.model,
            "mode": args.mode,
            "system_zh": system(rlver::dialogue::Language::Zh),
            "system_en": system(rlver::dialogue::Language::En),
            "start_emotion": args.start_emotion,
            "max_turns": args.max_turns,
            "temperature": args.temperature,
            "max_new_tokens": args.max_new_tokens,
            "max_context": self.capacity,
            "seed": args.seed,
            "seeds": args.seeds,
            "device": args.device,
        });
        written.as_object().cloned().unwrap_or_default()
    }

    fn write_episodes(&self, episodes: &[Episode]) -> anyhow::Result<()> {
        let Some(path) = &self.args.episodes else { return Ok(()) };
        let lines: Result<Vec<String>, _> = episodes.iter().map(serde_json::to_string).collect();
        write(path, &(lines?.join("\n") + "\n"))
    }

    fn write_json(&self, value: &Value) -> anyhow::Result<()> {
        self.args.json.as_deref().map_or(Ok(()), |path| write_json(path, value))
    }
}

fn finish(result: &EvalResult, behaviour: Option<&Behaviour>, json: Option<&Path>) -> anyhow::Result<Ended> {
    if let Some(path) = json {
        let mut value = result.to_json()?;
        if let Some(behaviour) = behaviour {
            value["behaviour"] = behaviour.to_json();
        }
        write_json(path, &value)?;
    }
    // Last, so that the files are there even when nobody reads the table.
    say!("{}", result.summary()?.table());
    if result.unscored > 0 {
        say!("{} dialogues have no score and are counted nowhere above", result.unscored);
    }
    Ok(Ended::Done)
}

fn set_side_by_side(first: &Path, second: &Path, args: &Args) -> anyhow::Result<Ended> {
    if let Some(table) = retention::compare(first, second)? {
        say!("{table}");
        return Ok(Ended::Done);
    }
    let (a, b) = (EvalResult::load(first)?, EvalResult::load(second)?);
    let found = compare(&a, &b, args.seed).with_context(|| {
        format!("no dialogue of {} has a partner in {}: they are with other people", first.display(), second.display())
    })?;
    if let Some(path) = &args.json {
        write_json(path, &found.to_json())?;
    }
    say!("{} minus {}\n", second.display(), first.display());
    say!("{}", found.table());
    Ok(Ended::Done)
}

fn settings(args: &Args) -> anyhow::Result<RolloutSettings> {
    let mode = match args.mode.as_str() {
        "direct" => ReplyMode::Direct,
        "think" => ReplyMode::Think,
        other => anyhow::bail!("--mode {other} is unknown; expected direct or think"),
    };
    let start = start_emotion(args.start_emotion)?;
    let sampling = SamplingSettings::at(args.temperature);
    sampling.check()?;
    anyhow::ensure!(args.max_turns > 0, "--max-turns must be at least 1");
    Ok(RolloutSettings { mode, max_turns: args.max_turns, start, sampling, max_new_tokens: args.max_new_tokens })
}

/// Reads `--start-emotion`.
pub(super) fn start_emotion(score: u8) -> anyhow::Result<Emotion> {
    Emotion::new(i64::from(score))
        .filter(|e| (10..100).contains(&e.score()))
        .with_context(|| format!("--start-emotion {score} must lie between 10 and 99"))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn write_json(path: &Path, value: &Value) -> anyhow::Result<()> {
    write(path, &(serde_json::to_string_pretty(value)? + "\n"))
}
