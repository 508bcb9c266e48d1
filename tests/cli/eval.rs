//! `rlver eval`.

use serde_json::Value;

use super::{say, text};
use crate::tiny::{self, Home};

#[test]
fn the_json_has_the_documented_keys_for_all_and_per_group() {
    let home = Home::new();
    let (model, profiles, json, episodes) =
        (home.path("policy"), home.path("heldout.jsonl"), home.path("eval.json"), home.path("episodes.jsonl"));
    let arguments = [
        "eval",
        "--model",
        text(&model),
        "--profiles",
        text(&profiles),
        "--json",
        text(&json),
        "--episodes",
        text(&episodes),
        "--seeds",
        "2",
        "--max-turns",
        "2",
        "--max-new-tokens",
        "8",
    ];
    let said = say(&arguments).well();
    assert!(said.out.contains("by intention") && said.out.contains("by character type"), "{}", said.out);
    let first = std::fs::read(&json).unwrap();
    let found: Value = serde_json::from_slice(&first).unwrap();
    let check = |scores: &Value| {
        for key in ["mean_final_emotion", "success_rate", "failure_rate"] {
            assert!(scores[key].is_f64(), "{key} in {scores}");
            assert_eq!(scores[format!("{key}_ci95")].as_array().map(Vec::len), Some(2));
        }
        scores["n"].as_u64().unwrap()
    };
    assert_eq!(check(&found), 4);
    for group in ["by_intention", "by_character_type", "by_language"] {
        let groups = found[group].as_object().unwrap();
        assert_eq!(groups.values().map(check).sum::<u64>(), 4, "{group}");
    }
    assert_eq!(found["settings"]["user"], "builtin/1");
    let held = tiny::episodes(&episodes);
    let mean = held.iter().map(|e| f64::from(e.final_emotion.score())).sum::<f64>() / 4.0;
    assert!((found["mean_final_emotion"].as_f64().unwrap() - mean).abs() < 1e-9);
    say(&arguments).well();
    assert!(std::fs::read(&json).unwrap() == first, "the same seeds give the same result");
}

#[test]
fn impossible_settings_are_refused() {
    let home = Home::new();
    let (model, profiles) = (home.path("policy"), home.path("heldout.jsonl"));
    let eval = |more: &[&str]| {
        let mut arguments = vec!["eval", "--model", text(&model), "--profiles", text(&profiles)];
        arguments.extend(more);
        say(&arguments)
    };
    eval(&["--mode", "loud"]).refused(&["--mode loud", "direct or think"]);
    eval(&["--start-emotion", "100"]).refused(&["--start-emotion"]);
    eval(&["--temperature", "-1"]).code.filter(|c| *c != 0).expect("refused");
    eval(&["--temperature", "nan"]).refused(&["temperature"]);
    eval(&["--max-turns", "0"]).refused(&["--max-turns"]);
    eval(&["--device", "abacus"]).refused(&["expected flex"]);
    // Too small for any prompt: every dialogue is truncated before it starts, and says so.
    for context in ["0", "1"] {
        let said = eval(&["--max-context", context]);
        assert!(said.code == Some(0) || said.err.contains("context"), "{said:?}");
    }
    eval(&["--json", "/no/such/folder/x.json", "--max-turns", "1"]).refused(&["/no/such/folder/x.json"]);
}
