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

#[test]
fn two_results_are_compared_and_recorded_dialogues_scored() {
    let home = Home::new();
    let (model, profiles) = (home.path("policy"), home.path("heldout.jsonl"));
    let (a, b, held, table) =
        (home.path("a.json"), home.path("b.json"), home.path("held.jsonl"), home.path("table.json"));
    let eval = |temperature: &str, json: &std::path::Path| {
        let fixed = ["eval", "--model", text(&model), "--profiles", text(&profiles), "--max-turns", "2"];
        let mut arguments = fixed.to_vec();
        arguments.extend(["--max-new-tokens", "8", "--temperature", temperature]);
        arguments.extend(["--json", text(json), "--episodes", text(&held)]);
        say(&arguments).well();
    };
    eval("0", &a);
    eval("1", &b);
    let found: Value = serde_json::from_slice(&std::fs::read(&b).unwrap()).unwrap();
    assert_eq!((found["dialogues"].as_array().unwrap().len(), &found["unscored"]), (2, &Value::from(0)));
    for key in
        ["rlver", "model", "mode", "system_zh", "start_emotion", "max_turns", "temperature", "seed", "user", "profiles"]
    {
        assert!(!found["settings"][key].is_null(), "{key} affects the score and is written down");
    }
    let behaviour = &found["behaviour"];
    assert!(behaviour["replies"].as_u64().unwrap() > 0 && behaviour["variety"]["self_bleu"].is_f64(), "{behaviour}");
    assert!(behaviour["labelled_by"].as_str().unwrap().contains("estimate"), "{behaviour}");
    assert!(behaviour["estimates"]["by"].as_str().unwrap().contains("heuristic"), "{behaviour}");
    let said = say(&["eval", "--compare", text(&a), text(&b), "--json", text(&table)]).well().out;
    assert!(said.contains("temperature: 0.0 and 1.0") && said.contains("b.json minus"), "{said}");
    let compared: Value = serde_json::from_slice(&std::fs::read(&table).unwrap()).unwrap();
    assert_eq!(compared["overall"]["pairs"], 2);
    let again = home.path("again.json");
    say(&["eval", "--recorded", text(&held), "--json", text(&again)]).well();
    let again: Value = serde_json::from_slice(&std::fs::read(&again).unwrap()).unwrap();
    assert_eq!(again["mean_final_emotion"], found["mean_final_emotion"], "episodes give their score again");
    say(&["eval", "--compare", text(&a), text(&profiles)]).refused(&["heldout.jsonl"]);
    say(&["eval", "--recorded", text(&profiles)]).refused(&["heldout.jsonl, line 1"]);
    assert_ne!(say(&["eval"]).code, Some(0), "a model is needed");
}

#[test]
fn probes_and_retention_run_with_any_policy() {
    let home = Home::new();
    let (model, json) = (home.path("policy"), home.path("result.json"));
    let run = |more: &[&str]| {
        let mut arguments = vec!["eval", "--model", text(&model), "--max-new-tokens", "6", "--json", text(&json)];
        arguments.extend(more);
        let said = say(&arguments).well().out;
        (said, serde_json::from_slice::<Value>(&std::fs::read(&json).unwrap()).unwrap())
    };
    let (said, found) = run(&["--probe", "all"]);
    assert!(said.contains("sycophancy") && said.contains("gaslighting") && said.contains("dependency"), "{said}");
    assert_eq!(found["probes"].as_array().unwrap().len(), 3);
    let (said, found) = run(&["--retention", "builtin"]);
    assert!(said.contains("built-in mathematics") && said.contains("built-in instructions"), "{said}");
    assert_eq!(found["answers"].as_array().unwrap().len(), 46);
    let said = say(&["eval", "--compare", text(&json), text(&json)]).well().out;
    assert!(said.contains("before") && said.contains("+0.0"), "{said}");
    say(&["eval", "--model", text(&model), "--probe", "kindness"]).refused(&["kindness", "sycophancy"]);
    say(&["eval", "--model", text(&model), "--retention", "/no/such.jsonl"]).refused(&["/no/such.jsonl"]);
}
