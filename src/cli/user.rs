use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::device::DeviceChoice;
use rlver::dialogue::ProfileSet;
use rlver::recipe::Recipe;
use rlver::user::probe::{self, Acceptance, CHALLENGING, Share, VANILLA};
use rlver::user::{UserChoice, UserEngine};
use serde_json::json;

use super::Ended;

/// `rlver user`
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Measure how readily a simulated user takes what is offered, and how clearly it lets its need be known.
    Probe(ProbeArgs),
    /// Fit the calibrated built-in user to recorded judgements.
    Fit(super::user_fit::Args),
}

/// `rlver user probe`
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    /// The user: `builtin`, `builtin:calibrated`, `llm:KEY=VALUE,…` with keys of `[llm]`, `replay:RUN`, or
    /// a recipe file.
    #[arg(long, default_value = "builtin")]
    user: String,
    /// Profiles with fixed first lines; by default the built-in held-out ones.
    #[arg(long)]
    profiles: Option<PathBuf>,
    /// Use only so many people, spread over the set.
    #[arg(long)]
    people: Option<usize>,
    /// A language model that judges how clearly the need shows, as `llm:KEY=VALUE,…` or a recipe file.
    #[arg(long, value_name = "USER")]
    judge: Option<String>,
    /// Emotion before the reply.
    #[arg(long, default_value_t = 40)]
    start_emotion: u8,
    /// Seed of replies and users.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::Probe(args) => probe(&args),
        Command::Fit(args) => super::user_fit::run(&args),
    }
}

fn probe(args: &ProbeArgs) -> anyhow::Result<Ended> {
    let start = super::eval::start_emotion(args.start_emotion)?;
    let users = UserChoice::recipe(&args.user)?.open_users()?;
    let judge = args.judge.as_deref().map(|spec| open_model("--judge", spec)).transpose()?;
    let profiles = match &args.profiles {
        Some(path) => ProfileSet::load(path)?,
        None => ProfileSet::builtin_heldout(),
    };
    let probes = probe::probes(&profiles, args.seed);
    anyhow::ensure!(
        !probes.is_empty(),
        "{} has no profile with a fixed first line (first_talk); probes need one",
        profiles.origin()
    );
    let probes = spread(probes, args.people);
    let bar = indicatif::ProgressBar::new(probes.len() as u64);
    let outcomes = probe::put(users.as_ref(), &probes, start, args.seed, &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let acceptance = Acceptance::of(&probes, &outcomes);
    if let Some(first) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
        anyhow::ensure!(acceptance.all.of > 0, "no probe was answered; the first failure: {first}");
        let failed = acceptance.failed;
        super::tell(format_args!("{failed} of {} probes have no answer; the first: {first}", probes.len()));
    }
    let expression = judge.map(|judge| {
        let bar = indicatif::ProgressBar::new(acceptance.all.of as u64);
        let found = probe::judge(judge.as_ref(), &probes, &outcomes, args.seed, &|done| bar.set_position(done as u64));
        bar.finish_and_clear();
        found
    });
    if let Some(path) = &args.json {
        let result = json!({
            "user": users.name(),
            "profiles": profiles.origin(),
            "start_emotion": args.start_emotion,
            "seed": args.seed,
            "acceptance_rate": acceptance.all.rate(),
            "acceptance": acceptance,
            "expression_level": expression.filter(|e| e.judged > 0).map(|e| e.level()),
            "expression": expression,
        });
        std::fs::write(path, serde_json::to_string_pretty(&result)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let level = match expression {
        Some(e) if e.judged > 0 => percent(e.level()),
        Some(_) => "judge failed".into(),
        None => "– (--judge)".into(),
    };
    say!("{:<34}{:>12}{:>16}", "", "acceptance", "expression");
    say!("{:<34}{:>12}{:>16}", users.name(), percent(acceptance.all.rate()), level);
    for (name, (rate, level)) in [("RLVER's vanilla user", VANILLA), ("RLVER's challenging user", CHALLENGING)] {
        say!("{name:<34}{:>12}{:>16}", percent(rate), percent(level));
    }
    let group = |name: String, share: &Share| say!("  {name:<32}{:>12}{:>16}", percent(share.rate()), share.of);
    say!("\n{:<34}{:>12}{:>16}", "by strategy", "acceptance", "probes");
    acceptance.by_strategy.iter().for_each(|(strategy, share)| group(kebab(strategy), share));
    say!("\n{:<34}{:>12}{:>16}", "by hidden intention", "acceptance", "probes");
    acceptance.by_intention.iter().for_each(|(intention, share)| group(intention.to_string(), share));
    if let Some(used) = users.usage() {
        say!("\n{used}");
    }
    Ok(Ended::Done)
}

/// A language model given on the command line.
pub(super) fn open_model(flag: &str, spec: &str) -> anyhow::Result<Box<dyn rlver::user::llm::engine::ChatEngine>> {
    let device = UserChoice::recipe(spec).with_context(|| format!("{flag} {spec}"))?.run.device;
    Ok(recipe_of_model(flag, spec, &device)?.open_llm()?)
}

/// The recipe that describes a language model given on the command line; one in this process computes on `device`.
pub(super) fn recipe_of_model(flag: &str, spec: &str, device: &str) -> anyhow::Result<Recipe> {
    let recipe = recipe(spec, device).with_context(|| format!("{flag} {spec}"))?;
    anyhow::ensure!(recipe.user.engine == "llm", "{flag} {spec} is no language model; expected llm:KEY=VALUE,…");
    Ok(recipe)
}

/// The probes of `people` of the people, evenly spread.
fn spread(probes: Vec<probe::Probe>, people: Option<usize>) -> Vec<probe::Probe> {
    let mut ids: Vec<&str> = probes.iter().map(|p| p.profile.id.as_str()).collect();
    ids.dedup();
    let (all, wanted) = (ids.len(), people.unwrap_or(usize::MAX).max(1));
    if wanted >= all {
        return probes;
    }
    let kept: std::collections::HashSet<String> = (0..wanted).map(|i| ids[i * all / wanted].to_string()).collect();
    probes.into_iter().filter(|p| kept.contains(&p.profile.id)).collect()
}

/// A value's name as results write it.
fn kebab(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The users that `--user` of another command names; `device` is where a model in this process computes.
pub(super) fn open_users(spec: &str, device: &str) -> anyhow::Result<Box<dyn UserEngine>> {
    Ok(recipe(spec, device)?.open_users()?)
}

/// As [`open_users`], but those that a recipe evaluates with.
pub(super) fn open_evaluation_users(spec: &str, device: &str) -> anyhow::Result<Box<dyn UserEngine>> {
    let recipe = recipe(spec, device)?;
    Ok(match recipe.open_evaluation_users()? {
        Some(users) => users,
        None => recipe.open_users()?,
    })
}

fn recipe(spec: &str, device: &str) -> anyhow::Result<Recipe> {
    let mut recipe = UserChoice::recipe(spec)?;
    DeviceChoice::parse(device).map_err(anyhow::Error::msg)?;
    if Path::new(spec).extension().is_none_or(|e| e != "toml") {
        recipe.run.device = device.into();
    }
    Ok(recipe)
}
