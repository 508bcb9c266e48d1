//! Many dialogues at once with users that have to be waited for.

use std::time::{Duration, Instant};

use rlver::Error;
use rlver::dialogue::think::ReplyMode;
use rlver::recipe::Recipe;
use rlver::rollout::{EndReason, Episode, RolloutSettings};
use rlver::train::{Event, Outcome, RunOptions, StopFlag};
use rlver::user::llm::engine::HttpEngine;
use rlver::user::llm::{LlmSettings, LlmUser};
use serde_json::Value;

use super::faults::settings;
use super::server::{Reaction, Request, Server};
use crate::cli;
use crate::tiny::{self, Home};

/// An answer whose change depends on the words that were asked about, as a real model's would.
pub(crate) fn moody(request: &Request) -> Reaction {
    let sum: i64 = request.text().bytes().map(i64::from).sum();
    request.answer(sum % 21 - 10)
}

/// A recipe of a few seconds whose users a server plays.
pub(crate) fn recipe(home: &Home, server: &Server, algorithm: &str, set: &[&str]) -> Recipe {
    let url = format!("llm.url={}", server.url);
    let mut all = vec!["user.engine=llm", "llm.model=ours", &url, "run.steps=2"];
    all.extend(set);
    home.recipe(algorithm, &all)
}

/// Carries a recipe out as the command line does.
pub(crate) fn train(recipe: &Recipe, home: &Home, out: &str) -> Result<Outcome, Error> {
    let (folder, stop) = (home.path(out), StopFlag::default());
    let options = RunOptions { recipe, folder: &folder, resume: false, stop: &stop };
    rlver::train::run(&options, &mut |_: Event<'_>| {})
}

#[test]
fn sixty_four_dialogues_take_little_longer_than_one() {
    const LATENCY: Duration = Duration::from_millis(200);
    let server = Server::start(|request| Reaction::Slow(LATENCY, Box::new(request.answer(0))));
    let mut http = settings(&server.url);
    http.concurrency = 64;
    let user = LlmUser::new(Box::new(HttpEngine::new(http).unwrap()), LlmSettings::default());
    let policy = tiny::policy();
    let start = rlver::user::Emotion::new(90).unwrap();
    let talk = RolloutSettings { max_new_tokens: 6, start, ..tiny::settings(ReplyMode::Direct, 1.0) };
    let mut measured = Vec::new();
    // Other work on the machine slows threads down; it does not make anything faster.
    for _ in 0..3 {
        let begun = Instant::now();
        let episodes = tiny::roll_out(&policy, &user, tiny::jobs(64), talk, 64);
        let took = begun.elapsed();
        assert!(episodes.iter().all(|e| e.end == EndReason::TurnLimit && e.turns.len() == 4), "all went well");
        let questions = |e: &Episode| e.turns.iter().map(|t| t.calls.len()).sum::<usize>() as u32;
        let longest = episodes.iter().map(questions).max().unwrap();
        assert_eq!(longest, 8, "two a turn");
        // The longest dialogue: its questions one after the other, and its tokens, which are sampled beside the others'.
        let begun = Instant::now();
        tiny::roll_out(&policy, &tiny::FICKLE, tiny::jobs(64), talk, 64);
        let critical = LATENCY * longest + begun.elapsed();
        measured.push(took.as_secs_f64() / critical.as_secs_f64());
        if measured.last().is_some_and(|ratio| *ratio <= 1.3) {
            let waiting = took.as_secs_f64() / (LATENCY * longest).as_secs_f64();
            println!(
                "64 dialogues took {took:?}: {:.3} times the critical path of {critical:?}, {waiting:.3} times its waiting",
                measured.last().unwrap()
            );
            return;
        }
    }
    panic!("64 dialogues take {measured:?} times the critical path");
}

#[test]
fn a_user_that_fails_leaves_one_dialogue_unscored() {
    let jobs = tiny::jobs(8);
    let unlucky = jobs[3].profile.player.clone();
    let server = Server::start(move |request| match request.text().contains(&unlucky) {
        true => Reaction::Status(500, "", "not for this one".into()),
        false => moody(request),
    });
    let user = LlmUser::new(Box::new(HttpEngine::new(settings(&server.url)).unwrap()), LlmSettings::default());
    let policy = tiny::policy();
    let episodes = tiny::roll_out(&policy, &user, jobs, tiny::settings(ReplyMode::Direct, 1.0), 3);
    for (index, episode) in episodes.iter().enumerate() {
        match (&episode.end, index) {
            (EndReason::Unscored(why), 3) => {
                assert!(why.contains("not for this one") && episode.reward.is_none(), "{why}");
                let call = &episode.turns[0].calls[0];
                assert!(call.failure.as_ref().is_some_and(|f| f.contains("not for this one")), "it is on record");
            }
            (end, _) => assert!(episode.reward.is_some(), "dialogue {index} ended as {end:?}"),
        }
    }
}

#[test]
fn who_answers_when_changes_nothing() {
    let fast = Server::start(moody);
    let slow = Server::start(|request| {
        let wait = request.text().len() as u64 * 7 % 40;
        Reaction::Slow(Duration::from_millis(wait), Box::new(moody(request)))
    });
    let policy = tiny::policy();
    let hold = |server: &Server, rows| {
        let user = LlmUser::new(Box::new(HttpEngine::new(settings(&server.url)).unwrap()), LlmSettings::default());
        tiny::roll_out(&policy, &user, tiny::jobs(10), tiny::settings(ReplyMode::Direct, 1.0), rows)
    };
    let (a, b) = (hold(&fast, 10), hold(&slow, 3));
    for (a, b) in a.iter().zip(&b) {
        assert_eq!((&a.turns, &a.end, a.reward), (&b.turns, &b.end, b.reward), "dialogue {}", a.dialogue);
        assert_eq!(
            a.rows.iter().map(|r| r.ids()).collect::<Vec<_>>(),
            b.rows.iter().map(|r| r.ids()).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_dead_server_stops_a_run_with_a_clear_word() {
    let home = Home::new();
    let server = Server::start(|_| Reaction::Status(401, "", "who are you?".into()));
    let error = train(&recipe(&home, &server, "ppo", &[]), &home, "run").unwrap_err();
    assert!(matches!(error, Error::UnscoredEvaluation { unscored: 2, total: 2, .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("who are you?") && message.contains(&server.url), "{message}");
    // Dying in the middle: what was learnt is kept, the message names the key that decides.
    let server = Server::start(|request| match request.number < 60 {
        true => moody(request),
        false => Reaction::Status(403, "", "quota".into()),
    });
    let error = train(&recipe(&home, &server, "ppo", &["run.steps=40"]), &home, "half").unwrap_err();
    assert!(matches!(error, Error::TooManyUnscored { .. }), "{error}");
    assert!(error.to_string().contains("user.max_unscored") && error.to_string().contains("quota"), "{error}");
}

#[test]
fn a_recorded_run_is_replayed_without_its_server() {
    let home = Home::new();
    for (algorithm, mode) in [("ppo", "direct"), ("grpo", "direct")] {
        let server = Server::start(|request| match request.number % 29 {
            // Now and then somebody fails, and that is replayed, too.
            28 => Reaction::Status(404, "", "lost".into()),
            _ => moody(request),
        });
        let set = [&format!("rollout.mode={mode}"), "user.max_unscored=0.9", "llm.response_format=text"];
        let recorded = format!("recorded-{algorithm}");
        train(&recipe(&home, &server, algorithm, &set), &home, &recorded).unwrap();
        assert!(server.requests() > 40);
        let engine = format!("user.engine=replay:{}", home.path(&recorded).display());
        let again = home.recipe(algorithm, &["run.steps=2", set[0], set[1], &engine]);
        let replayed = format!("replayed-{algorithm}");
        train(&again, &home, &replayed).unwrap();
        let without_user = |metrics: Vec<(u64, Vec<(String, f64)>)>| -> Vec<(u64, Vec<(String, f64)>)> {
            let keep = |values: Vec<(String, f64)>| {
                values.into_iter().filter(|(k, _)| !k.starts_with("user/") && k != "rollout/logprob_gap").collect()
            };
            metrics.into_iter().map(|(step, values)| (step, keep(values))).collect()
        };
        let metrics = |run: &str| without_user(tiny::metrics(&home.path(run)));
        assert_eq!(metrics(&recorded), metrics(&replayed));
        let mut failed = 0;
        for file in ["eval-before", "step-000001", "step-000002", "eval-after"] {
            let episodes = |run: &str| tiny::episodes(&home.path(run).join(format!("episodes/{file}.jsonl")));
            for (a, mut b) in episodes(&recorded).into_iter().zip(episodes(&replayed)) {
                assert_eq!(b.user, format!("replay: {}", a.user));
                if let (EndReason::Unscored(_), EndReason::Unscored(why)) = (&a.end, &b.end) {
                    assert!(why.contains("recorded") && why.contains("lost"), "{why}");
                    failed += 1;
                    b.end = a.end.clone();
                }
                b.user = a.user.clone();
                // Who waits for whom decides which rows share a batch, and with it the last digit of a log-probability.
                for (a, b) in a.rows.iter().zip(&mut b.rows) {
                    for (a, b) in a.segments.iter().zip(&mut b.segments) {
                        assert!(a.logprobs.iter().zip(&b.logprobs).all(|(a, b)| (a - b).abs() < 1e-4));
                        b.logprobs.clone_from(&a.logprobs);
                    }
                }
                // A group's first line was asked for once; each of its replays has that record.
                b.opening_calls.clone_from(&a.opening_calls);
                assert_eq!(a, b, "{file}");
            }
        }
        assert!(failed > 0, "a failure was among them");
        assert!(
            std::fs::read(home.path(&recorded).join("policy/model.safetensors")).unwrap()
                == std::fs::read(home.path(&replayed).join("policy/model.safetensors")).unwrap()
        );
        // Another seed says other things: nobody makes answers up for them.
        let other = home.recipe(algorithm, &["run.steps=2", "run.seed=5", set[0], &engine]);
        let message = train(&other, &home, &format!("other-{algorithm}")).unwrap_err().to_string();
        assert!(message.contains("replay needs the recipe"), "{message}");
    }
}

#[test]
fn the_key_reaches_neither_the_run_folder_nor_the_screen() {
    const SECRET: &str = "sk-never-to-be-seen-5150";
    let home = Home::new();
    let server = Server::start(|request| match request.number % 7 {
        // Servers that repeat the key, in answers and in complaints.
        3 => Reaction::Status(500, "", format!("bad day for {:?}", request.authorization)),
        4 => Reaction::Content(format!("{:?}", request.authorization)),
        _ => moody(request),
    });
    let sets = [format!("llm.url={}", server.url), "llm.key_env=RLVER_TEST_RUN_KEY".into()];
    let (file, out) = (home.path("recipe.toml"), home.path("run"));
    let mut arguments = vec!["train", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let all = [&sets[0], &sets[1], "user.engine=llm", "llm.model=ours", "run.steps=1", "user.max_unscored=1.0"];
    arguments.extend(all.iter().flat_map(|s| ["--set", s]));
    let said = cli::Said::of(cli::rlver(&arguments).env("RLVER_TEST_RUN_KEY", SECRET).output().expect("runs")).well();
    assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET), "{said:?}");
    assert!(server.seen().iter().all(|r| r.authorization.as_deref() == Some(&format!("Bearer {SECRET}"))));
    let mut files = 0;
    for (name, bytes) in tiny::files(&out) {
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!found, "{} holds the key", name.display());
        files += 1;
    }
    assert!(files > 5);
    let record = std::fs::read_to_string(out.join("episodes/step-000001.jsonl")).unwrap();
    assert!(record.contains("[key]"), "the server did repeat it");
    // Without the variable nothing starts.
    let said = cli::Said::of(cli::rlver(&arguments).env_remove("RLVER_TEST_RUN_KEY").output().expect("runs"));
    said.refused(&["RLVER_TEST_RUN_KEY", "not set"]);
    // The key itself where its variable's name belongs is refused without being repeated.
    let set = format!("llm.key_env={SECRET}");
    let arguments =
        ["recipe", "check", file.to_str().unwrap(), "--set", "user.engine=llm", "--set", "llm.model=m", "--set", &set];
    let said = cli::say(&arguments);
    said.refused(&["llm.key_env", "never the key itself"]);
    assert!(!said.err.contains(SECRET), "{said:?}");
}

#[test]
fn what_the_model_used_is_a_metric() {
    let home = Home::new();
    let server = Server::start(moody);
    let prices = ["llm.price_prompt=1.0", "llm.price_completion=10.0", "run.steps=1"];
    train(&recipe(&home, &server, "ppo", &prices), &home, "run").unwrap();
    let (_, metrics) = tiny::metrics(&home.path("run")).into_iter().find(|(step, _)| *step == 1).unwrap();
    let get = |key: &str| metrics.iter().find(|(k, _)| k == key).unwrap_or_else(|| panic!("{key}")).1;
    let episodes = tiny::episodes(&home.path("run/episodes/step-000001.jsonl"));
    let calls: usize = episodes.iter().flat_map(|e| &e.turns).map(|t| t.calls.len()).sum();
    assert_eq!((get("user/requests"), get("user/prompt_tokens")), (calls as f64, 100.0 * calls as f64));
    assert!((get("user/cost") - (100.0 + 10.0 * 10.0) * calls as f64 / 1e6).abs() < 1e-12);
    assert_eq!((get("user/retries"), get("user/failures")), (0.0, 0.0));
}

#[test]
fn eval_takes_any_user() {
    let home = Home::new();
    let server = Server::start(moody);
    let (model, profiles, json) = (home.path("policy"), home.path("heldout.jsonl"), home.path("eval.json"));
    let user = format!("llm:url={},model=ours,variant=challenging", server.url);
    let base = [
        "eval",
        "--model",
        model.to_str().unwrap(),
        "--profiles",
        profiles.to_str().unwrap(),
        "--max-turns",
        "2",
        "--max-new-tokens",
        "8",
        "--json",
        json.to_str().unwrap(),
        "--user",
    ];
    let eval = |user: &str| cli::say(&[&base[..], &[user]].concat());
    let said = eval(&user).well();
    assert!(said.err.contains("user model: ") && said.err.contains("(0 retries, 0 failed)"), "{said:?}");
    let found: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(found["settings"]["user"], "llm/1 ours challenging");
    assert!(server.seen().iter().any(|r| r.text().contains("not even a hint") || r.text().contains("也不许暗示")));
    eval("elm").refused(&["user.engine", "builtin, llm, replay:RUN"]);
    eval("llm:modle=x").refused(&["llm.modle", "llm.model"]);
    eval("llm:model=x,url=http://u:secret@host/v1").refused(&["llm.url", "environment variable"]);
    eval("replay:/no/such/run").refused(&["/no/such/run/episodes"]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").map(|l| l.local_addr().unwrap().port()).unwrap();
    let said = eval(&format!("llm:url=http://127.0.0.1:{nobody}/v1,model=x,retries=0"));
    said.refused(&["2 of 2 dialogues", "last failure"]);
}
