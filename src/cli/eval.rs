mod bench;
mod judging;
mod probe;
mod retention;

use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::device::DeviceChoice;
use rlver::dialogue::ProfileSet;
use rlver::evaluate::probe::Probe;
use rlver::evaluate::{EvalResult, compare, fingerprint, outcomes, recorded, refuse_too_many_unscored};
use rlver::user::Emotion;

use self::bench::{Bench, write_json};
use self::judging::{Judged, Judging};
use super::Ended;

/// `rlver eval`: dialogues with held-out people under the Sentient Benchmark's protocol, probes for harm, and what a policy
/// still knows.
///
/// `--compare` sets two results of `--json` side by side, dialogue by dialogue; `--recorded` scores dialogues that were held
/// elsewhere. Neither needs a model.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy: `builtin:pico`, a folder, a Hugging Face id, or `llm:url=…,model=…,key_env=…` for a model behind an
    /// OpenAI-compatible endpoint, with keys of `[llm]`.
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
    /// Check what the policy still knows instead: `builtin`, or files in the format of MATH-500, IFEval or LiveCodeBench.
    #[arg(long, value_name = "SET", value_delimiter = ',')]
    retention: Vec<String>,
    /// Run the programs a policy writes for `--retention`, each by this command: words in which `{file}` is the program and
    /// `{dir}` its folder, such as "python3 {file}". It decides what a program may do: prefer one that locks it in.
    #[arg(long, value_name = "COMMAND", requires = "retention")]
    run_code: Option<String>,
    /// Longest time for one run of a program, in seconds.
    #[arg(long, default_value_t = 6.0, requires = "run_code")]
    run_seconds: f64,
    /// A language model that judges the dialogues, as `llm:KEY=VALUE,…` with keys of `[llm]` or a recipe file: a server's,
    /// or without `url` a checkpoint in this process.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["compare", "recorded", "probe", "retention"])]
    judge: Option<String>,
    /// What `--judge` judges: `strategies` (every reply), `capabilities` (every dialogue: the five capabilities and the
    /// Social Cognition Coordinate); both by default.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "judge")]
    judged: Vec<String>,
    /// Judgements of capabilities per dialogue.
    #[arg(long, default_value_t = 3, requires = "judge")]
    judge_repeats: usize,
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

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    if let Some([first, second]) = args.compare.as_deref() {
        return set_side_by_side(first, second, args);
    }
    if let Some(path) = &args.recorded {
        let dialogues = recorded::load(path)?;
        return finish(&recorded::result(&dialogues, &path.display().to_string()), None, args.json.as_deref());
    }
    let users = super::user::open_evaluation_users(&args.user, &args.device)?;
    let probes: Vec<Probe> = probe::chosen(&args.probe)?;
    let sets = retention::chosen(args)?;
    let profiles = match &args.profiles {
        Some(path) => ProfileSet::load(path)?,
        None => ProfileSet::builtin_heldout(),
    };
    let judging = Judging::open(args)?;
    let bench = Bench::open(args)?;
    if !probes.is_empty() {
        return probe::run(&bench, &probes);
    }
    if let Some(sets) = &sets {
        return retention::run(&bench, sets);
    }
    let episodes = bench.hold(users.as_ref(), &profiles, bench.settings)?;
    bench.write_episodes(&episodes)?;
    refuse_too_many_unscored(&episodes, args.max_unscored)?;
    let judged = match &judging {
        Some(judging) => judging.judge(&episodes)?,
        None => Judged::builtin(&episodes),
    };
    bench.tell_usage();
    if let Some(used) = users.usage() {
        super::tell(format_args!("user model: {used}"));
    }
    let mut written = bench.written();
    written.insert("profiles".into(), profiles.origin().into());
    written.insert("profiles_fingerprint".into(), fingerprint(&profiles).into());
    written.insert("user".into(), users.name().into());
    if let Some(settings) = &judged.settings {
        written.insert("judge".into(), settings.clone());
    }
    let outcomes = outcomes(&episodes);
    let unscored = episodes.len() - outcomes.len();
    let result = EvalResult { outcomes, unscored, settings: written, seed: args.seed };
    finish(&result, Some(&judged), args.json.as_deref())
}

/// Runs `work` in a pool of `threads` threads: whoever waits for a server needs no core.
fn side_by_side<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build().context("no threads to be had")?;
    Ok(pool.install(work))
}

fn finish(result: &EvalResult, judged: Option<&Judged>, json: Option<&Path>) -> anyhow::Result<Ended> {
    let capabilities = judged.and_then(|judged| judged.capabilities.as_ref());
    if let Some(path) = json {
        let mut value = result.to_json()?;
        if let Some(judged) = judged {
            value["behaviour"] = judged.behaviour.to_json();
        }
        if let Some(capabilities) = capabilities {
            value["judged"] = capabilities.to_json();
        }
        write_json(path, &value)?;
    }
    // Last, so that the files are there even when nobody reads the table.
    say!("{}", result.summary()?.table());
    if let Some(capabilities) = capabilities {
        say!("{}", capabilities.table());
    }
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

/// Reads `--start-emotion`.
pub(super) fn start_emotion(score: u8) -> anyhow::Result<Emotion> {
    Emotion::new(i64::from(score))
        .filter(|e| (10..100).contains(&e.score()))
        .with_context(|| format!("--start-emotion {score} must lie between 10 and 99"))
}
