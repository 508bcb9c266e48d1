//! The audit follows what objectives do with a step's dialogues, and says what no record holds.

use std::path::Path;

use rlver::audit::{AuditError, AuditOptions, FileReport, audit};
use rlver::recipe::Recipe;
use rlver::train::{RunOptions, StopFlag, run};
use serde_json::Value;

use super::edit;
use crate::tiny::{self, Home};

pub(super) fn train(recipe: &Recipe, folder: &Path) {
    let stop = StopFlag::default();
    run(&RunOptions { recipe, folder, resume: false, stop: &stop }, &mut |_| {}).unwrap();
}

/// Audits with weights; the reports and what was noted.
fn check(run: &Path) -> Result<(Vec<FileReport>, Vec<String>), AuditError> {
    let mut notes = Vec::new();
    let reports = audit(run, AuditOptions::default(), &mut |_| {}, &mut |note| notes.push(note))?;
    Ok((reports, notes))
}

fn advantages(reports: &[FileReport]) -> usize {
    reports.iter().filter(|r| r.file.starts_with("step")).map(|r| r.advantages).sum()
}

#[test]
fn rounds_of_sampling_and_masks_are_followed() {
    let home = Home::new();
    let run = home.path("dynamic");
    let set = ["dynamic_sampling=true", "max_rounds=3", "rollout.n=3", "run.steps=3", "checkpoint.keep=9"];
    train(&home.recipe("grpo", &set), &run);
    let (reports, notes) = check(&run).unwrap();
    let learned: Vec<usize> = (1..=3).map(|step| learned_tokens(&run, step)).collect();
    assert!(learned.iter().sum::<usize>() > 0, "some group's rewards differ");
    assert_eq!(advantages(&reports), learned.iter().sum::<usize>());
    assert!(notes.iter().all(|note| note.contains("log-probabilities")), "{notes:?}");
    let recorded = tiny::metrics(&run);
    let rounds: Vec<usize> = recorded
        .iter()
        .filter_map(|(_, metrics)| metrics.iter().find(|(key, _)| key == "rollout/rounds").map(|(_, n)| *n as usize))
        .collect();
    assert_eq!(rounds.len(), 3);
    for (report, rounds) in reports.iter().filter(|r| r.file.starts_with("step")).zip(&rounds) {
        assert_eq!(report.dialogues, 12 * rounds, "what was sampled and left out is audited, too");
    }
    // A group that was left out cannot be given an advantage, nor one that was kept be robbed of it.
    let file = run.join("episodes/step-000001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let path = "/rows/0/segments/1/advantages";
    let mut changed = first.clone();
    let segment = changed.pointer_mut("/rows/0/segments/1").unwrap().as_object_mut().unwrap();
    if first.pointer(path).is_some() {
        segment.remove("advantages");
    } else {
        let n = segment["ids"].as_array().unwrap().len();
        segment.insert("advantages".into(), Value::from(vec![0.5; n]));
    }
    let rest = text.split_once('\n').unwrap().1;
    std::fs::write(&file, format!("{changed}\n{rest}")).unwrap();
    let problem = check(&run).unwrap_err().to_string();
    assert!(problem.contains("step-000001: dialogue 0") && problem.contains("number of advantages"), "{problem}");
    // Truncated dialogues that are left out.
    let run = home.path("masked");
    train(&home.recipe("grpo", &["overlong_mask=true", "rollout.max_context=150", "run.steps=1"]), &run);
    let truncated = tiny::episodes(&run.join("episodes/step-000001.jsonl"))
        .iter()
        .filter(|e| e.end == rlver::rollout::EndReason::Truncated && e.action_tokens() > 0)
        .count();
    assert!(truncated > 0, "some replies do not fit");
    assert_eq!(advantages(&check(&run).unwrap().0), learned_tokens(&run, 1));
}

/// Tokens that a step's record gives an advantage.
fn learned_tokens(run: &Path, step: usize) -> usize {
    let episodes = tiny::episodes(&run.join(format!("episodes/step-{step:06}.jsonl")));
    episodes.iter().flat_map(|e| &e.rows).flat_map(|row| &row.segments).map(|s| s.advantages.len()).sum()
}

#[test]
fn a_curriculum_is_followed_and_its_loss_is_said() {
    let home = Home::new();
    let run = home.path("run");
    let set = ["environment=challenging", "curriculum.controller=dual-loop", "run.steps=3", "kl=reward"];
    let adaptive = ["kl_control=adaptive", "kl_target=1e-6", "kl_horizon=4", "checkpoint.every=2", "checkpoint.keep=9"];
    train(&home.recipe("ppo", &[&set[..], &adaptive].concat()), &run);
    let (reports, notes) = check(&run).unwrap();
    assert!(reports.iter().all(|r| r.appraisals > 0 && r.appraisals == r.emotions), "{reports:?}");
    assert_eq!(advantages(&reports), (1..=3).map(|step| learned_tokens(&run, step)).sum::<usize>());
    assert!(notes.iter().all(|note| !note.contains("state")), "{notes:?}");
    // The state of a person decides the emotion it starts with.
    let file = run.join("episodes/step-000002.jsonl");
    let episodes = tiny::episodes(&file);
    let before = edit(&file, 0, "/start_emotion", Value::from(episodes[0].start_emotion.score() + 1));
    let problem = check(&run).unwrap_err().to_string();
    assert!(problem.contains("step-000002") && problem.contains("starting emotion"), "{problem}");
    std::fs::write(&file, &before).unwrap();
    // Without a step's dialogues the next takes a checkpoint, or what depends on states is left out aloud.
    std::fs::remove_file(run.join("episodes/step-000001.jsonl")).unwrap();
    let (reports, notes) = check(&run).unwrap();
    let of = |step: usize| reports.iter().find(|r| r.file == format!("step-{step:06}")).unwrap();
    assert_eq!((of(2).appraisals, of(3).appraisals > 0), (0, true), "step 2 is kept, step 1 is not");
    assert!(of(2).emotions > 0 && of(2).advantages > 0, "the rest is checked all the same");
    let said: Vec<&String> = notes.iter().filter(|note| note.contains("in which state")).collect();
    assert!(said.len() == 1 && said[0].starts_with("step-000002"), "{notes:?}");
}

#[test]
fn advantages_beside_greedy_dialogues_and_through_users_words_are_derived() {
    let home = Home::new();
    for (algorithm, advantage) in [("grpo", "remax"), ("ppo", "gae-rlver")] {
        let run = home.path(advantage);
        train(&home.recipe(algorithm, &[&format!("advantage={advantage}"), "run.steps=1"]), &run);
        let (reports, _) = check(&run).unwrap();
        assert!(advantages(&reports) > 0 && advantages(&reports) == learned_tokens(&run, 1));
    }
    // What others are measured by is audited itself, and missed when it is gone.
    let run = home.path("remax");
    let (reports, _) = check(&run).unwrap();
    let greedy = reports.iter().find(|r| r.file == "greedy-000001").unwrap();
    assert!(greedy.dialogues == 4 && greedy.appraisals > 0 && greedy.advantages == 0, "{greedy:?}");
    let file = run.join("episodes/greedy-000001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let episode: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let before = edit(&file, 0, "/reward", Value::from(episode["reward"].as_f64().unwrap() + 0.25));
    let problem = check(&run).unwrap_err().to_string();
    assert!(problem.contains("greedy-000001") && problem.contains("the reward"), "{problem}");
    std::fs::write(&file, before).unwrap();
    std::fs::remove_file(&file).unwrap();
    let problem = check(&run).unwrap_err().to_string();
    assert!(problem.contains("greedy-000001: holds 0 dialogues"), "{problem}");
    // A value of what a user said moves the advantages before it.
    let run = home.path("gae-rlver");
    let file = run.join("episodes/step-000001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let second = |line: &str| serde_json::from_str::<Value>(line).unwrap()["turns"].as_array().unwrap().len() > 1;
    let line = text.lines().position(second).expect("somebody talks for two turns");
    let before = edit(&file, line, "/rows/0/segments/2/values/0", Value::from(7.5));
    let check = |options| audit(&run, options, &mut |_| {}, &mut |_| {}).unwrap_err().to_string();
    assert!(
        check(AuditOptions { skip_logprobs: true, ..AuditOptions::default() }).contains("an advantage is recorded")
    );
    assert!(check(AuditOptions::default()).contains("a value is recorded as 7.5"));
    std::fs::write(&file, before).unwrap();
}
