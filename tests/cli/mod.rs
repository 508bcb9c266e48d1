//! The `rlver` command as a user meets it.

mod bench;
mod broken;
mod chat;
mod compare;
mod curve;
mod endpoint;
mod eval;
mod interrupt;
mod recipe;
mod report;
mod score;
mod train;
mod user;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::tiny::Home;

pub(crate) fn rlver(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlver"));
    command.args(arguments).stdin(Stdio::null()).env("HF_HUB_OFFLINE", "1");
    command
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Said {
        let said = Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        };
        assert!(!said.err.contains("panicked"), "{said:?}");
        assert!(said.code.is_some(), "no signal ends it: {said:?}");
        said
    }

    /// Asserts success.
    #[track_caller]
    pub(crate) fn well(self) -> Said {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Asserts a failure whose message holds all of `parts`.
    #[track_caller]
    pub(crate) fn refused(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.err.starts_with("error: "), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "the message should name {part:?}: {}", self.err);
        }
    }
}

pub(crate) fn say(arguments: &[&str]) -> Said {
    Said::of(rlver(arguments).output().expect("runs"))
}

pub(crate) fn say_with_input(arguments: &[&str], input: &str) -> Said {
    let mut child =
        rlver(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // A command that refuses its arguments never reads.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    Said::of(child.wait_with_output().expect("runs"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// `rlver train` with the tiny recipe into `out`, and overrides.
pub(crate) fn train(home: &Home, out: &str, set: &[&str]) -> Said {
    let (recipe, out) = (home.path("recipe.toml"), home.path(out));
    let mut arguments = vec!["train", text(&recipe), "--out", text(&out)];
    arguments.extend(set.iter().flat_map(|s| ["--set", s]));
    say(&arguments)
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    // `rlver … | head -1`: the pipe is closed before all is written.
    let home = Home::new();
    let (recipe, out) = (home.path("recipe.toml"), home.path("piped"));
    let policy = home.path("policy");
    let (profiles, json) = (home.path("heldout.jsonl"), home.path("eval.json"));
    let eval = ["eval", "--model", text(&policy), "--profiles", text(&profiles), "--json", text(&json)];
    let chat = ["chat", "--model", text(&policy), "--max-new-tokens", "4"];
    let train = ["train", text(&recipe), "--out", text(&out), "--set", "run.steps=2"];
    for arguments in [&["recipe", "explain"][..], &["recipe", "check", text(&recipe)], &train, &eval, &chat] {
        let mut child = rlver(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let _ = child.stdin.take().expect("piped").write_all(b"hello\n/system\n/reset\n");
        Said::of(child.wait_with_output().expect("runs"));
    }
    assert!(out.join("policy/model.safetensors").exists(), "the run does not end because nobody reads along");
    assert!(json.exists(), "nor is an evaluation lost");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else { return };
    let said = rlver(&["recipe", "explain"]).stdout(full).stderr(Stdio::piped()).output().expect("runs");
    Said::of(said).refused(&["standard output"]);
}
