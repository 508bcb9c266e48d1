//! Ctrl-C: the step is finished, a checkpoint written, the way to go on told; and that way works.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use super::{Said, rlver, text};
use crate::tiny::{self, Home};

/// Starts a run, sends SIGINT when a line holds `when`, and returns what it said.
fn interrupted(home: &Home, out: &str, set: &[&str], when: &str) -> Said {
    let (recipe, out) = (home.path("recipe.toml"), home.path(out));
    let mut arguments = vec!["train", text(&recipe), "--out", text(&out)];
    arguments.extend(set.iter().flat_map(|s| ["--set", s]));
    let mut child = rlver(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut out = String::new();
    while lines.read_line(&mut out).expect("readable") > 0 {
        if out.lines().last().is_some_and(|line| line.contains(when)) {
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill runs").success());
            break;
        }
    }
    lines.read_to_string(&mut out).expect("readable");
    let mut said = Said::of(child.wait_with_output().expect("runs"));
    said.out = out;
    said
}

#[test]
fn the_run_stops_cleanly_and_the_printed_command_continues_it() {
    let home = Home::new();
    for algorithm in ["ppo", "sft"] {
        std::fs::write(home.path("recipe.toml"), home.recipe_text(algorithm)).unwrap();
        // Overrides are part of the run: the printed command must not forget them.
        let set = ["run.steps=2000", "optimizer.lr=0.002"];
        let said = interrupted(&home, algorithm, &set, "step 1/");
        assert_eq!(said.code, Some(130), "{said:?}");
        assert!(said.err.contains("finishing this step"), "{}", said.err);
        let last = said.out.lines().last().unwrap();
        let (stopped, command) = last.split_once("continue with: rlver ").unwrap_or_else(|| panic!("{last}"));
        let step: u64 = stopped.split_whitespace().find_map(|w| w.trim_end_matches(';').parse().ok()).unwrap();
        assert!(home.path(algorithm).join(format!("checkpoints/step-{step:06}/progress.json")).exists());
        let steps = format!("run.steps={}", step + 1);
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.extend(["--set", &steps]);
        Said::of(rlver(&arguments).output().expect("runs")).well();
        assert_eq!(tiny::metrics(&home.path(algorithm)).last().unwrap().0, step + 1);
        assert!(home.path(algorithm).join("policy/model.safetensors").exists());
    }
}

#[test]
fn an_interrupt_during_the_first_evaluation_loses_nothing() {
    let home = Home::new();
    let said = interrupted(&home, "early", &["run.steps=500", "eval.seeds=40"], "policy");
    assert_eq!(said.code, Some(130), "{said:?}");
    assert!(home.path("early/checkpoints").exists(), "{said:?}");
    let (recipe, run) = (home.path("recipe.toml"), home.path("early"));
    let arguments =
        ["train", text(&recipe), "--out", text(&run), "--resume", "--set", "run.steps=1", "--set", "eval.seeds=1"];
    Said::of(rlver(&arguments).output().expect("runs")).well();
    assert_eq!(tiny::metrics(&run).iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 1]);
}
