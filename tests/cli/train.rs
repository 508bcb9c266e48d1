//! `rlver train` from recipe to trained model, and the run folder it leaves.

use std::path::Path;

use rlver::metrics::{MetricsLog, documented};
use serde_json::Value;

use super::{say, text, train};
use crate::tiny::{self, Home};

fn exists(run: &Path, name: &str) {
    assert!(run.join(name).exists(), "{name} is missing");
}

fn check_metrics(run: &Path) -> Vec<rlver::metrics::Metrics> {
    let records = MetricsLog::read(run.join("metrics.jsonl")).unwrap();
    for record in &records {
        for (key, value) in record.iter() {
            assert!(documented(key).is_some(), "{key} is not documented");
            assert!(value.is_finite(), "step {}: {key} = {value}", record.step());
        }
    }
    records
}

#[test]
fn a_run_leaves_everything_it_promises() {
    let home = Home::new();
    let said = train(&home, "run", &["checkpoint.every=1", "eval.every=2", "run.steps=3"]).well();
    assert!(said.out.contains("step 3/3") && said.out.contains("before and after training"), "{}", said.out);
    let run = home.path("run");
    assert!(said.out.contains(&format!("rlver chat --model {}", run.join("policy").display())));
    for name in [
        "recipe.toml",
        "metrics.jsonl",
        "curve.svg",
        "eval-before.json",
        "eval-after.json",
        "eval-step-000002.json",
        "policy/config.json",
        "policy/tokenizer.json",
        "policy/tokenizer_config.json",
        "policy/model.safetensors",
        "episodes/eval-before.jsonl",
        "episodes/eval-after.jsonl",
        "checkpoints/step-000003/policy/model.safetensors",
        "checkpoints/step-000003/critic/model.safetensors",
        "checkpoints/step-000003/policy-optimizer.safetensors",
        "checkpoints/step-000003/critic-optimizer.safetensors",
        "checkpoints/step-000003/progress.json",
    ] {
        exists(&run, name);
    }
    assert!(!run.join("checkpoints/step-000001").exists(), "only the last two checkpoints are kept");
    assert!(tiny::files(&run).iter().all(|(name, _)| name.extension().is_none_or(|e| e != "part" && e != "tmp")));

    let records = check_metrics(&run);
    assert_eq!(records.iter().map(|m| m.step()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for key in [
        "emotion/mean",
        "emotion/success_rate",
        "emotion/failure_rate",
        "reward/mean",
        "policy/loss",
        "policy/clip_fraction",
        "policy/approx_kl",
        "policy/entropy",
        "critic/loss",
        "critic/explained_variance",
        "grad_norm/policy",
        "grad_norm/critic",
        "rollout/tokens",
        "rollout/unscored",
        "time/rollout_s",
        "time/update_s",
        "throughput/tokens_per_s",
    ] {
        assert!(records[1..].iter().all(|m| m.get(key).is_some()), "{key}");
    }
    assert!(records.iter().all(|m| m.get("eval/emotion_mean").is_some() == [0, 2].contains(&m.step())));
    let events = std::fs::read_dir(run.join("tensorboard")).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&events).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(events.to_str().unwrap().contains("tfevents") && holds("brain.Event:2") && holds("emotion/mean"));

    check_episodes(&run.join("episodes/step-000001.jsonl"));
    // The resolved recipe describes the same run; the model it made can be used.
    say(&["recipe", "check", text(&run.join("recipe.toml"))]).well();
    let tokens = home.path("tokens.jsonl");
    std::fs::write(&tokens, "{\"ids\": [1, 2, 3]}\n").unwrap();
    say(&["score", "--model", text(&run.join("policy")), "--tokens", text(&tokens)]).well();
    say(&["score", "--model", text(&run.join("checkpoints/step-000002/policy")), "--tokens", text(&tokens)]).well();
}

fn check_episodes(file: &Path) {
    let mut heard = 0;
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let episode: Value = serde_json::from_str(line).unwrap();
        let mut emotion = episode["start_emotion"].as_i64().unwrap();
        for turn in episode["turns"].as_array().unwrap() {
            assert!(turn["reply"].is_string());
            let user = &turn["user"];
            if user.is_null() {
                continue;
            }
            heard += 1;
            for key in ["content", "fit", "activity", "feeling"] {
                assert!(user["appraisal"][key].as_str().is_some_and(|t| !t.is_empty()), "{key} in {user}");
            }
            let change = user["appraisal"]["change"].as_i64().unwrap();
            assert!((-10..=10).contains(&change));
            assert_eq!(user["before"].as_i64(), Some(emotion));
            emotion = (emotion + change).clamp(0, 100);
            assert_eq!(user["after"].as_i64(), Some(emotion));
            assert!(user["line"].as_str().is_some_and(|l| !l.is_empty()));
        }
        assert_eq!(episode["final_emotion"].as_i64(), Some(emotion));
        assert_eq!(episode["reward"].as_f64(), Some(emotion as f64 / 100.0));
        for segment in episode["rows"].as_array().unwrap().iter().flat_map(|r| r["segments"].as_array().unwrap()) {
            let length = |key: &str| segment[key].as_array().map_or(0, Vec::len);
            if segment["role"] == "assistant" {
                assert!(length("ids") > 0);
                assert_eq!((length("logprobs"), length("advantages")), (length("ids"), length("ids")));
            } else {
                assert_eq!((length("logprobs"), length("advantages")), (0, 0));
            }
        }
    }
    assert!(heard > 8);
}

#[test]
fn a_warm_start_makes_a_policy_from_nothing() {
    let home = Home::new();
    std::fs::write(home.path("recipe.toml"), home.recipe_text("sft")).unwrap();
    train(&home, "sft", &["run.steps=6"]).well();
    let records = check_metrics(&home.path("sft"));
    assert_eq!(records.iter().map(|m| m.step()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert!(records.iter().all(|m| m.get("sft/loss").is_some()));
    assert!(records[5].get("sft/heldout_loss").is_some());
    // What it made is a policy that reinforcement goes on from.
    std::fs::write(home.path("recipe.toml"), home.recipe_text("grpo")).unwrap();
    let policy = format!("model.policy={}", home.path("sft/policy").display());
    train(&home, "grpo", &[&policy, "run.steps=1", "model.save_dtype=bf16"]).well();
    let records = check_metrics(&home.path("grpo"));
    assert!(records[1].get("group/zero_variance").is_some() && records[1].get("critic/loss").is_none());
    let (whole, half) = ("sft/policy/model.safetensors", "grpo/policy/model.safetensors");
    let size = |name| std::fs::metadata(home.path(name)).unwrap().len();
    assert!(size(half) < size(whole) * 6 / 10, "bf16 is half the size");
}

#[test]
fn an_existing_run_folder_is_refused_and_left_alone() {
    let home = Home::new();
    let run = home.path("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("precious.txt"), "mine").unwrap();
    train(&home, "run", &[]).refused(&["run", "--resume", "--out"]);
    assert_eq!(std::fs::read_to_string(run.join("precious.txt")).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 1);
    let recipe = home.path("recipe.toml");
    let resume = |run: &Path| say(&["train", text(&recipe), "--out", text(run), "--resume"]);
    resume(&run).refused(&["no checkpoint", "--resume"]);
    resume(&home.path("nowhere")).refused(&["nowhere", "no checkpoint"]);
}

#[test]
fn a_resumed_run_keeps_its_recipe() {
    let home = Home::new();
    train(&home, "run", &["run.steps=1"]).well();
    let (recipe, run) = (home.path("recipe.toml"), home.path("run"));
    let resume = |set: &[&str]| {
        let mut arguments = vec!["train", text(&recipe), "--out", text(&run), "--resume"];
        arguments.extend(set.iter().flat_map(|s| ["--set", s]));
        say(&arguments)
    };
    resume(&["run.steps=2", "optimizer.lr=0.5"]).refused(&["optimizer.lr", "0.001", "0.5"]);
    resume(&["run.steps=2"]).well();
    assert_eq!(tiny::metrics(&run).last().unwrap().0, 2);
}
