use std::path::PathBuf;

use clap::Subcommand;
use rlver::recipe::{Recipe, explain};

use super::Ended;

/// `rlver recipe …`
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a recipe and print it with every key resolved.
    Check {
        /// The recipe file.
        recipe: PathBuf,
        /// Override a key: `section.key=value`.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Print the reference of all keys as markdown.
    Explain,
}

pub(crate) fn run(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::Check { recipe, set } => super::print(format_args!("{}", Recipe::load(&recipe, &set)?.to_toml())),
        Command::Explain => super::print(format_args!("{}", explain())),
    }
    Ok(Ended::Done)
}
