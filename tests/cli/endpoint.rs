//! `rlver eval` with a model behind an endpoint as the policy, and with language models that judge.

use serde_json::{Value, json};

use super::{say, text};
use crate::llm_user::server::{Reaction, Request, Server};
use crate::tiny::Home;

/// A model that replies, labels and rates, whatever it is asked.
fn model(request: &Request) -> Reaction {
    let asked = request.text();
    let content = if asked.contains("\"empathic_depth\"") {
        assert_ne!(request.format(), "text", "a judge is asked for JSON");
        json!({
            "reason": "warm", "empathic_depth": 4, "core_insight": 3, "solution_crafting": 2, "dialogue_guidance": 3,
            "style_adaptability": 5, "x": -2, "y": 4,
        })
        .to_string()
    } else if asked.contains("\"sage\"") {
        json!({"strategies": "name-feeling, willing-to-listen", "sage": "name-feeling"}).to_string()
    } else {
        assert_eq!(request.format(), "text", "a policy is asked for words");
        "You must feel so hurt. I am listening. 你一定很难过，我在听。".to_string()
    };
    Reaction::Content(content)
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_model_behind_an_endpoint_gets_a_row_and_its_judgement() {
    let home = Home::new();
    let server = Server::start(model);
    let (profiles, out, episodes) = (home.path("heldout.jsonl"), home.path("api.json"), home.path("api.jsonl"));
    let spec = format!("llm:url={},model=ours,concurrency=4", server.url);
    let judge = format!("llm:url={},model=stern,temperature=0.25", server.url);
    let fixed = ["eval", "--model", &spec, "--profiles", text(&profiles), "--max-turns", "3", "--temperature", "0.7"];
    let mut arguments = fixed.to_vec();
    arguments.extend(["--max-new-tokens", "33", "--json", text(&out), "--episodes", text(&episodes)]);
    arguments.extend(["--judge", &judge, "--judge-repeats", "2"]);
    let said = say(&arguments).well();
    assert!(said.out.contains("judged by stern (rubric/2), 2 dialogues, 2 judgements each, 0 failed"), "{}", said.out);
    assert!(said.err.contains("policy: ") && said.err.contains("judge: "), "{}", said.err);
    let found = read(&out);
    let settings = &found["settings"];
    let wanted = json!({
        "model": "stern", "endpoint": server.url, "temperature": 0.25, "top_p": 1.0, "max_tokens": 512, "seed": 1,
        "strategies": "strategies/1", "capabilities": {"rubric": "rubric/2", "repeats": 2},
    });
    assert_eq!(settings["judge"], wanted);
    assert_eq!((&settings["model"], &settings["endpoint"]), (&json!("ours"), &json!(server.url)));
    assert_eq!((&settings["temperature"], &settings["max_new_tokens"]), (&json!(0.7), &json!(33)));
    assert_eq!(found["judged"]["capabilities"]["empathic depth"]["mean"], 4.0);
    assert_eq!(found["judged"]["social_cognition"]["x"]["mean"], -2.0);
    let behaviour = &found["behaviour"];
    assert_eq!((&behaviour["labelled_by"], &behaviour["unlabelled"]), (&json!("stern (strategies/1)"), &json!(0)));
    assert_eq!(behaviour["strategies"]["willing-to-listen"]["frequency"], 1.0);
    let seen = server.seen();
    let policy: Vec<&Request> = seen.iter().filter(|r| r.body["model"] == "ours").collect();
    let replies = behaviour["replies"].as_u64().unwrap() as usize;
    assert_eq!(policy.len(), replies, "one request a reply");
    assert_eq!(seen.len() - policy.len(), replies + 2 * 2, "one a label, two a dialogue");
    for request in &policy {
        assert_eq!((&request.body["temperature"], &request.body["max_tokens"]), (&json!(0.7), &json!(33)));
        assert_eq!(request.body["messages"][0]["role"], "system");
    }
    // The same people as a checkpoint gets, so that the rows can be compared pair by pair.
    let (checkpoint, policy) = (home.path("checkpoint.json"), home.path("policy"));
    let mut arguments = vec!["eval", "--model", text(&policy), "--profiles", text(&profiles), "--max-turns", "3"];
    arguments.extend(["--max-new-tokens", "8", "--json", text(&checkpoint)]);
    say(&arguments).well();
    let table = home.path("table.json");
    say(&["eval", "--compare", text(&checkpoint), text(&out), "--json", text(&table)]).well();
    assert_eq!(read(&table)["overall"]["pairs"], 2);
    let again = home.path("again.json");
    say(&["eval", "--recorded", text(&episodes), "--json", text(&again)]).well();
    assert_eq!(read(&again)["mean_final_emotion"], found["mean_final_emotion"]);
}

#[test]
fn an_endpoint_that_fails_leaves_no_score_and_bad_judges_are_counted() {
    let home = Home::new();
    let profiles = home.path("heldout.jsonl");
    let closed = Server::start(|_| Reaction::Status(403, "", "closed".into()));
    let spec = format!("llm:url={},model=ours", closed.url);
    let eval = |spec: &str, more: &[&str]| {
        let mut arguments = vec!["eval", "--model", spec, "--profiles", text(&profiles), "--max-turns", "1"];
        arguments.extend(more);
        say(&arguments)
    };
    eval(&spec, &[]).refused(&["403", "closed"]);
    let server = Server::start(|request: &Request| match request.format() {
        "text" => Reaction::Content("I hear you.".into()),
        _ => Reaction::Content("I would rather not say.".into()),
    });
    let (spec, judge) =
        (format!("llm:url={},model=ours", server.url), format!("llm:url={},model=mute,retries=0", server.url));
    eval(&spec, &["--judge", &judge]).refused(&["judge mute gave no usable rating", "rather not say"]);
    let out = home.path("out.json");
    eval(&spec, &["--judge", &judge, "--judged", "strategies", "--json", text(&out)]).well();
    let behaviour = read(&out)["behaviour"].clone();
    assert_eq!((&behaviour["replies"], &behaviour["unlabelled"]), (&json!(0), &json!(2)), "they count nowhere");
    eval("llm:model=x", &[]).refused(&["has no url", "--model FOLDER"]);
    eval(&format!("{spec},temperature=0.3"), &[]).refused(&["temperature", "--temperature"]);
    eval(&spec, &["--judge", "builtin"]).refused(&["--judge builtin", "no language model"]);
    eval(&spec, &["--judge", &judge, "--judged", "manners"]).refused(&["manners", "strategies or capabilities"]);
}

#[test]
fn a_checkpoint_in_this_process_judges_too() {
    let home = Home::new();
    let (policy, profiles, out) = (home.path("policy"), home.path("heldout.jsonl"), home.path("out.json"));
    // Pico names no strategy, yet fills the form of a rating with numbers that are allowed.
    let judge = "llm:model=builtin:pico,max_tokens=64,concurrency=2";
    let mut arguments = vec!["eval", "--model", text(&policy), "--profiles", text(&profiles), "--max-turns", "1"];
    arguments.extend(["--max-new-tokens", "4", "--judge", judge, "--judge-repeats", "1", "--json", text(&out)]);
    say(&arguments).well();
    let found = read(&out);
    let depth = found["judged"]["capabilities"]["empathic depth"]["mean"].as_f64().unwrap();
    assert!((1.0..=5.0).contains(&depth), "{found}");
    assert_eq!(found["settings"]["judge"]["model"], "builtin:pico");
    assert!(found["settings"]["judge"].get("endpoint").is_none());
}

#[test]
fn endpoints_are_probed_and_their_knowledge_is_checked() {
    let home = Home::new();
    let out = home.path("out.json");
    let server = Server::start(|request: &Request| {
        let asked = request.text();
        Reaction::Content(if asked.contains("Print the sum") {
            "```\nread a b\necho $((a + b))\n```".into()
        } else {
            "The answer is 102.".into()
        })
    });
    let spec = format!("llm:url={},model=ours", server.url);
    let eval = |more: &[&str]| {
        let mut arguments = vec!["eval", "--model", &spec, "--json", text(&out)];
        arguments.extend(more);
        say(&arguments)
    };
    let said = eval(&["--probe", "dependency"]).well();
    assert!(said.out.contains("dependency"), "{}", said.out);
    let said = eval(&["--retention", "builtin"]).well();
    assert!(said.out.contains("built-in mathematics") && !said.out.contains("programs"), "{}", said.out);
    let first = read(&out)["answers"][0].clone();
    assert_eq!((&first["id"], &first["right"]), (&json!("maths-01"), &json!(true)));
    let set = home.path("programs.jsonl");
    let cases = json!([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}, {"input": "4 5\n", "output": "9\n"}]);
    let task = |id: &str, question: &str, cases: &Value| {
        json!({"question_id": id, "question_content": question, "public_test_cases": cases.to_string()}).to_string()
    };
    let function = json!([{"input": "[1]", "output": "1", "testtype": "functional"}]);
    let lines = [
        task("sum", "Read two numbers. Print the sum.", &cases),
        task("call", "Write f.", &function),
        task("other", "Print the product.", &cases),
    ];
    std::fs::write(&set, lines.join("\n")).unwrap();
    eval(&["--retention", text(&set)]).refused(&["programs.jsonl", "--run-code"]);
    eval(&["--retention", text(&set), "--run-code", "sh"]).refused(&["{file}"]);
    eval(&["--retention", text(&set), "--run-code", "sh {file}", "--run-seconds", "0"]).refused(&["--run-seconds"]);
    let said = eval(&["--retention", text(&set), "--run-code", "sh {file}"]).well();
    assert!(said.out.contains("of 2 tasks") && said.out.contains("1 tasks that call functions"), "{}", said.out);
    let found = read(&out);
    assert_eq!(found["retention"][0]["accuracy"]["mean"], 0.5);
    assert_eq!(found["answers"][0]["parts"], json!([true, true]));
    assert_eq!((&found["settings"]["run_code"], &found["settings"]["run_seconds"]), (&json!("sh {file}"), &json!(6.0)));
}
