//! `rlver curve`.

use super::{say, text};
use crate::tiny::Home;

/// A run folder that holds nothing but its metrics.
fn run(home: &Home, name: &str, metrics: &str) -> String {
    let folder = home.path(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("metrics.jsonl"), metrics).unwrap();
    text(&folder).to_string()
}

#[test]
fn runs_are_drawn_side_by_side_and_mistakes_named() {
    let home = Home::new();
    let records = "{\"step\":1,\"emotion/mean\":30.0}\n{\"step\":2,\"emotion/mean\":50.5}\n";
    let (first, second) = (run(&home, "first", records), run(&home, "second", records));
    let picture = home.path("curve.svg");
    say(&["curve", &first, &second, "--out", text(&picture)]).well();
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("<svg") && svg.contains("first") && svg.contains("second"));
    let refused = |arguments: &[&str], parts: &[&str]| say(arguments).refused(parts);
    refused(&["curve", &first, "--out", text(&picture), "--key", "emotion/mood"], &["emotion/mood", "docs/metrics.md"]);
    refused(&["curve", &first, "--out", text(&picture), "--key", "sft/loss"], &["first", "sft/loss"]);
    refused(&["curve", "/no/such/run", "--out", text(&picture)], &["/no/such/run"]);
    refused(&["curve", &first, "--out", "/no/such/folder/x.svg"], &["/no/such/folder/x.svg"]);
    let broken = run(&home, "broken", "{\"step\":1}\nnonsense\n{\"step\":2}\n");
    refused(&["curve", &broken, "--out", text(&picture)], &["broken", "line 2"]);
}
