//! `rlver report` and `rlver play`.

use super::{say, say_with_input, text, train};
use crate::tiny::{self, Home};

#[test]
fn a_run_becomes_a_page_with_its_tokens() {
    let home = Home::new();
    train(&home, "run", &["run.steps=2"]).well();
    let (run, out) = (home.path("run"), home.path("report.html"));
    let said = say(&["report", text(&run), "-o", text(&out)]).well();
    assert!(said.out.contains("report.html"), "{}", said.out);
    let html = std::fs::read_to_string(&out).unwrap();
    // Decoded tokens beside their numbers.
    for key in ["\"tx\":[\"", "\"lp\":[", "\"ad\":[", "\"va\":[", "\"ra\":["] {
        assert!(html.contains(key), "{key}");
    }
    let first = tiny::episodes(&run.join("episodes/step-000001.jsonl"));
    for segment in first.iter().flat_map(|e| &e.rows).flat_map(|r| &r.segments) {
        let numbers = if segment.is_action() { segment.ids.len() } else { 0 };
        assert_eq!([segment.advantages.len(), segment.values.len(), segment.ratios.len()], [numbers; 3]);
        assert!(segment.ratios.iter().all(|r| r.is_finite() && *r > 0.0));
    }
    let (before, after) = (run.join("eval-before.json"), run.join("eval-after.json"));
    let compared = say(&["eval", "--compare", text(&before), text(&after)]).well().out;
    assert!(compared.contains("pairs") && compared.contains("after step 2"), "a run's own results compare: {compared}");
    say(&["report", text(&home.path("nowhere"))]).refused(&["nowhere", "no run folder"]);
    say(&["report", text(&run), "-o", "/no/such/folder/x.html"]).refused(&["/no/such/folder/x.html"]);
    say(&["report", text(&home.path("nowhere")), "--watch", "--port", "0"]).refused(&["no run folder"]);
}

#[test]
fn before_the_first_update_no_ratio_has_moved() {
    let home = Home::new();
    // One mini-batch and one epoch: every token is read before the policy moves.
    train(&home, "still", &["run.steps=1", "objective.mini_batch=0", "objective.ppo_epochs=1"]).well();
    train(&home, "moved", &["run.steps=1", "objective.mini_batch=0", "objective.ppo_epochs=3", "optimizer.lr=0.01"])
        .well();
    let furthest = |run: &str| {
        let episodes = tiny::episodes(&home.path(run).join("episodes/step-000001.jsonl"));
        let ratios = episodes.iter().flat_map(|e| &e.rows).flat_map(|r| &r.segments).flat_map(|s| s.ratios.clone());
        ratios.map(|r| (r - 1.0).abs()).fold(0.0, f32::max)
    };
    assert!(furthest("still") < 1e-4, "{}", furthest("still"));
    assert!(furthest("moved") > 1e-3, "{}", furthest("moved"));
}

#[test]
fn a_person_plays_the_supporter() {
    let play = |more: &[&str], input: &str| {
        let mut arguments = vec!["play"];
        arguments.extend(more);
        say_with_input(&arguments, input)
    };
    let id = ["--profile", "en-train-001"];
    let said = play(&id, "/why\n/who\n/oops\nmm\n/why\n/quit\n").well().out;
    assert!(said.contains("[████████░░░░░░░░░░░░] 40 B"), "the meter starts where the person does: {said}");
    assert!(said.contains("(nothing was said yet)") && said.contains("commands: /why"), "{said}");
    assert!(
        said.contains("40") && said.contains("-10") && said.contains("content"),
        "a bare mm is taken badly: {said}"
    );
    assert!(said.contains("What they secretly wanted"), "{said}");
    let told = said.find("What they secretly wanted").unwrap();
    assert!(
        !said[..told].contains("You hope the other person") && !said[..told].contains("You want"),
        "not before: {said}"
    );
    let told = play(&["--profile", "en-train-001", "--appraisal", "--max-turns", "1"], "mm\n").well().out;
    assert!(told.contains("feeling") && told.contains("after 1 replies"), "{told}");
    let list = play(&["--profile", "list"], "").well().out;
    assert!(list.contains("zh-heldout-001") && list.contains("en-train-001"), "{list}");
    play(&["--profile", "en-train-01"], "").refused(&["en-train-01", "did you mean en-train-0"]);
    play(&["--profile", "en-train-001", "--user", "oracle"], "").refused(&["oracle", "builtin"]);
    play(&["--profile", "en-train-001", "--start-emotion", "5"], "").refused(&["--start-emotion 5"]);
}
