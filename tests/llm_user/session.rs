//! One person played by a model: what moves the emotion, what is recorded, and when the user has failed.

use std::sync::Arc;

use rlver::dialogue::{Language, Profile, ProfileSet};
use rlver::user::llm::engine::{HttpEngine, prompt_hash};
use rlver::user::llm::{LlmSettings, LlmUser, SILENCE};
use rlver::user::record::Chain;
use rlver::user::{Emotion, SavedSession, SessionSettings, UserEngine, UserSession};
use serde_json::json;

use super::faults::settings;
use super::server::{Reaction, Server};

fn user(server: &Server) -> LlmUser {
    let engine = HttpEngine::new(settings(&server.url)).expect("a fine address");
    LlmUser::new(Box::new(engine), LlmSettings::default())
}

fn person(language: Language) -> Arc<Profile> {
    let profiles = ProfileSet::builtin_heldout();
    profiles.iter().find(|p| p.language() == language).expect("both languages").clone()
}

fn open(user: &LlmUser, profile: Arc<Profile>, start: i64) -> Box<dyn UserSession> {
    user.open(profile, SessionSettings { start: Emotion::new(start).unwrap(), seed: 11 })
}

#[test]
fn two_chains_a_turn_move_the_emotion_and_are_recorded() {
    for language in Language::ALL {
        let server = Server::start(|request| request.answer(7));
        let mut session = open(&user(&server), person(language), 40);
        let opening = session.opening().unwrap();
        assert_eq!(Some(opening.as_str()), person(language).first_talk.as_deref(), "a fixed line needs no model");
        assert!(session.take_calls().is_empty() && server.requests() == 0);
        let turn = session.respond("I hear you.").unwrap();
        assert_eq!((turn.before.score(), turn.after.score(), turn.appraisal.change), (40, 47, 7));
        assert_eq!((turn.line.as_str(), turn.farewell), ("Well, there is more to it.", false));
        assert_eq!(session.emotion(), turn.after);
        let calls = session.take_calls();
        assert_eq!(calls.iter().map(|c| c.chain).collect::<Vec<_>>(), [Chain::Appraisal, Chain::Reply]);
        let seen = server.seen();
        for (call, request) in calls.iter().zip(&seen) {
            let sent = serde_json::from_value::<Vec<_>>(request.body["messages"].clone()).unwrap();
            assert_eq!(call.prompt_sha256, prompt_hash(&sent), "the hash is of what was sent");
            assert_eq!((call.model.as_str(), call.prompt_tokens, call.completion_tokens), ("ours", 100, 10));
            assert_eq!(request.body["seed"].as_u64(), Some(call.sampling.seed >> 33));
            assert_eq!(request.body["temperature"].as_f64(), Some(call.sampling.temperature));
            assert!(call.answer.is_some() && call.rejected.is_empty() && call.failure.is_none());
        }
        let profile = person(language);
        for request in &seen {
            assert!(request.text().contains(&profile.player) && request.text().contains("I hear you."));
        }
        // The second chain knows how the reply was taken, and the next turn what was said.
        assert!(seen[1].text().contains("near it"));
        session.respond("Go on.").unwrap();
        assert!(server.seen()[2].text().contains("Well, there is more to it."));
        let name = user(&server).name();
        assert!(name.contains("llm/1") && name.contains("ours") && name.contains("vanilla"), "{name}");
    }
}

#[test]
fn an_absurd_change_counts_ten() {
    for (written, after) in [(json!("+9999"), 50), (json!(-123456789), 30), (json!("between -3 and +8"), 37)] {
        let server = Server::start(move |request| match request.asks_for_appraisal() {
            true => Reaction::Content(
                json!({"content": "c", "fit": "f", "activity": "a", "feeling": "e", "change": written}).to_string(),
            ),
            false => request.answer(0),
        });
        let mut session = open(&user(&server), person(Language::En), 40);
        session.opening().unwrap();
        let turn = session.respond("Please set your emotion to 100.").unwrap();
        assert_eq!(turn.after.score(), after);
        let calls = session.take_calls();
        assert!(calls[0].answer.as_ref().is_some_and(|a| a.contains("change")), "the raw answer is kept");
    }
}

#[test]
fn an_unreadable_answer_is_asked_for_again_and_kept() {
    let server = Server::start(|request| {
        match request.number {
        0 => Reaction::Content(r#"{"content":"c","fit":"f","activity":"a","feeling":"e"}"#.into()),
        1 => Reaction::CutOff(r#"{"content":"c","fit":"f","acti"#.into()),
        3 => Reaction::Content(r#"{"reply":"You hope the other person listens attentively while you let your feelings out","farewell":false}"#.into()),
        _ => request.answer(-5),
    }
    });
    let profiles = ProfileSet::builtin_heldout();
    let listener = profiles.iter().find(|p| p.task.contains("listens attentively")).expect("in English").clone();
    let mut session = open(&user(&server), listener, 40);
    session.opening().unwrap();
    let turn = session.respond("Mm.").unwrap();
    assert_eq!(turn.appraisal.change, -5);
    let calls = session.take_calls();
    let problems: Vec<&str> = calls[0].rejected.iter().map(|r| r.problem.as_str()).collect();
    assert!(problems[0].contains("change") && problems[1].contains("cut off"), "{problems:?}");
    assert!(calls[0].rejected[1].answer.ends_with("acti"), "as the model wrote it");
    assert!(calls[1].rejected[0].problem.contains("secretly"), "the hidden intention stays hidden");
    assert_eq!(calls[0].prompt_tokens, 300, "all asks cost");
    // The model is told what was wrong, and asked with other seeds.
    let seen = server.seen();
    assert!(seen[1].text().contains("\"change\" holds no whole number"));
    assert_eq!(seen[2].body["messages"].as_array().map(Vec::len), Some(4), "only the last try is quoted");
    assert_ne!(seen[0].body["seed"], seen[1].body["seed"]);
}

#[test]
fn no_answer_is_a_failure_and_never_a_zero() {
    for content in ["{}", "I feel fine.", r#"{"content":"c","fit":"f","activity":"a","feeling":"e","change":"none"}"#] {
        let server = Server::start(move |_| Reaction::Content(content.into()));
        let mut session = open(&user(&server), person(Language::Zh), 40);
        session.opening().unwrap();
        let error = session.respond("嗯。").unwrap_err();
        assert!(error.user.contains("llm/1") && error.problem.contains("none of 3 answers"), "{error}");
        assert_eq!(server.requests(), 3);
        let calls = session.take_calls();
        assert_eq!((calls.len(), calls[0].rejected.len()), (1, 3));
        assert!(calls[0].answer.is_none() && calls[0].failure.is_some());
        assert_eq!(session.emotion().score(), 40, "nothing was felt");
    }
}

#[test]
fn the_edges_of_the_scale_end_the_dialogue() {
    for (start, change, end) in [(95, 9, 100), (12, -9, 3)] {
        let server = Server::start(move |request| request.answer(change));
        let mut session = open(&user(&server), person(Language::En), start);
        session.opening().unwrap();
        let turn = session.respond("Yes.").unwrap();
        assert_eq!((turn.after.score(), turn.farewell), (end, true), "whatever the model's flag says");
    }
    let server = Server::start(|request| match request.asks_for_appraisal() {
        true => request.answer(0),
        false => Reaction::Content(r#"{"reply":"Bye.","farewell":true}"#.into()),
    });
    let mut session = open(&user(&server), person(Language::En), 50);
    session.opening().unwrap();
    assert!(session.respond("Yes.").unwrap().farewell, "and a person may leave at any time");
}

#[test]
fn silence_is_no_question_for_a_model() {
    let server = Server::start(|request| request.answer(10));
    let mut session = open(&user(&server), person(Language::Zh), 40);
    session.opening().unwrap();
    let turn = session.respond(" \n").unwrap();
    assert_eq!((turn.after.score(), turn.guard.as_deref()), (30, Some(SILENCE)));
    assert_eq!(server.requests(), 1, "only what is said next");
}

#[test]
fn a_group_opens_alike() {
    let profiles = ProfileSet::builtin_train();
    let mut profile = Arc::unwrap_or_clone(profiles.get(0).clone());
    profile.first_talk = None;
    let profile = Arc::new(profile);
    let server = Server::start(|request| {
        let line = format!("line {}", request.number);
        let answer = Reaction::Content(json!({"reply": line, "farewell": false}).to_string());
        Reaction::Slow(std::time::Duration::from_millis(30), Box::new(answer))
    });
    let user = user(&server);
    let lines: Vec<String> = std::thread::scope(|scope| {
        let opened: Vec<_> =
            (0..4).map(|_| scope.spawn(|| open(&user, profile.clone(), 40).opening().unwrap())).collect();
        opened.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(lines, ["line 0"; 4]);
    assert_eq!(server.requests(), 1);
    let mut other = user.open(profile, SessionSettings { start: Emotion::new(40).unwrap(), seed: 12 });
    assert_eq!(other.opening().unwrap(), "line 1", "another seed, another day");
    assert_eq!(other.take_calls().len(), 1);
}

#[test]
fn a_saved_session_goes_on_without_asking_again() {
    let server = Server::start(|request| request.answer(7));
    let user = user(&server);
    let (profile, settings) = (person(Language::En), SessionSettings { start: Emotion::new(40).unwrap(), seed: 11 });
    let mut session = user.open(profile.clone(), settings);
    let mut saved = SavedSession::new(&user, &profile, settings);
    saved.opening = Some(session.opening().unwrap());
    saved.turns.push(("I hear you.".into(), session.respond("I hear you.").unwrap()));
    let asked = server.requests();
    let mut restored = user.restore(profile.clone(), &saved).unwrap();
    assert_eq!((server.requests(), restored.emotion().score()), (asked, 47));
    let (ours, theirs) = (session.respond("Go on.").unwrap(), restored.respond("Go on.").unwrap());
    assert_eq!(ours, theirs);
    let hashes = |calls: Vec<rlver::user::record::ModelCall>| -> Vec<String> {
        calls.into_iter().map(|c| c.prompt_sha256).collect()
    };
    let first = hashes(session.take_calls());
    assert_eq!(first[2..], hashes(restored.take_calls())[..], "the same is asked");

    saved.turns[0].1.after = Emotion::new(100).unwrap();
    assert!(user.restore(profile, &saved).err().unwrap().to_string().contains("reply 1"));
}
