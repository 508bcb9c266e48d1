//! `rlver audit`: what a run recorded follows from what it recorded, and no edit goes unnoticed.

mod objectives;

use std::path::Path;

use rlver::audit::{AuditError, AuditOptions, FileReport, audit};
use rlver::user::builtin::BuiltinUser;
use serde_json::Value;

use crate::cli;
use crate::llm_user::rollout::{moody, recipe as with_server, train as train_as_told};
use crate::llm_user::server::Server;
use crate::tiny::{self, Home};

fn check(run: &Path, skip_logprobs: bool) -> Result<Vec<FileReport>, AuditError> {
    audit(run, AuditOptions { skip_logprobs, ..AuditOptions::default() }, &mut |_| {}, &mut |_| {})
}

/// Every place in a JSON value that holds no other: its path and the value there.
fn leaves(value: &Value, path: &str, out: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| leaves(v, &format!("{path}/{k}"), out)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| leaves(v, &format!("{path}/{i}"), out)),
        leaf => out.push((path.into(), leaf.clone())),
    }
}

/// A value of the same kind that is another one.
fn edited(value: &Value) -> Value {
    match value {
        Value::Number(n) if n.is_f64() => Value::from(n.as_f64().unwrap() - 0.05),
        Value::Number(n) => Value::from(if n.as_i64().unwrap_or(1) == 0 { 1 } else { n.as_i64().unwrap_or(1) - 1 }),
        Value::String(s) => Value::from(format!("{s}x")),
        Value::Bool(b) => Value::from(!b),
        other => other.clone(),
    }
}

/// Puts `value` at `path` of line `line` of a file of episodes; the returned text is the file before.
fn edit(file: &Path, line: usize, path: &str, value: Value) -> String {
    let before = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
    let mut episode: Value = serde_json::from_str(&lines[line]).unwrap();
    *episode.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    lines[line] = episode.to_string();
    std::fs::write(file, lines.join("\n") + "\n").unwrap();
    before
}

/// Edits the values of one recorded dialogue one by one, and asserts that each edit is noticed and named.
fn no_edit_goes_unnoticed(run: &Path, name: &str, line: usize, every: usize) -> usize {
    let file = run.join(format!("episodes/{name}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap();
    let episode: Value = serde_json::from_str(text.lines().nth(line).unwrap()).unwrap();
    let dialogue = episode["dialogue"].as_u64().unwrap();
    let mut all = Vec::new();
    leaves(&episode, "", &mut all);
    let mut tried = 0;
    for (index, (path, value)) in all.iter().enumerate() {
        // Many of a kind: long lists of tokens are sampled, everything else is tried.
        let long =
            ["/ids/", "/logprobs/", "/advantages/", "/values/", "/ratios/"].iter().any(|list| path.contains(list));
        if value.is_null() || long && index % every != 0 {
            continue;
        }
        // What a model's tokens cost and how far an update moved the policy is for the reader; nothing follows from it.
        if path.ends_with("prompt_tokens") || path.ends_with("completion_tokens") || path.contains("/ratios/") {
            continue;
        }
        let before = edit(&file, line, path, edited(value));
        // Tokens of half a character all read as the same sign: only the weights tell them apart.
        let weights = ["/ids/", "/logprobs/", "/values/"].iter().any(|list| path.contains(list));
        match check(run, !weights) {
            Err(AuditError::Mismatch { file, dialogue: named, .. }) => {
                assert_eq!(file, name, "{path}");
                assert!(named == dialogue || path == "/dialogue", "{path}: {named}");
            }
            Err(AuditError::Whole { .. } | AuditError::Error(_)) => {}
            Ok(_) => panic!("{name}: {path} edited from {value} to {} goes unnoticed", edited(value)),
            Err(other) => panic!("{path}: {other}"),
        }
        std::fs::write(&file, before).unwrap();
        tried += 1;
    }
    check(run, true).expect("as it was");
    tried
}

#[test]
fn an_honest_run_agrees_with_itself_and_no_edit_goes_unnoticed() {
    let home = Home::new();
    for algorithm in ["ppo", "grpo"] {
        let run = home.path(algorithm);
        let set = ["run.steps=2", "checkpoint.every=1", "checkpoint.keep=9"];
        tiny::train(&home.recipe(algorithm, &set), &run, BuiltinUser::new(), false, None).unwrap();
        let reports = check(&run, false).unwrap_or_else(|e| panic!("{algorithm}: {e}"));
        let names: Vec<&str> = reports.iter().map(|r| r.file.as_str()).collect();
        assert_eq!(names, ["eval-before", "step-000001", "step-000002", "eval-after"]);
        for report in &reports {
            assert!(report.emotions > 0 && report.appraisals == report.emotions && report.rewards > 0, "{report:?}");
            assert!(report.tokens > report.logprobs && report.logprobs > 0, "all weights are kept: {report:?}");
            let step = report.file.starts_with("step");
            assert_eq!((report.advantages == report.logprobs, report.metrics > 5), (step, step), "{report:?}");
            assert_eq!(report.values > 0, algorithm == "ppo" && step, "{report:?}");
        }
        assert!(no_edit_goes_unnoticed(&run, "step-000002", 1, 41) > 60);
        assert!(no_edit_goes_unnoticed(&run, "eval-after", 1, 67) > 40);
        // A dialogue that is missing, or there twice.
        let file = run.join("episodes/step-000001.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap();
        for changed in [text.replacen(&format!("{first}\n"), "", 1), format!("{first}\n{text}")] {
            std::fs::write(&file, changed).unwrap();
            let problem = check(&run, true).unwrap_err().to_string();
            let named = ["missing", "7 dialogues", "9 dialogues"].iter().any(|said| problem.contains(said));
            assert!(problem.contains("step-000001") && named, "{problem}");
        }
        std::fs::write(&file, text).unwrap();
        // A metric that flatters.
        let file = run.join("metrics.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        let at = text.find("\"emotion/mean\":").unwrap() + 15;
        std::fs::write(&file, format!("{}9{}", &text[..at], &text[at..])).unwrap();
        let problem = check(&run, true).unwrap_err().to_string();
        assert!(problem.contains("emotion/mean"), "{problem}");
    }
}

#[test]
fn thoughts_and_rewards_with_a_penalty_agree_too() {
    let home = Home::new();
    for (algorithm, set) in [
        ("ppo", &["rollout.mode=think"][..]),
        ("ppo", &["objective.kl=reward", "objective.kl_coef=0.1"]),
        ("ppo", &["objective.reward=emotion-potential", "objective.turn_gamma=0.5"]),
        ("grpo", &["objective.advantage=rloo", "objective.old_logprobs=rollout", "objective.kl=loss"]),
        ("grpo", &["objective.advantage=turn-rloo"]),
        ("grpo", &["objective.advantage=remax"]),
        ("ppo", &["objective.advantage=gae-rlver", "user.environment=challenging"]),
        (
            "grpo",
            &[
                "objective.dynamic_sampling=true",
                "objective.max_rounds=3",
                "rollout.dialogues=2",
                "objective.mini_batch=2",
            ],
        ),
        ("ppo", &["objective.kl=reward", "objective.kl_control=adaptive", "curriculum.controller=dual-loop"]),
    ] {
        let run = home.path(&set.concat());
        let all = [set, &["run.steps=2"]].concat();
        objectives::train(&home.recipe(algorithm, &all), &run);
        let reports = check(&run, false).unwrap_or_else(|e| panic!("{set:?}: {e}"));
        assert!(reports.iter().all(|r| r.tokens > 0));
    }
}

#[test]
fn a_models_answers_are_read_again() {
    let home = Home::new();
    let server = Server::start(|request| match request.number % 31 {
        30 => crate::llm_user::server::Reaction::Content("I would rather not.".into()),
        _ => moody(request),
    });
    let run = home.path("run");
    train_as_told(&with_server(&home, &server, "ppo", &["run.steps=1"]), &home, "run").unwrap();
    let reports = check(&run, false).unwrap();
    assert!(reports.iter().all(|r| r.appraisals > 0 && r.appraisals == r.emotions));
    let text = std::fs::read_to_string(run.join("episodes/step-000001.jsonl")).unwrap();
    let line = text.lines().position(|line| line.contains("rather not")).expect("a rejected answer");
    assert!(no_edit_goes_unnoticed(&run, "step-000001", line, 41) > 80);
    // An appraisal and all that follows from it, edited together: the recorded answer still says otherwise.
    let file = run.join("episodes/step-000001.jsonl");
    let before = edit(&file, 0, "/turns/0/user/appraisal/feeling", Value::from("wonderful"));
    let problem = check(&run, true).unwrap_err().to_string();
    assert!(problem.contains("step-000001: dialogue 0, turn 0") && problem.contains("wonderful"), "{problem}");
    std::fs::write(file, before).unwrap();
}

#[test]
fn the_command_prints_a_table_and_names_the_first_mismatch() {
    let home = Home::new();
    let run = home.path("run");
    tiny::train(&home.recipe("grpo", &["run.steps=1"]), &run, BuiltinUser::new(), false, None).unwrap();
    let path = run.to_str().unwrap();
    let said = cli::say(&["audit", path]).well();
    assert!(
        said.out.contains("logprobs") && said.out.contains("step-000001") && said.out.contains("agrees"),
        "{said:?}"
    );
    let file = run.join("episodes/step-000001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let episode: Value = serde_json::from_str(text.lines().nth(3).unwrap()).unwrap();
    let turn = episode["turns"].as_array().unwrap().len() - 1;
    let dialogue = episode["dialogue"].as_u64().unwrap();
    let id = episode.pointer(&format!("/rows/0/segments/{}/ids/0", 2 * turn + 1)).unwrap().as_u64().unwrap();
    for (pointer, value, what) in [
        (format!("/turns/{turn}/user/after"), Value::from(77), "emotion after"),
        (format!("/rows/0/segments/{}/ids/0", 2 * turn + 1), Value::from(if id == 70 { 71 } else { 70 }), "reply"),
        (format!("/turns/{turn}/user/appraisal/content"), Value::from("kind words"), "kind words"),
    ] {
        let before = edit(&file, 3, &pointer, value);
        let said = cli::say(&["audit", path, "--skip-logprobs"]);
        said.refused(&["step-000001", &format!("dialogue {dialogue}, turn {turn}"), what]);
        assert!(said.out.contains("eval-before"), "what was checked before is shown: {said:?}");
        std::fs::write(&file, before).unwrap();
    }
    cli::say(&["audit", home.path("nowhere").to_str().unwrap()]).refused(&["nowhere"]);
    cli::say(&["audit", "/"]).refused(&["recipe.toml"]);
}
