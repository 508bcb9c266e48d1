//! Rule 10: the same recipe, seed and device give the same bytes, and a resumed run continues exactly.

use std::path::{Path, PathBuf};

use rlver::train::Outcome;

use crate::tiny::{self, Home};

const ALGORITHMS: [&str; 3] = ["ppo", "grpo", "sft"];

fn assert_equal_files(a: &[(PathBuf, Vec<u8>)], b: &[(PathBuf, Vec<u8>)]) {
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for ((name, a), (_, b)) in a.iter().zip(b) {
        assert!(a == b, "{} differs", name.display());
    }
}

fn run(home: &Home, algorithm: &str, name: &str, set: &[&str]) -> PathBuf {
    let folder = home.path(&format!("{name}-{algorithm}"));
    let outcome = tiny::train(&home.recipe(algorithm, set), &folder, tiny::FICKLE, false, None).unwrap();
    assert!(matches!(outcome, Outcome::Finished { .. }));
    folder
}

#[test]
fn rule_10_two_runs_of_a_recipe_are_the_same_bytes() {
    let home = Home::new();
    for algorithm in ALGORITHMS {
        let (first, second) = (run(&home, algorithm, "first", &[]), run(&home, algorithm, "second", &[]));
        assert_eq!(tiny::metrics(&first), tiny::metrics(&second), "{algorithm}");
        let files = tiny::files(&first);
        assert_equal_files(&files, &tiny::files(&second));
        for needed in ["policy/model.safetensors", "checkpoints/step-000004/policy/model.safetensors"] {
            assert!(files.iter().any(|(name, _)| name == Path::new(needed)), "{algorithm}: {needed}");
        }
        let other = run(&home, algorithm, "other", &["run.seed=2"]);
        assert_ne!(tiny::metrics(&first), tiny::metrics(&other), "the seed matters");
    }
}

#[test]
fn rule_10_a_resumed_run_continues_exactly() {
    let home = Home::new();
    for algorithm in ALGORITHMS {
        // Options that keep state of their own: a reference policy, schedules, an evaluation in between.
        let more = ["optimizer.warmup_steps=3", "optimizer.decay=cosine", "eval.every=3"];
        let kl = ["objective.kl=loss", "objective.kl_coef=0.05"];
        let set: Vec<&str> = more.iter().chain(if algorithm == "grpo" { &kl[..] } else { &[] }).copied().collect();
        let recipe = home.recipe(algorithm, &set);
        let whole = run(&home, algorithm, "whole", &set);
        let parts = home.path(&format!("parts-{algorithm}"));
        let stopped = tiny::train(&recipe, &parts, tiny::FICKLE, false, Some(2)).unwrap();
        assert!(matches!(stopped, Outcome::Interrupted { step: 2 }), "{stopped:?}");
        let finished = tiny::train(&recipe, &parts, tiny::FICKLE, true, None).unwrap();
        assert!(matches!(finished, Outcome::Finished { .. }));
        assert_eq!(tiny::metrics(&parts), tiny::metrics(&whole), "{algorithm}");
        let without_old = |folder: &Path| -> Vec<_> {
            let old = Path::new("checkpoints/step-000002");
            tiny::files(folder).into_iter().filter(|(name, _)| !name.starts_with(old)).collect()
        };
        assert_equal_files(&without_old(&parts), &without_old(&whole));
    }
}

/// A process that is killed leaves records of steps that no checkpoint holds; they are made again, not twice.
#[test]
fn rule_10_a_killed_run_continues_from_its_last_checkpoint() {
    let home = Home::new();
    for algorithm in ALGORITHMS {
        let set = ["checkpoint.every=2"];
        let whole = run(&home, algorithm, "whole", &set);
        let killed = run(&home, algorithm, "killed", &set);
        std::fs::remove_dir_all(killed.join("checkpoints/step-000004")).unwrap();
        std::fs::remove_dir_all(killed.join("policy")).unwrap();
        std::fs::create_dir(killed.join("checkpoints/step-000004.part")).unwrap();
        let mut log = std::fs::OpenOptions::new().append(true).open(killed.join("metrics.jsonl")).unwrap();
        std::io::Write::write_all(&mut log, b"{\"step\":5,\"emo").unwrap();
        tiny::train(&home.recipe(algorithm, &set), &killed, tiny::FICKLE, true, None).unwrap();
        assert_eq!(tiny::metrics(&killed), tiny::metrics(&whole), "{algorithm}");
        assert_equal_files(&tiny::files(&killed), &tiny::files(&whole));
    }
}

#[test]
fn rule_10_a_finished_run_can_be_made_longer() {
    let home = Home::new();
    for algorithm in ALGORITHMS {
        let whole = run(&home, algorithm, "whole", &[]);
        let parts = run(&home, algorithm, "parts", &["run.steps=2"]);
        tiny::train(&home.recipe(algorithm, &[]), &parts, tiny::FICKLE, true, None).unwrap();
        let weights = |folder: &Path| std::fs::read(folder.join("policy/model.safetensors")).unwrap();
        assert!(weights(&parts) == weights(&whole), "{algorithm}");
        let steps = |folder: &Path| tiny::metrics(folder).iter().map(|(step, _)| *step).collect::<Vec<_>>();
        assert_eq!(steps(&parts), steps(&whole), "{algorithm}");
    }
}

/// State that lives in neither networks nor optimizers: the adaptive coefficient and the curriculum.
#[test]
fn rule_10_what_else_a_run_carries_survives_a_stop() {
    let home = Home::new();
    for (algorithm, set) in [
        ("ppo", "kl=reward kl_control=adaptive kl_target=1e-4 kl_horizon=20 curriculum.controller=dual-loop"),
        ("grpo", "kl=loss kl_control=adaptive kl_target=1e-4 kl_horizon=20 curriculum.controller=dual-loop"),
    ] {
        let set: Vec<&str> = set.split(' ').chain(["curriculum.pass_emotion=30", "lr=0.01"]).collect();
        let recipe = home.recipe(algorithm, &set);
        let whole = run(&home, algorithm, "whole", &set);
        let parts = home.path(&format!("parts-{algorithm}"));
        let stopped = tiny::train(&recipe, &parts, tiny::FICKLE, false, Some(2)).unwrap();
        assert!(matches!(stopped, Outcome::Interrupted { step: 2 }));
        tiny::train(&recipe, &parts, tiny::FICKLE, true, None).unwrap();
        assert_eq!(tiny::metrics(&parts), tiny::metrics(&whole), "{algorithm}");
        let coefs: Vec<f64> = tiny::metrics(&whole)
            .iter()
            .flat_map(|(_, m)| m.iter().filter(|(k, _)| k == "policy/kl_coef").map(|(_, v)| *v))
            .collect();
        assert!(coefs.len() == 4 && coefs.windows(2).any(|w| w[0] != w[1]), "{algorithm}: {coefs:?}");
        let starts: std::collections::BTreeSet<u8> =
            tiny::episodes(&whole.join("episodes/step-000004.jsonl")).iter().map(|e| e.start_emotion.score()).collect();
        assert!(starts.len() > 1, "people come in different states: {starts:?}");
    }
}
