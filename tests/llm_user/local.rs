//! A checkpoint in this process as the user's model.

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{Language, ProfileSet, Role};
use rlver::rollout::Policy;
use rlver::user::llm::answer::{APPRAISAL, LINE};
use rlver::user::llm::engine::{ChatEngine, ChatRequest, ChatSampling, LocalEngine, Message};
use rlver::user::llm::{LlmSettings, LlmUser};
use rlver::user::{Emotion, SessionSettings, UserEngine};
use serde_json::Value;

use crate::tiny;

const SAMPLING: ChatSampling = ChatSampling { temperature: 1.0, top_p: 1.0, max_tokens: 40, seed: 3 };

#[test]
fn any_checkpoint_fills_the_form() {
    let engine = LocalEngine::new("tiny", tiny::policy(), 3, 1024);
    let ask = |n: usize, shape| {
        let messages = [Message::new(Role::System, "s"), Message::new(Role::User, format!("question {n}"))];
        engine.complete(&ChatRequest { messages: &messages, shape, sampling: SAMPLING }).unwrap()
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..7).map(|n| scope.spawn(move || ask(n, if n % 2 == 0 { &APPRAISAL } else { &LINE }))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (n, answer) in answers.iter().enumerate() {
        let fields = if n % 2 == 0 { APPRAISAL.fields } else { LINE.fields };
        let mut rest = answer.text.as_str();
        for field in fields {
            let at = rest
                .find(&format!("\"{}\":", field.name))
                .unwrap_or_else(|| panic!("{} in {}", field.name, answer.text));
            rest = &rest[at..];
        }
        let object: Value = serde_json::from_str(&answer.text).unwrap_or_else(|e| panic!("{e} in {}", answer.text));
        match n % 2 {
            0 => assert!((-10..=10).contains(&object["change"].as_i64().unwrap()), "{object}"),
            _ => assert!(object["farewell"].is_boolean(), "{object}"),
        }
        assert!(answer.completion_tokens > 0 && answer.prompt_tokens > 10);
        assert_eq!(answer, &ask(n, if n % 2 == 0 { &APPRAISAL } else { &LINE }), "alone as in company");
    }
    let usage = engine.usage();
    assert_eq!((usage.requests, usage.failures), (14, 0));
}

#[test]
fn a_conversation_that_does_not_fit_is_an_error() {
    let engine = LocalEngine::new("tiny", tiny::policy(), 1, 100_000);
    let messages = [Message::new(Role::User, "word ".repeat(3000))];
    let error = engine.complete(&ChatRequest { messages: &messages, shape: &LINE, sampling: SAMPLING }).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("tiny") && message.contains("llm.max_context"), "{message}");
    let messages = [Message::new(Role::User, "short")];
    let request = ChatRequest { messages: &messages, shape: &LINE, sampling: SAMPLING };
    assert!(engine.complete(&request).is_ok(), "and the next one is answered");
}

#[test]
fn a_checkpoint_plays_users_of_a_rollout() {
    // An untrained network babbles, but in the right form.
    let user = LlmUser::new(
        Box::new(LocalEngine::new("tiny", tiny::policy(), 4, 1024)),
        LlmSettings { max_tokens: 16, asks: 1, ..LlmSettings::default() },
    );
    let policy = tiny::policy();
    let episodes = tiny::roll_out(&policy, &user, tiny::jobs(4), tiny::settings(ReplyMode::Direct, 1.0), 4);
    assert!(episodes.iter().all(|e| e.user.contains("tiny")));
    for episode in episodes {
        let calls: Vec<_> = episode.turns.iter().flat_map(|turn| &turn.calls).collect();
        assert!(!calls.is_empty());
        assert_eq!(episode.reward.is_none(), calls.iter().any(|call| call.failure.is_some()));
        for rejected in calls.iter().flat_map(|call| &call.rejected) {
            assert!(rejected.problem.contains("no word"), "{}", rejected.problem);
        }
    }
}

#[test]
fn smollm2_plays_a_user() {
    let Some(folder) = super::models().map(|m| m.join("smollm2-135m")).filter(|f| f.join("config.json").exists())
    else {
        eprintln!("SKIPPED: SmolLM2 is not there; tests/fetch_models.sh fetches it");
        return;
    };
    let policy = Policy::load(&folder, &burn::tensor::Device::flex()).unwrap();
    let engine = LocalEngine::new("smollm2-135m", policy, 2, 2048);
    let user = LlmUser::new(Box::new(engine), LlmSettings { max_tokens: 100, ..LlmSettings::default() });
    let profiles = ProfileSet::builtin_heldout();
    let english = profiles.iter().filter(|p| p.language() == Language::En);
    let mut answered = 0;
    for profile in english.take(2) {
        let settings = SessionSettings { start: Emotion::new(40).unwrap(), seed: 1 };
        let mut session = user.open(profile.clone(), settings);
        session.opening().unwrap();
        match session.respond("I am sorry. That sounds lonely, being the only one who works on it.") {
            Ok(turn) => {
                assert_eq!(turn.after, turn.before.after(&turn.appraisal));
                assert!(turn.line.chars().any(char::is_alphabetic) && !turn.appraisal.feeling.is_empty());
                answered += 1;
            }
            Err(error) => println!("{error}"),
        }
        println!("{:#?}", session.take_calls());
    }
    assert_eq!(answered, 2, "a trained model, however small, fills the form with sense enough to be read");
    println!("{}", user.usage().unwrap());
}
