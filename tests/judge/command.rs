//! `rlver judge` and `rlver user fit`.

use serde_json::Value;

use crate::cli::{say, say_with_input};
use crate::tiny::Home;

fn dialogue(id: &str, model: &str, recorded: bool) -> String {
    let task = rlver::dialogue::HiddenIntention::Venting.task(rlver::dialogue::Language::Zh);
    let mut turns = vec![serde_json::json!({"role": "user", "content": "最近上班上得憋屈。", "emotion": 40})];
    for (turn, emotion) in [45, 55, 50].into_iter().enumerate() {
        turns.push(serde_json::json!({"role": "assistant", "content": format!("听着就憋屈，第{turn}次了吧？你慢慢说，我一直听着。")}));
        turns.push(serde_json::json!({"role": "user", "content": "组长又把我的方案说成他的了。", "emotion": emotion}));
    }
    if !recorded {
        turns.iter_mut().for_each(|t| {
            t.as_object_mut().unwrap().remove("emotion");
        });
    }
    serde_json::json!({"id": id, "judge": "x", "model": model, "character": "被动型", "task": task, "final_emotion": 50, "turns": turns})
        .to_string()
}

#[test]
fn recorded_dialogues_are_compared_and_every_turn_is_told() {
    let home = Home::new();
    let (file, turns) = (home.path("sage.jsonl"), home.path("turns.jsonl"));
    let text = [dialogue("a", "m1", true), dialogue("b", "m2", true), dialogue("c", "m3", true)].join("\n");
    std::fs::write(&file, &text).unwrap();
    let path = file.to_str().unwrap();
    let said = say(&["judge", "--transcripts", path, "--json", "--per-turn", turns.to_str().unwrap()]).well();
    let object: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(object["n"], 9);
    for view in ["teacher_forced", "free_running", "reply_only", "state_only"] {
        let share = object["sign_agreement"][view].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share), "{view}");
    }
    for key in ["model_spearman", "sign_continuation", "final_sd"] {
        assert!(object[key].is_number(), "{key}: {object}");
    }
    assert_eq!(object["marginals"]["B"].as_array().unwrap().len(), 4);
    let mut emotion = 40i64;
    for (at, line) in std::fs::read_to_string(&turns).unwrap().lines().enumerate() {
        let turn: Value = serde_json::from_str(line).unwrap();
        if turn["turn"] == 1 {
            emotion = 40;
        }
        let change = turn["change"].as_i64().unwrap();
        assert!([-10, -5, 5, 10].contains(&change), "{turn}");
        emotion = (emotion + change).clamp(0, 100);
        assert_eq!(turn["emotion"], emotion, "line {at}");
        assert_eq!(turn["appraisal"]["change"], change);
        assert_eq!(turn["score"].as_f64().unwrap() > 0.0, change > 0);
        for field in ["content", "fit", "activity", "feeling"] {
            assert!(!turn["appraisal"][field].as_str().unwrap().is_empty(), "{turn}");
        }
    }
    let from_stdin = say_with_input(&["judge", "--transcripts", "-", "--json"], &text).well();
    assert_eq!(from_stdin.out, said.out, "standard input gives the same");
    let table = say(&["judge", "--transcripts", path]).well();
    assert!(table.out.contains("free-running") && table.out.contains("m2"), "{}", table.out);
}

#[test]
fn dialogues_without_emotions_are_judged_from_forty() {
    let said = say_with_input(&["judge", "--transcripts", "-", "--json"], &dialogue("a", "m", false)).well();
    let object: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(object["n"], 0);
    assert!(object["sign_agreement"].is_null());
}

#[test]
fn broken_input_is_named() {
    let good = dialogue("a", "m", true);
    for (input, parts) in [
        (String::new(), &["standard input", "no dialogue"][..]),
        (format!("{good}\n{{"), &["line 2", "JSON"]),
        (format!("{good}\n{{\"id\": 3}}"), &["line 2", "SAGE record"]),
        (good.replace("被动型", "shy"), &["line 1", "shy"]),
        (good.replace("\"emotion\":45", "\"emotion\":450"), &["line 1", "450"]),
        (good.replace("\"role\":\"assistant\"", "\"role\":\"user\""), &["line 1", "turn 2"]),
    ] {
        say_with_input(&["judge", "--transcripts", "-"], &input).refused(parts);
    }
    let home = Home::new();
    let weights = home.path("weights.json");
    std::fs::write(&weights, "{}").unwrap();
    say_with_input(&["judge", "--transcripts", "-", "--weights", weights.to_str().unwrap()], &good)
        .refused(&["weights.json", "rlver user fit"]);
    let out = home.path("w.json");
    let profiles = home.path("heldout.jsonl");
    let file = home.path("few.jsonl");
    std::fs::write(&file, &good).unwrap();
    let few = ["user", "fit", "--transcripts", file.to_str().unwrap(), "--profiles", profiles.to_str().unwrap()];
    say(&[&few[..], &["--out", out.to_str().unwrap()]].concat()).refused(&["too few"]);
}
