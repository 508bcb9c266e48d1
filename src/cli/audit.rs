use std::path::PathBuf;

use rlver::audit::{self, AuditOptions};

use super::Ended;

/// `rlver audit`: derives a run's record again and stops at the first number that does not follow.
///
/// Checks that the dialogues are those the recipe and its seed call for; every emotion, appraisal, line and reward;
/// every token's text, place and mask; every advantage; the steps' metrics; and, where the weights are kept,
/// log-probabilities and values.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run folder.
    run: PathBuf,
    /// Leave out log-probabilities and values, which take a forward pass over every token.
    #[arg(long)]
    skip_logprobs: bool,
    /// Compute them on this device instead of the run's own: flex, cuda, vulkan, wgpu or cpu.
    #[arg(long, default_value = "", hide_default_value = true)]
    device: String,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let options = AuditOptions { skip_logprobs: args.skip_logprobs, device: args.device };
    let mut finished = Vec::new();
    let result = audit::audit(&args.run, options, &mut |report| finished.push(report.clone()), &mut |note| {
        super::tell(format_args!("note: {note}"))
    });
    say!("{}", audit::table(&finished));
    result?;
    say!("everything that could be derived agrees with the record");
    Ok(Ended::Done)
}
