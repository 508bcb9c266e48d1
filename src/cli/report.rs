use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::report::{ReportOptions, RunDigest, TokenText, render, watch};
use rlver::train::load_tokenizer;
use rlver_models::tokenizer::{StreamDecoder, Tokenizer};

use super::Ended;

/// `rlver report`: one HTML file about one or several runs, or a page that follows a run while it trains.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders of runs; several are laid over each other.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The HTML file to write.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Serve the report on 127.0.0.1 and keep it fresh instead of writing a file; Ctrl-C ends.
    #[arg(long)]
    watch: bool,
    /// Port of `--watch`; 0 takes any free one.
    #[arg(long, default_value_t = 8765)]
    port: u16,
    /// Most dialogues the page carries; of more, a sample is taken and the page says so.
    #[arg(long, default_value_t = ReportOptions::default().max_dialogues)]
    dialogues: usize,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let options = ReportOptions { max_dialogues: args.dialogues, live: false };
    if args.watch {
        watch(
            &args.runs,
            options,
            args.port,
            &token_text,
            &mut |address| say!("the report is at {address} (Ctrl-C ends)"),
            &|| true,
        )?;
        return Ok(Ended::Done);
    }
    let mut runs: Vec<RunDigest> = args.runs.iter().map(|root| RunDigest::read(root)).collect::<Result<_, _>>()?;
    for run in &mut runs {
        run.tokens = token_text(run);
    }
    let report = render(&runs, &options)?;
    std::fs::write(&args.out, &report.html).with_context(|| format!("cannot write {}", args.out.display()))?;
    let sampled = if report.shown < report.total {
        format!(" ({} of {} dialogues)", report.shown, report.total)
    } else {
        String::new()
    };
    say!("{}{sampled}", args.out.display());
    Ok(Ended::Done)
}

/// The tokenizer of a run: of its final policy, else of its newest checkpoint, else of the policy it started from. Nothing
/// is downloaded for it: without one the page shows ids.
fn token_text(run: &RunDigest) -> Option<TokenText> {
    let mut folders = vec![run.root.join("policy")];
    let mut checkpoints: Vec<PathBuf> = std::fs::read_dir(run.root.join("checkpoints"))
        .map(|entries| entries.flatten().map(|e| e.path().join("policy")).collect())
        .unwrap_or_default();
    checkpoints.sort();
    folders.extend(checkpoints.into_iter().rev());
    let own = folders.iter().find_map(|folder| Tokenizer::load(folder).ok());
    let start = || {
        let name = run.key("model", "policy")?;
        (name.starts_with("builtin:") || Path::new(&name).is_dir()).then(|| load_tokenizer(&name).ok()).flatten()
    };
    let tokenizer = own.or_else(start)?;
    Some(Box::new(move |ids| {
        let mut decoder = StreamDecoder::new(&tokenizer, false);
        // Ids beyond the tokenizer belong to another model's run; they stay without text.
        ids.iter()
            .map(|id| if (*id as usize) < tokenizer.vocab_size() { decoder.push(*id) } else { None })
            .map(Option::unwrap_or_default)
            .collect()
    }))
}
