//! What each fault of a server gives.

use std::time::{Duration, Instant};

use rlver::dialogue::Role;
use rlver::user::llm::answer::APPRAISAL;
use rlver::user::llm::engine::{
    ApiKey, Backoff, ChatEngine, ChatRequest, ChatSampling, Completion, EngineError, HttpEngine, HttpSettings, Message,
    Prices, ResponseFormat,
};

use super::server::{Reaction, Request, Server};

/// What a server does wrong.
type Fault = fn(&Request) -> Reaction;

pub(super) fn settings(url: &str) -> HttpSettings {
    HttpSettings {
        url: url.into(),
        model: "ours".into(),
        key: None,
        concurrency: 4,
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(10),
        retries: 3,
        backoff: Backoff { first: Duration::from_millis(5), longest: Duration::from_secs(3) },
        format: ResponseFormat::Auto,
        prices: Prices { prompt: 2.0, completion: 30.0 },
    }
}

fn ask(engine: &HttpEngine) -> Result<Completion, EngineError> {
    let messages = [Message::new(Role::System, "s"), Message::new(Role::User, "how is \"change\": 0 ?")];
    let sampling = ChatSampling { temperature: 0.5, top_p: 1.0, max_tokens: 64, seed: u64::MAX };
    engine.complete(&ChatRequest { messages: &messages, shape: &APPRAISAL, sampling })
}

/// A server that does `fault` to the first `times` requests and answers the others.
fn faulty(times: usize, fault: impl Fn(&Request) -> Reaction + Send + Sync + 'static) -> Server {
    Server::start(move |request| if request.number < times { fault(request) } else { request.answer(5) })
}

fn engine(server: &Server) -> HttpEngine {
    HttpEngine::new(settings(&server.url)).expect("a fine address")
}

#[test]
fn passing_faults_are_tried_again_and_counted() {
    let faults: [(&str, Fault); 9] = [
        ("500", |_| Reaction::Status(500, "", "oops".into())),
        ("503 without a word", |_| Reaction::Status(503, "", String::new())),
        ("429", |_| Reaction::Status(429, "Retry-After: 0\r\n", "slow down".into())),
        ("half a body", |r| match r.answer(5) {
            Reaction::Content(content) => Reaction::Half(content),
            other => other,
        }),
        ("reset", |_| Reaction::Reset),
        ("no JSON", |_| Reaction::Body("<html>bad gateway</html>".into())),
        ("no choices", |_| Reaction::Body(r#"{"choices":[]}"#.into())),
        ("no content", |_| Reaction::Body(r#"{"choices":[{"finish_reason":"content_filter","message":{}}]}"#.into())),
        ("an error with status 200", |_| Reaction::Body(r#"{"error":{"message":"overloaded"}}"#.into())),
    ];
    for (name, fault) in faults {
        let server = faulty(2, fault);
        let engine = engine(&server);
        let completion = ask(&engine).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(completion.text.contains("\"change\":5"), "{name}");
        let usage = engine.usage();
        assert_eq!((usage.requests, usage.retries, usage.failures), (1, 2, 0), "{name}");
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (100, 10), "{name}: tokens of the answer only");
        assert!((usage.cost - (100.0 * 2.0 + 10.0 * 30.0) / 1e6).abs() < 1e-12, "{name}");
    }
}

#[test]
fn lasting_faults_end_after_the_retries_and_say_what_was_last() {
    let faults: [(Fault, &str); 5] = [
        (|_| Reaction::Status(500, "", "the cat ate it".into()), "the cat ate it"),
        (|_| Reaction::Status(429, "", String::new()), "429"),
        (|r| Reaction::Half(r.text()), "breaks off"),
        (|_| Reaction::Body("[1, 2".into()), "no JSON"),
        (
            |_| Reaction::Body(r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#.into()),
            "no content",
        ),
    ];
    for (fault, said) in faults {
        let server = faulty(usize::MAX, fault);
        let engine = engine(&server);
        let error = ask(&engine).unwrap_err();
        assert!(matches!(error, EngineError::GaveUp { attempts: 4, .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(said) && message.contains("4 attempts") && message.contains(&server.url), "{message}");
        assert_eq!(server.requests(), 4);
        assert_eq!((engine.usage().failures, engine.usage().retries), (1, 3));
    }
}

#[test]
fn nobody_there_and_resets_are_errors_with_the_address() {
    // A port that was free a moment ago.
    let url = std::net::TcpListener::bind("127.0.0.1:0").map(|l| format!("http://{}/v1", l.local_addr().unwrap()));
    let url = url.expect("a free port");
    let message = ask(&HttpEngine::new(settings(&url)).unwrap()).unwrap_err().to_string();
    assert!(message.contains(&url) && message.contains("4 attempts"), "{message}");
    let server = faulty(usize::MAX, |_| Reaction::Reset);
    let message = ask(&engine(&server)).unwrap_err().to_string();
    assert!(message.contains("4 attempts"), "{message}");
}

#[test]
fn a_slow_server_is_given_up_in_time() {
    let server = faulty(usize::MAX, |r| Reaction::Slow(Duration::from_secs(30), Box::new(r.answer(5))));
    let mut settings = settings(&server.url);
    (settings.timeout, settings.retries) = (Duration::from_millis(300), 1);
    let begun = Instant::now();
    let message = ask(&HttpEngine::new(settings).unwrap()).unwrap_err().to_string();
    assert!(message.contains("2 attempts") && message.contains("timeout"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn retry_after_is_waited_for_unless_it_is_too_long() {
    let server = faulty(1, |_| Reaction::Status(429, "Retry-After: 1\r\n", String::new()));
    let begun = Instant::now();
    ask(&engine(&server)).unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let server = faulty(1, |_| Reaction::Status(503, "Retry-After: 86400\r\n", "maintenance".into()));
    let begun = Instant::now();
    let message = ask(&engine(&server)).unwrap_err().to_string();
    assert!(message.contains("maintenance") && message.contains("86400 s"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(2), "nobody waits a day: {:?}", begun.elapsed());
}

#[test]
fn what_will_never_work_is_not_tried_again() {
    for status in [401, 403, 402] {
        let server = faulty(usize::MAX, move |_| Reaction::Status(status, "", "no".into()));
        let error = ask(&engine(&server)).unwrap_err();
        assert!(matches!(&error, EngineError::Refused { status: s, .. } if *s == status), "{error}");
        assert_eq!(server.requests(), 1);
    }
    // A request that no format saves: each is tried once.
    let server = faulty(usize::MAX, |_| Reaction::Status(400, "", "the context is too long".into()));
    let message = ask(&engine(&server)).unwrap_err().to_string();
    assert!(message.contains("the context is too long"), "{message}");
    assert_eq!(server.requests(), 3);
}

#[test]
fn the_best_response_format_that_the_server_takes_is_used() {
    for (takes, expected) in [
        (&["json_schema", "json_object", "text"][..], &["json_schema", "json_schema"][..]),
        (&["json_object", "text"], &["json_schema", "json_object", "json_object"]),
        (&["text"], &["json_schema", "json_object", "text", "text"]),
    ] {
        let server = Server::start(|request| match takes.contains(&request.format()) {
            true => request.answer(-5),
            // Refusals look different from server to server.
            false if request.format() == "json_schema" => {
                Reaction::Status(500, "", "validation error: ('body', 'response_format', 'type')".into())
            }
            false => Reaction::Status(422, "", "unsupported".into()),
        });
        let engine = engine(&server);
        for _ in 0..2 {
            assert!(ask(&engine).unwrap().text.contains("-5"));
        }
        let seen = server.seen();
        assert_eq!(seen.iter().map(Request::format).collect::<Vec<_>>(), expected);
        assert_eq!(engine.usage().retries, 0, "finding the format is no failure");
        for request in &seen {
            let format = &request.body["response_format"];
            let schema = match request.format() {
                "json_schema" => &format["json_schema"]["schema"],
                "json_object" => &format["schema"],
                _ => continue,
            };
            assert_eq!(schema["required"][4], "change");
            assert_eq!(schema["properties"]["change"]["type"], "integer");
        }
    }
}

#[test]
fn no_more_requests_at_once_than_allowed() {
    let slow = Server::start(|r| Reaction::Slow(Duration::from_millis(60), Box::new(r.answer(0))));
    let engine = engine(&slow);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| ask(&engine).unwrap());
        }
    });
    assert_eq!((slow.requests(), slow.busiest()), (12, 4));
}

#[test]
fn the_key_goes_into_one_header_and_nowhere_else() {
    // Set once, before any thread of this test; no other test reads this name.
    const NAME: &str = "RLVER_TEST_KEY_FAULTS";
    const SECRET: &str = "sk-very-secret-0123456789";
    unsafe { std::env::set_var(NAME, format!(" {SECRET}\n")) };
    let key = ApiKey::from_env(NAME).unwrap();
    let server = Server::start(|request| {
        let echo = format!("wrong key: {}", request.authorization.clone().unwrap_or_default());
        match request.number {
            0 => Reaction::Status(500, "", echo),
            1 => Reaction::Content(format!("I was sent {echo}")),
            2 => Reaction::Body(format!("{{\"error\": \"{echo}\"}}")),
            _ => Reaction::Status(401, "", echo),
        }
    });
    let mut settings = settings(&server.url);
    (settings.key, settings.retries) = (Some(key.clone()), 1);
    assert!(!format!("{settings:?} {key:?}").contains(SECRET));
    let engine = HttpEngine::new(settings).unwrap();
    assert!(!format!("{engine:?}").contains(SECRET));
    let texts = [ask(&engine).unwrap().text, ask(&engine).unwrap_err().to_string()];
    for text in &texts {
        assert!(text.contains("[key]") && !text.contains(SECRET), "{text}");
    }
    let seen = server.seen();
    assert!(seen.iter().all(|r| r.authorization.as_deref() == Some(&format!("Bearer {SECRET}"))));
    assert!(seen.iter().all(|r| !r.body.to_string().contains(SECRET)));
    for (value, problem) in [("", "empty"), ("two words", "characters"), ("schlüssel", "characters")] {
        unsafe { std::env::set_var(NAME, value) };
        let message = ApiKey::from_env(NAME).unwrap_err().to_string();
        assert!(message.contains(NAME) && message.contains(problem), "{message}");
        assert!(value.is_empty() || !message.contains(value), "{message}");
    }
    let message = ApiKey::from_env("RLVER_TEST_NOT_SET").unwrap_err().to_string();
    assert!(message.contains("RLVER_TEST_NOT_SET") && message.contains("not set"), "{message}");
}

#[test]
fn addresses_that_are_none_or_carry_secrets_are_refused() {
    for url in ["", "localhost:8000", "ftp://host/v1", "http://", "not an address", "http:///v1"] {
        assert!(matches!(HttpEngine::new(settings(url)), Err(EngineError::Address { .. })), "{url}");
    }
    for url in ["http://me:secret@host/v1", "https://host/v1?api_key=secret"] {
        let message = HttpEngine::new(settings(url)).unwrap_err().to_string();
        assert!(!message.contains("secret") && message.contains("environment variable"), "{message}");
    }
}
