//! The command line: one file per subcommand, each thin: parse, call the library, print.

/// Prints a line on standard output. A reader that went away (`rlver … | head`) ends the program quietly, where
/// `println!` would panic.
macro_rules! say {
    ($($text:tt)*) => { crate::cli::print(format_args!("{}\n", format_args!($($text)*))) };
}

mod audit;
mod bench;
mod chat;
mod compare;
mod curve;
mod eval;
mod judge;
mod plan;
mod play;
mod profiles;
mod recipe;
mod report;
mod score;
mod train;
mod user;
mod user_fit;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, Subcommand};
use rlver::train::StopFlag;

/// Train empathetic language models with verifiable emotion rewards.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a policy as a recipe describes.
    Train(train::Args),
    /// Evaluate a policy on held-out simulated people.
    Eval(Box<eval::Args>),
    /// Talk with a policy.
    Chat(chat::Args),
    /// Score recorded dialogues as the calibrated built-in user would.
    Judge(judge::Args),
    /// Talk with a simulated person yourself.
    Play(play::Args),
    /// Make a page about one or several runs.
    Report(report::Args),
    /// Teacher-forced log-probabilities of given tokens.
    Score(score::Args),
    /// Train several recipes with several seeds and put them side by side.
    Compare(compare::Args),
    /// Draw a metric of one or several runs.
    Curve(curve::Args),
    /// Derive a run's record again and stop at the first number that does not follow.
    Audit(audit::Args),
    /// Measure speed and memory on this machine.
    Bench(bench::Args),
    /// Say what a recipe will need: memory, time, disk.
    Plan(plan::Args),
    /// Measure simulated users.
    #[command(subcommand)]
    User(user::Command),
    /// Check, count or write profiles.
    #[command(subcommand)]
    Profiles(profiles::Command),
    /// Check a recipe or explain every key.
    #[command(subcommand)]
    Recipe(recipe::Command),
}

/// How a subcommand ended well.
pub(crate) enum Ended {
    /// It did what it was asked to.
    Done,
    /// It was interrupted; what it made is safe.
    Interrupted,
}

/// Writes to standard output at once.
pub(crate) fn print(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        tell(format_args!("error: cannot write to standard output: {error}"));
        std::process::exit(1);
    }
}

/// Writes a line to standard error. Unlike `eprintln!` it does not panic when nobody reads.
pub(crate) fn tell(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A flag that Ctrl-C raises; a second Ctrl-C ends the process.
pub(crate) fn stop_on_ctrl_c() -> anyhow::Result<Arc<StopFlag>> {
    let stop = Arc::new(StopFlag::default());
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.is_raised() {
            std::process::exit(130);
        }
        raised.raise();
        tell("\nfinishing this step, then stopping with a checkpoint (Ctrl-C again to stop at once)");
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(stop)
}

/// Runs the command line.
pub(crate) fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Train(args) => train::run(args),
        Command::Eval(args) => eval::run(&args),
        Command::Chat(args) => chat::run(args),
        Command::Play(args) => play::run(args),
        Command::Report(args) => report::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Curve(args) => curve::run(args),
        Command::Judge(args) => judge::run(args),
        Command::Score(args) => score::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Plan(args) => plan::run(args),
        Command::User(command) => user::run(command),
        Command::Profiles(command) => profiles::run(command),
        Command::Recipe(command) => recipe::run(command),
    };
    match result {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        // 128 + SIGINT, as shells report it.
        Ok(Ended::Interrupted) => ExitCode::from(130),
        Err(error) => {
            let mut said = error.to_string();
            tell(format_args!("error: {said}"));
            for cause in error.chain().skip(1).map(ToString::to_string) {
                // Many messages name their cause themselves.
                if !said.contains(&cause) {
                    tell(format_args!("  because: {cause}"));
                    said = cause;
                }
            }
            ExitCode::FAILURE
        }
    }
}
