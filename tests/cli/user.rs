//! `rlver user probe` and `rlver profiles`.

use rlver::dialogue::{HiddenIntention, ProfileSet};
use serde_json::{Value, json};

use super::{say, text};
use crate::llm_user::server::{Reaction, Request, Server};
use crate::tiny::Home;

#[test]
fn the_built_in_user_takes_some_replies_and_not_others() {
    let home = Home::new();
    let json = home.path("probe.json");
    let arguments = ["user", "probe", "--user", "builtin", "--people", "24", "--json", text(&json)];
    let said = say(&arguments).well();
    for part in ["52.4 %", "33.1 %", "78.6 %", "by strategy", "by hidden intention", "– (--judge)"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let first = std::fs::read(&json).unwrap();
    let found: Value = serde_json::from_slice(&first).unwrap();
    let rate = found["acceptance_rate"].as_f64().unwrap();
    assert!(rate > 0.0 && rate < 1.0, "neither everything nor nothing: {rate}");
    assert_eq!(found["acceptance"]["all"]["of"], 240, "ten strategies for each of 24 people");
    let shares = found["acceptance"]["by_strategy"].as_object().unwrap();
    assert_eq!(shares.len(), 10);
    let sum: u64 = shares.values().map(|s| s["accepted"].as_u64().unwrap()).sum();
    assert_eq!(found["acceptance"]["all"]["accepted"].as_u64(), Some(sum));
    assert_eq!(found["acceptance"]["by_intention"].as_object().unwrap().len(), HiddenIntention::ALL.len());
    say(&arguments).well();
    assert!(std::fs::read(&json).unwrap() == first, "the same again");
}

/// A user that likes whoever listens, and a judge.
fn listener(request: &Request) -> Reaction {
    if request.text().contains("\"overall\": 0") {
        let scores = json!({"reason": "clear", "need": 6, "thought": 8, "reply": 9, "overall": 7});
        return Reaction::Content(scores.to_string());
    }
    let likes = request.text().contains("listen") || request.text().contains("听");
    let last = request.body["messages"][1]["content"].as_str().unwrap_or_default();
    request.answer(if likes && last.len().is_multiple_of(2) { 5 } else { -5 })
}

#[test]
fn any_user_can_be_probed_and_judged() {
    let home = Home::new();
    let server = Server::start(listener);
    let json = home.path("probe.json");
    let model = format!("llm:url={},model=ours", server.url);
    let arguments = ["user", "probe", "--user", &model, "--judge", &model, "--people", "3", "--json", text(&json)];
    let said = say(&arguments).well();
    assert!(said.out.contains("70.0 %"), "the judge's overall score in percent: {}", said.out);
    assert!(said.out.contains("60 requests"), "two a probe: {}", said.out);
    let found: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!((&found["expression"]["need"], &found["expression"]["judged"]), (&json!(6.0), &json!(30)));
    assert_eq!(found["user"], "llm/1 ours vanilla");
    let broken = Server::start(|_| Reaction::Status(403, "", "closed".into()));
    let nobody = format!("llm:url={},model=ours", broken.url);
    say(&["user", "probe", "--user", &nobody, "--people", "1"]).refused(&["no probe was answered"]);
    say(&["user", "probe", "--user", "builtin", "--judge", "builtin"]).refused(&["--judge", "no language model"]);
    say(&["user", "probe", "--start-emotion", "5"]).refused(&["--start-emotion"]);
}

#[test]
fn every_broken_profile_is_named() {
    let home = Home::new();
    let good = std::fs::read_to_string(home.path("heldout.jsonl")).unwrap();
    say(&["profiles", "validate", text(&home.path("heldout.jsonl"))]).well();
    let broken = home.path("broken.jsonl");
    let first = good.lines().next().unwrap();
    let lines = [first, "{", first, &first.replace("\"scene\"", "\"scenery\"")].join("\n");
    std::fs::write(&broken, lines).unwrap();
    let said = say(&["profiles", "validate", text(&home.path("heldout.jsonl")), text(&broken)]);
    said.refused(&["3 problems"]);
    for part in ["2 profiles, all valid", "line 2", "line 3", "occurs twice", "line 4", "`scene` is missing"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    std::fs::write(&broken, "\n").unwrap();
    say(&["profiles", "validate", text(&broken)]).refused(&["1 problem"]);
    say(&["profiles", "validate", "/no/such.jsonl"]).refused(&["/no/such.jsonl"]);
}

#[test]
fn stats_count_everybody() {
    let home = Home::new();
    let said = say(&["profiles", "stats"]).well().out;
    let (train, heldout) = (ProfileSet::builtin_train(), ProfileSet::builtin_heldout());
    for part in ["hidden intention", "character type", "language", "setting", "trait", "scene", "persona"] {
        assert!(said.matches(part).count() >= 2, "{part}: {said}");
    }
    assert!(
        said.contains(&format!("{} profiles", train.len())) && said.contains(&format!("{} profiles", heldout.len()))
    );
    let said = say(&["profiles", "stats", text(&home.path("heldout.jsonl"))]).well().out;
    assert!(said.contains("2 profiles") && said.contains("50.0 %"), "{said}");
}

/// A model that writes people, now and then without a name.
fn writer(request: &Request) -> Reaction {
    let text = request.text();
    let content = if text.contains("\"speaking_style\"") {
        let name = if request.number % 5 == 2 { "" } else { "Ada" };
        json!({"name": name, "occupation": "nurse", "hobbies": "chess", "habits": "tea", "speaking_style": "short"})
    } else {
        json!({"event": "A bus left early.", "conflict": "c1", "difficulties": "d1", "state": "s1", "when_good": "g1",
            "when_middling": "m1", "when_low": "l1", "helps": "h1", "hurts": "u1", "first_talk": "That bus."})
    };
    Reaction::Content(content.to_string())
}

#[test]
fn profiles_are_written_in_two_steps_and_added_to_a_file() {
    let home = Home::new();
    let server = Server::start(writer);
    let (model, out) = (format!("llm:url={},model=ours", server.url), home.path("new.jsonl"));
    let generate = |n: &str, language: &str| {
        say(&["profiles", "generate", "--model", &model, "--n", n, "--language", language, "--out", text(&out)])
    };
    generate("8", "en").well();
    let set = ProfileSet::load(&out).unwrap();
    assert_eq!(set.len(), 8);
    let mut wanted: Vec<HiddenIntention> = set.iter().map(|p| p.intention()).collect();
    wanted.sort();
    wanted.dedup();
    assert_eq!(wanted.len(), 8, "every hidden intention once");
    for profile in set.iter() {
        assert!(profile.player.contains("Name: Ada; Age: ") && profile.scene.starts_with("A bus left early."));
        assert!(profile.scene.ends_with(&format!("***{}", profile.task)), "the hidden theme comes last");
        assert_eq!((profile.first_talk.as_deref(), profile.cha_group.len()), (Some("That bus."), 3));
    }
    // The persona is part of the second question.
    assert!(server.seen().iter().any(|r| r.text().contains("Name: Ada") && r.text().contains("\"first_talk\"")));
    let before = server.requests();
    generate("8", "en").well();
    assert_eq!(
        (server.requests(), ProfileSet::load(&out).unwrap().len()),
        (before, 8),
        "what is there is not asked for"
    );
    generate("4", "zh").well();
    let set = ProfileSet::load(&out).unwrap();
    assert_eq!(set.len(), 12);
    assert!(set.get(11).player.contains("姓名：Ada") && set.get(11).main_cha.ends_with('型'));
    generate("1", "fr").refused(&["--language fr"]);
    let dead = Server::start(|_| Reaction::Content("no".into()));
    let (model, none) = (format!("llm:url={},model=ours,asks=1", dead.url), home.path("none.jsonl"));
    let arguments = ["profiles", "generate", "--model", &model, "--n", "2", "--out", text(&none)];
    say(&arguments).refused(&["2 of 2 profiles"]);
    std::fs::write(&out, "not a profile\n").unwrap();
    generate("1", "en").refused(&["new.jsonl, line 1"]);
}
