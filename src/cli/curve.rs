use std::path::PathBuf;

use anyhow::{Context, ensure};
use rlver::metrics::{MetricsLog, Series, documented, learning_curve_svg};

use super::Ended;

/// `rlver curve`: draws a metric of one or several runs as an SVG picture.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run folders.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The metric, as docs/metrics.md names it.
    #[arg(long, default_value = "emotion/mean")]
    key: String,
    /// Where the picture goes.
    #[arg(short, long)]
    out: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let metric =
        documented(&args.key).with_context(|| format!("unknown metric {}; docs/metrics.md lists them", args.key))?;
    let mut series = Vec::new();
    for run in &args.runs {
        let records = MetricsLog::read(run.join("metrics.jsonl"))?;
        let points: Vec<(f64, f64)> =
            records.iter().filter_map(|m| Some((m.step() as f64, m.get(&args.key)?))).collect();
        ensure!(!points.is_empty(), "{} has no record of {}", run.display(), args.key);
        let name = run.file_name().map_or_else(|| run.display().to_string(), |n| n.to_string_lossy().into());
        series.push(Series { name, points });
    }
    let range = args.key.starts_with("emotion/mean").then_some((0.0, 100.0));
    let svg = learning_curve_svg(metric.name, &series, "step", metric.unit, range, &[]);
    std::fs::write(&args.out, svg).with_context(|| format!("cannot write {}", args.out.display()))?;
    say!("{}", args.out.display());
    Ok(Ended::Done)
}
