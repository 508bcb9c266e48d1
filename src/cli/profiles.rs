use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::dialogue::{Census, Language, ProfileSet};
use rlver::user::llm::engine::ChatSampling;
use rlver::user::llm::writer;

use super::Ended;

/// `rlver profiles`
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Check files of profiles; every broken line is named.
    Validate {
        /// JSONL files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show who is in a set of profiles.
    Stats {
        /// A JSONL file; by default the built-in sets.
        file: Option<PathBuf>,
    },
    /// Write new profiles with a language model, in two steps: persona, then scene.
    Generate(GenerateArgs),
}

/// `rlver profiles generate`
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    /// The language model: `llm:KEY=VALUE,…` with keys of `[llm]`, or a recipe file.
    #[arg(long)]
    model: String,
    /// Number of profiles.
    #[arg(long, default_value_t = 8)]
    n: usize,
    /// `zh` or `en`.
    #[arg(long, default_value = "zh")]
    language: String,
    /// Seed of what is drawn; part of the profiles' ids.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The JSONL file to write; what is there already is kept, and new profiles are added.
    #[arg(long)]
    out: PathBuf,
}

pub(crate) fn run(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::Validate { files } => validate(&files),
        Command::Stats { file } => stats(file.as_deref()),
        Command::Generate(args) => generate(&args),
    }
}

fn validate(files: &[PathBuf]) -> anyhow::Result<Ended> {
    let mut broken = 0;
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let problems = ProfileSet::problems(&name, &text);
        match problems.len() {
            0 => say!("{name}: {} profiles, all valid", ProfileSet::parse(&name, &text)?.len()),
            n => {
                broken += n;
                problems.iter().for_each(|problem| say!("{problem}"));
            }
        }
    }
    anyhow::ensure!(broken == 0, "{broken} problem{} found", if broken == 1 { "" } else { "s" });
    Ok(Ended::Done)
}

fn stats(file: Option<&Path>) -> anyhow::Result<Ended> {
    match file {
        Some(file) => show(&ProfileSet::load(file)?),
        None => [ProfileSet::builtin_train(), ProfileSet::builtin_heldout()].iter().for_each(show),
    }
    Ok(Ended::Done)
}

fn show(set: &ProfileSet) {
    let census = Census::of(set);
    say!("{}: {} profiles, {} with a first line", set.origin(), census.profiles, census.with_first_talk);
    for (group, counts) in &census.groups {
        say!("\n{group}");
        let mut counts: Vec<_> = counts.iter().collect();
        counts.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), (*name).clone()));
        for (name, n) in counts {
            say!("  {n:>6}  {:>5.1} %  {name}", 100.0 * *n as f64 / census.profiles as f64);
        }
    }
    say!("\ncharacters   least    mean    most");
    for (name, (least, mean, most)) in &census.lengths {
        say!("{name:<10} {least:>7} {mean:>7.0} {most:>7}");
    }
    say!("");
}

fn generate(args: &GenerateArgs) -> anyhow::Result<Ended> {
    let language = match args.language.as_str() {
        "zh" => Language::Zh,
        "en" => Language::En,
        other => anyhow::bail!("--language {other} is unknown; expected zh or en"),
    };
    anyhow::ensure!(args.n > 0, "--n must be at least 1");
    let recipe = rlver::user::UserChoice::recipe(&args.model)?;
    let engine = super::user::open_model("--model", &args.model)?;
    let mut unfinished = false;
    let kept = match std::fs::read_to_string(&args.out) {
        Ok(text) if !text.trim().is_empty() => {
            unfinished = !text.ends_with('\n');
            // Nothing is added to a file that is not what it should be.
            let set = ProfileSet::parse(&args.out.display().to_string(), &text)?;
            set.iter().map(|p| p.id.clone()).collect()
        }
        Ok(_) => std::collections::HashSet::new(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => std::collections::HashSet::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", args.out.display())),
    };
    let orders: Vec<_> =
        writer::orders(args.n, language, args.seed).into_iter().filter(|o| !kept.contains(&o.id)).collect();
    let open = || std::fs::OpenOptions::new().create(true).append(true).open(&args.out);
    let mut file = open().with_context(|| format!("cannot write {}", args.out.display()))?;
    if unfinished {
        writeln!(file).with_context(|| format!("cannot write {}", args.out.display()))?;
    }
    let llm = &recipe.llm;
    let sampling =
        ChatSampling { temperature: llm.temperature, top_p: llm.top_p, max_tokens: llm.max_tokens, seed: args.seed };
    let bar = indicatif::ProgressBar::new(orders.len() as u64);
    let written = writer::write(engine.as_ref(), &orders, sampling, llm.asks, &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let (mut good, mut failed) = (0, Vec::new());
    for profile in written {
        match profile {
            Ok(profile) => {
                writeln!(file, "{}", serde_json::to_string(&profile)?)
                    .with_context(|| format!("cannot write {}", args.out.display()))?;
                good += 1;
            }
            Err(problem) => failed.push(problem),
        }
    }
    say!("{good} profiles added to {} ({})", args.out.display(), engine.usage());
    if let Some(first) = failed.first() {
        anyhow::bail!("{} of {} profiles could not be written; the first: {first}", failed.len(), orders.len());
    }
    Ok(Ended::Done)
}
