use std::path::PathBuf;

use anyhow::{Context, ensure};
use rlver::metrics::human_duration;
use rlver::recipe::Recipe;
use rlver::train::{self, Contestant, Event, Outcome, RunOptions, RunResult, comparison_svg, comparison_table};

use super::{Ended, stop_on_ctrl_c};

/// `rlver compare`: trains several recipes with several seeds and puts them side by side. Runs that are finished are
/// not repeated, interrupted ones are continued.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recipe files.
    #[arg(required = true)]
    recipes: Vec<PathBuf>,
    /// Seeds to run each recipe with.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3")]
    seeds: Vec<u64>,
    /// Folder for the runs, the table and the picture.
    #[arg(short, long, default_value = "runs/compare")]
    out: PathBuf,
    /// Emotion that a recipe is asked the number of steps to.
    #[arg(long, default_value_t = 60.0)]
    goal: f64,
    /// Override a key in all recipes: `section.key=value`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let mut jobs = Vec::new();
    let mut contestants: Vec<Contestant> = Vec::new();
    // Every recipe is read before the first is run: a mistake in the last should not cost the others' hours.
    for path in &args.recipes {
        let name = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        ensure!(contestants.iter().all(|c| c.name != name), "two recipes are called {name}; their runs would mix");
        for seed in &args.seeds {
            let mut set = args.set.clone();
            set.push(format!("run.seed={seed}"));
            let folder = args.out.join(format!("{name}-seed-{seed}"));
            jobs.push((contestants.len(), Recipe::load(path, &set)?, folder));
        }
        contestants.push(Contestant { name, results: Vec::new() });
    }
    let stop = stop_on_ctrl_c()?;
    let total = jobs.len();
    for (done, (contestant, recipe, folder)) in jobs.iter().enumerate() {
        if !RunResult::is_there(folder) {
            let begun = std::time::Instant::now();
            say!("run {} of {total}: {}", done + 1, folder.display());
            let options = RunOptions { recipe, folder, resume: folder.exists(), stop: &stop };
            let outcome = train::run(&options, &mut |event| {
                if let Event::Evaluated(when, summary) = event {
                    say!("  {when}: mean final emotion {:.1}", summary.overall.mean_final_emotion.mean);
                }
            })?;
            if let Outcome::Interrupted { step } = outcome {
                say!("stopped after step {step}; the same command continues");
                return Ok(Ended::Interrupted);
            }
            say!("  {}", human_duration(begun.elapsed().as_secs_f64()));
        }
        contestants[*contestant].results.push(RunResult::read(folder)?);
    }
    let table = comparison_table(&contestants, args.goal);
    for (name, text) in [("compare.md", table.clone()), ("compare.svg", comparison_svg(&contestants))] {
        let path = args.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    say!("\n{table}");
    say!("{}", args.out.join("compare.svg").display());
    Ok(Ended::Done)
}
