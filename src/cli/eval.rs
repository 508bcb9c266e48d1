use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::device::DeviceChoice;
use rlver::dialogue::ProfileSet;
use rlver::dialogue::think::ReplyMode;
use rlver::evaluate::{Summary, hold_dialogues, outcomes, refuse_too_many_unscored};
use rlver::rollout::RolloutSettings;
use rlver::train::load_policy;
use rlver::user::Emotion;
use rlver_models::generate::{Engine, SamplingSettings};
use serde_json::json;

use super::Ended;

/// `rlver eval`: dialogues with held-out people under the Sentient Benchmark's protocol.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy: `builtin:pico`, a folder or a Hugging Face id.
    #[arg(long)]
    model: String,
    /// Profiles (published RLVER JSONL); by default the built-in held-out ones.
    #[arg(long)]
    profiles: Option<PathBuf>,
    /// The simulated user: `builtin`, `llm:KEY=VALUE,…` with keys of `[llm]`, `replay:RUN`, or a recipe file.
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
    let device = DeviceChoice::parse(&args.device).map_err(anyhow::Error::msg)?.open();
    let profiles = match &args.profiles {
        Some(path) => ProfileSet::load(path)?,
        None => ProfileSet::builtin_heldout(),
    };
    let settings = settings(&args)?;
    let policy = load_policy(&args.model, "", &device)?;
    let capacity = args.max_context.min(policy.model.config().max_position_embeddings);
    let rows = args.batch.clamp(1, profiles.len() * args.seeds.max(1));
    let mut engine = Engine::new(&policy.model, policy.vocabulary(), rows, capacity);
    let users = super::user::open_users(&args.user, &args.device)?;
    let bar = indicatif::ProgressBar::new(0);
    let episodes = hold_dialogues(
        &policy,
        &mut engine,
        users.as_ref(),
        &profiles,
        settings,
        (args.seed, args.seeds.max(1)),
        |p| {
            bar.set_length(p.total as u64);
            bar.set_position(p.done as u64);
        },
    )?;
    bar.finish_and_clear();
    refuse_too_many_unscored(&episodes, args.max_unscored)?;
    let summary = Summary::new(&outcomes(&episodes), args.seed)?;
    if let Some(path) = &args.json {
        let mut result = summary.to_json();
        // Everything the score depends on, so that it can be reproduced.
        result["settings"] = json!({
            "rlver": env!("CARGO_PKG_VERSION"),
            "model": args.model,
            "profiles": profiles.origin(),
            "user": users.name(),
            "mode": args.mode,
            "start_emotion": args.start_emotion,
            "max_turns": args.max_turns,
            "temperature": args.temperature,
            "max_new_tokens": args.max_new_tokens,
            "max_context": capacity,
            "unscored": episodes.iter().filter(|e| e.reward.is_none()).count(),
            "seed": args.seed,
            "seeds": args.seeds,
            "device": args.device,
        });
        write(path, &(serde_json::to_string_pretty(&result)? + "\n"))?;
    }
    if let Some(path) = &args.episodes {
        let lines: Result<Vec<String>, _> = episodes.iter().map(serde_json::to_string).collect();
        write(path, &(lines?.join("\n") + "\n"))?;
    }
    if let Some(used) = users.usage() {
        super::tell(format_args!("user model: {used}"));
    }
    // Last, so that the files are there even when nobody reads the table.
    say!("{}", summary.table());
    Ok(Ended::Done)
}

fn settings(args: &Args) -> anyhow::Result<RolloutSettings> {
    let mode = match args.mode.as_str() {
        "direct" => ReplyMode::Direct,
        "think" => ReplyMode::Think,
        other => anyhow::bail!("--mode {other} is unknown; expected direct or think"),
    };
    let start = Emotion::new(i64::from(args.start_emotion))
        .filter(|e| (10..100).contains(&e.score()))
        .with_context(|| format!("--start-emotion {} must lie between 10 and 99", args.start_emotion))?;
    let sampling = SamplingSettings::at(args.temperature);
    sampling.check()?;
    anyhow::ensure!(args.max_turns > 0, "--max-turns must be at least 1");
    Ok(RolloutSettings { mode, max_turns: args.max_turns, start, sampling, max_new_tokens: args.max_new_tokens })
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
