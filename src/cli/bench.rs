use std::io::{BufReader, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rlver::bench::{ModelSource, Plan, Shape, Stage, measure, serve};
use rlver::device::DeviceChoice;

use super::Ended;

/// `rlver bench`: tokens per second and peak memory of prefill, decoding, the update and a whole training step.
///
/// Each stage runs in a process of its own. A step uses the built-in people and, for a shape, random weights.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model: `builtin:pico`, a folder or a Hugging Face id.
    #[arg(long, conflicts_with = "shape")]
    model: Option<String>,
    /// Random weights instead: `small`, `smollm2`, or sizes such as `h=256,layers=4,heads=8,kv=2,ffn=704,vocab=4096`.
    #[arg(long, default_value = "small")]
    shape: String,
    /// Where to compute.
    #[arg(long, default_value = "flex")]
    device: String,
    /// Only this stage; may be given several times: prefill, decode-N (sequences), update, step, dialogue-N, packed-N (tokens).
    #[arg(long = "stage", value_name = "STAGE")]
    stages: Vec<String>,
    /// Instead of the usual stages: how cost grows from 512 to 8,192 tokens.
    #[arg(long, conflicts_with = "stages")]
    scaling: bool,
    /// Timed runs of each stage, after one to warm up.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: u16,
    /// Write everything measured here, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Be the process that measures one stage: one run per line of standard input.
    #[arg(long, hide = true)]
    serve: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let choice = DeviceChoice::parse(&args.device).map_err(anyhow::Error::msg)?;
    let source = match args.model {
        Some(name) => ModelSource::Checkpoint(name),
        None => ModelSource::Shape(Shape::parse(&args.shape)?),
    };
    let chosen = args.stages.iter().map(|s| Stage::parse(s)).collect::<Result<Vec<Stage>, _>>()?;
    if args.serve {
        let stage = *chosen.first().context("--serve needs a --stage")?;
        serve(stage, &source, &args.device, &choice.open(), BufReader::new(std::io::stdin()), std::io::stdout())?;
        return Ok(Ended::Done);
    }
    let stages = match (args.scaling, chosen.is_empty()) {
        (true, _) => Stage::scaling(),
        (false, true) => Stage::ALL.to_vec(),
        (false, false) => chosen,
    };
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let plan = Plan { program, source: &source, device: args.device, stages, repeats: args.repeats.into() };
    let bar = progress_bar();
    let report = measure(&plan, &mut |what| match &bar {
        Some(bar) => bar.set_message(what.to_string()),
        None => super::tell(what),
    })?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    say!("{}", report.table().trim_end());
    if let Some(path) = args.json {
        let text = format!("{:#}\n", serde_json::to_value(&report)?);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Ended::Done)
}

/// A spinner on a terminal; elsewhere lines are written instead.
fn progress_bar() -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    Some(bar)
}
