use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rlver::evaluate::before_after_table;
use rlver::metrics::{Eta, Metrics, human_duration};
use rlver::recipe::Recipe;
use rlver::train::{self, Event, Outcome, RunOptions};

use super::Ended;

/// `rlver train`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recipe file.
    recipe: PathBuf,
    /// Override a key: `section.key=value` (the section may be left out where the key is unique).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run folder; by default `<run.out>/<recipe name>`.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where to compute; overrides `run.device`.
    #[arg(long)]
    device: Option<String>,
    /// Continue the run folder's last checkpoint.
    #[arg(long)]
    resume: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let mut set = args.set;
    set.extend(args.device.map(|device| format!("run.device=\"{device}\"")));
    let recipe = Recipe::load(&args.recipe, &set)?;
    let folder = args.out.unwrap_or_else(|| {
        let name = args.recipe.file_stem().map_or_else(|| "run".into(), |s| s.to_os_string());
        Path::new(&recipe.run.out).join(name)
    });
    let stop = super::stop_on_ctrl_c()?;
    let begun = Instant::now();
    let mut screen = Screen::new();
    let options = RunOptions { recipe: &recipe, folder: &folder, resume: args.resume, stop: &stop };
    let outcome = train::run(&options, &mut |event| screen.show(event))?;
    screen.clear();
    match outcome {
        Outcome::Interrupted { step } => {
            // The folder's own recipe holds every override the run was started with.
            let folder = folder.display();
            screen.line(&format!(
                "stopped after step {step}; continue with: rlver train {folder}/recipe.toml --resume --out {folder}"
            ));
            Ok(Ended::Interrupted)
        }
        Outcome::Finished { policy, evaluation } => {
            if let Some(evaluation) = evaluation {
                screen.line("\nheld-out people, before and after training:\n");
                screen.line(&before_after_table(&evaluation.0, &evaluation.1));
            }
            screen.line(&format!("done in {}", human_duration(begun.elapsed().as_secs_f64())));
            screen.line(&format!("model:    {}", policy.display()));
            screen.line(&format!("curve:    {}", folder.join("curve.svg").display()));
            screen.line(&format!("episodes: {}", folder.join("episodes").display()));
            screen.line(&format!("talk to it: rlver chat --model {}", policy.display()));
            Ok(Ended::Done)
        }
    }
}

/// The live display: a bar on a terminal, plain lines elsewhere.
struct Screen {
    bar: ProgressBar,
    eta: Eta,
    live: bool,
}

impl Screen {
    fn new() -> Screen {
        let live = std::io::stderr().is_terminal();
        let bar = if live { ProgressBar::new(1) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{bar:30}] {pos}/{len}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Screen { bar, eta: Eta::new(), live }
    }

    /// Prints a line above the bar. A reader that went away is no reason to lose a run.
    fn line(&self, text: &str) {
        let print = || {
            let _ = writeln!(std::io::stdout(), "{text}");
        };
        if self.live { self.bar.suspend(print) } else { print() }
    }

    fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Note(text) => self.line(&text),
            Event::Dialogues(what, progress) => {
                self.bar.set_length(progress.total as u64);
                self.bar.set_position(progress.done as u64);
                self.bar.set_message(format!("{what}, {} tokens", progress.tokens));
            }
            Event::Step(metrics, last) => {
                self.eta.record(metrics.get("time/total_s").unwrap_or(0.0));
                let left = (last as u64).saturating_sub(metrics.step());
                let eta = self.eta.remaining(left).map_or_else(String::new, |s| format!("  ETA {}", human_duration(s)));
                if let Some(text) = step_line(metrics, last) {
                    self.line(&format!("{text}{eta}"));
                }
            }
            Event::Checkpoint(path) => self.line(&format!("checkpoint {}", path.display())),
            Event::Evaluated(name, summary) => self.line(&format!(
                "evaluation {name}: mean final emotion {:.1}, success {:.0} %, failure {:.0} % ({} dialogues)",
                summary.overall.mean_final_emotion.mean,
                summary.overall.success_rate.mean * 100.0,
                summary.overall.failure_rate.mean * 100.0,
                summary.overall.n,
            )),
        }
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn step_line(metrics: &Metrics, last: usize) -> Option<String> {
    let get = |key: &str| metrics.get(key);
    let step = metrics.step();
    if let Some(loss) = get("sft/loss") {
        let heldout = get("sft/heldout_loss").map_or_else(String::new, |l| format!("  held-out {l:.3}"));
        let quiet = !step.is_multiple_of(10) && step != 1 && step as usize != last && heldout.is_empty();
        return (!quiet).then(|| {
            format!(
                "step {step}/{last}  loss {loss:.3}{heldout}  {:.0} tokens/s",
                get("throughput/tokens_per_s").unwrap_or(0.0)
            )
        });
    }
    Some(format!(
        "step {step}/{last}  emotion {:.1}  success {:.0} %  failure {:.0} %  KL {:.4}  entropy {:.2}  {:.0} tokens/s",
        get("emotion/mean").unwrap_or(0.0),
        get("emotion/success_rate").unwrap_or(0.0) * 100.0,
        get("emotion/failure_rate").unwrap_or(0.0) * 100.0,
        get("policy/approx_kl").unwrap_or(0.0),
        get("policy/entropy").unwrap_or(0.0),
        get("throughput/tokens_per_s").unwrap_or(0.0),
    ))
}
