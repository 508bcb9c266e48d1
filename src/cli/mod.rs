//! The command line: one file per subcommand, each thin: parse, call the library, print.

mod chat;
mod eval;
mod recipe;
mod score;
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Eval(eval::Args),
    /// Talk with a policy.
    Chat(chat::Args),
    /// Teacher-forced log-probabilities of given tokens.
    Score(score::Args),
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

/// Runs the command line.
pub(crate) fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Train(args) => train::run(args),
        Command::Eval(args) => eval::run(args),
        Command::Chat(args) => chat::run(args),
        Command::Score(args) => score::run(args),
        Command::Recipe(command) => recipe::run(command),
    };
    match result {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        // 128 + SIGINT, as shells report it.
        Ok(Ended::Interrupted) => ExitCode::from(130),
        Err(error) => {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("error: {error}");
                for cause in error.chain().skip(1) {
                    eprintln!("  because: {cause}");
                }
            }
            ExitCode::FAILURE
        }
    }
}
