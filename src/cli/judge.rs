use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::dialogue::ProfileSet;
use rlver::user::judge::figures::{Figures, intervals};
use rlver::user::judge::recorded::Recorded;
use rlver::user::judge::{Judge, TurnVerdict};

use super::Ended;

/// `rlver judge`: scores recorded dialogues as the calibrated built-in user would.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Dialogues, one JSON object a line (SAGE records or episodes of a run); `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    transcripts: PathBuf,
    /// Profiles (published RLVER JSONL) that give persona and scene by id; without them only character type and hidden
    /// intention are known.
    #[arg(long)]
    profiles: Option<PathBuf>,
    /// Print one JSON object with the figures.
    #[arg(long)]
    json: bool,
    /// Write what is made of each reply as JSON lines.
    #[arg(long, value_name = "FILE")]
    per_turn: Option<PathBuf>,
    /// Weights that `rlver user fit` wrote, instead of the shipped ones.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let profiles = args.profiles.as_deref().map(ProfileSet::load).transpose()?;
    let dialogues = read(&args.transcripts, profiles.as_ref())?;
    let judge = match &args.weights {
        None => Judge::shipped().clone(),
        Some(path) => {
            let name = path.display().to_string();
            Judge::parse(&name, &std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?)?
        }
    };
    let (verdicts, compared) = judge.transcripts(&dialogues);
    if let Some(path) = &args.per_turn {
        let lines: Result<Vec<String>, _> = verdicts.iter().map(serde_json::to_string).collect();
        std::fs::write(path, lines?.join("\n") + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    let figures = Figures::of(&compared);
    if args.json {
        let object = match &figures {
            Some(figures) => serde_json::to_value(figures)?,
            // Nothing to compare with: how the dialogues ran is still told.
            None => serde_json::json!({ "n": 0, "sign_agreement": null, "model_spearman": null,
                "sign_continuation": null, "final_sd": null, "marginals": null, "recorded": null }),
        };
        say!("{}", serde_json::to_string_pretty(&object)?);
        return Ok(Ended::Done);
    }
    overview(&verdicts);
    if let Some(figures) = figures {
        agreement(&figures, &intervals(&compared));
    }
    Ok(Ended::Done)
}

/// Reads the dialogues of a file or of standard input.
pub(super) fn read(path: &Path, profiles: Option<&ProfileSet>) -> anyhow::Result<Vec<Recorded>> {
    let name = path.display().to_string();
    let mut text = String::new();
    if name == "-" {
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    }
    let origin = if name == "-" { "standard input" } else { &name };
    Ok(Recorded::parse(origin, &text, profiles)?)
}

fn overview(verdicts: &[TurnVerdict]) {
    let mut models: BTreeMap<&str, (usize, f64, usize)> = BTreeMap::new();
    for verdict in verdicts {
        let sums = models.entry(&verdict.model).or_default();
        sums.0 += 1;
        sums.1 += f64::from(verdict.change);
        sums.2 += usize::from(verdict.guard.is_some());
    }
    say!("{:<28}{:>9}{:>14}{:>10}", "replies by", "replies", "mean change", "guarded");
    for (model, (n, change, guarded)) in models {
        say!("{model:<28}{n:>9}{:>+14.2}{guarded:>10}", change / n as f64);
    }
}

pub(super) fn agreement(figures: &Figures, intervals: &[(f64, f64); 5]) {
    let a = &figures.sign_agreement;
    say!("\nagreement in sign with {} recorded changes (95 % interval over profiles)", figures.n);
    let views = [
        ("teacher-forced", a.teacher_forced),
        ("free-running", a.free_running),
        ("reply only", a.reply_only),
        ("state only (reads no reply)", a.state_only),
        ("teacher-forced - state only", a.teacher_forced - a.state_only),
    ];
    for ((name, value), (low, high)) in views.into_iter().zip(intervals) {
        say!("  {name:<30}{value:>7.3}   [{low:.3}, {high:.3}]");
    }
    let r = &figures.recorded;
    say!("\n{:<32}{:>9}{:>10}", "", "model", "recorded");
    if let Some(rho) = figures.model_spearman {
        let halves = r.model_spearman_of_halves.map_or(String::new(), |h| format!("{h:.3}"));
        say!(
            "{:<32}{rho:>9.3}{halves:>10}   (recorded: one half of the people against the other)",
            "rank correlation over models"
        );
    }
    say!("{:<32}{:>9.3}{:>10.3}", "same sign as before", figures.sign_continuation, r.sign_continuation);
    say!("{:<32}{:>9.1}{:>10.1}", "spread of final emotions", figures.final_sd, r.final_sd);
    say!("\n{:<10}{:>32}{:>32}", "band", "model -10 / -5 / +5 / +10", "recorded");
    let shares = |s: Option<&[f64; 4]>| match s {
        Some(s) => s.iter().map(|v| format!("{v:.2}")).collect::<Vec<_>>().join("  "),
        None => "-".into(),
    };
    for band in ["A", "B", "C"] {
        say!("{band:<10}{:>32}{:>32}", shares(figures.marginals.get(band)), shares(r.marginals.get(band)));
    }
}
