//! llama.cpp's OpenAI-compatible server with SmolLM2, started by the test: twenty dialogues from end to end.
//!
//! `tests/fetch_server.sh` installs the server (it compiles llama.cpp) and fetches the model; without it the test skips
//! itself and says so.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{Language, ProfileSet};
use rlver::rollout::{EndReason, Job, RolloutSettings};
use rlver::user::UserEngine;
use rlver::user::llm::engine::{HttpEngine, HttpSettings};
use rlver::user::llm::{LlmSettings, LlmUser};
use rlver::user::record::Chain;

use super::faults::settings;
use crate::tiny;

/// The server's process, ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn installed() -> Option<(PathBuf, PathBuf)> {
    let models = super::models()?;
    let (python, model) = (models.join("llama-server/bin/python"), models.join("smollm2-135m.gguf"));
    (python.exists() && model.exists()).then_some((python, model))
}

fn start(python: PathBuf, model: PathBuf) -> (Running, u16) {
    let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
    let child = Command::new(python)
        .args([
            "-m",
            "llama_cpp.server",
            "--host",
            "127.0.0.1",
            "--n_ctx",
            "3072",
            "--port",
            &port.to_string(),
            "--model",
        ])
        .arg(model)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server starts");
    let mut server = Running(child);
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(server.0.try_wait().expect("its state").is_none(), "the server ended at once");
        assert!(begun.elapsed() < Duration::from_secs(180), "the server does not listen");
        std::thread::sleep(Duration::from_millis(200));
    }
    (server, port)
}

#[test]
fn twenty_dialogues_with_a_real_server() {
    let Some((python, model)) = installed() else {
        eprintln!("SKIPPED: llama.cpp's server is not there; tests/fetch_server.sh installs it");
        return;
    };
    let (_server, port) = start(python, model);
    let http = HttpSettings {
        concurrency: 2,
        timeout: Duration::from_secs(900),
        ..settings(&format!("http://127.0.0.1:{port}/v1"))
    };
    let engine = HttpEngine::new(http).unwrap();
    let user = LlmUser::new(Box::new(engine), LlmSettings { max_tokens: 400, ..LlmSettings::default() });
    let profiles = ProfileSet::builtin_heldout();
    let people = profiles.iter().filter(|p| p.language() == Language::En).take(20).enumerate();
    let jobs: Vec<Job> = people
        .map(|(i, profile)| Job {
            dialogue: i as u64,
            group: i as u64,
            profile: profile.clone(),
            start: None,
            user_seed: i as u64,
            sampling_seed: i as u64,
        })
        .collect();
    assert_eq!(jobs.len(), 20);
    let policy = tiny::policy();
    let talk = RolloutSettings { max_turns: 1, ..tiny::settings(ReplyMode::Direct, 1.0) };
    let begun = Instant::now();
    let episodes = tiny::roll_out(&policy, &user, jobs, talk, 20);
    let scored = episodes.iter().filter(|e| e.reward.is_some()).count();
    let usage = user.usage().unwrap();
    println!("{scored} of 20 dialogues scored in {:?}; {usage}", begun.elapsed());
    for episode in &episodes {
        let Some(turn) = episode.turns.first() else { continue };
        match &turn.user {
            Some(heard) => {
                assert_eq!(heard.after, heard.before.after(&heard.appraisal));
                let asked: Vec<Chain> = turn.calls.iter().map(|c| c.chain).collect();
                // A reply without any text is not put to the model.
                let expected =
                    if heard.guard.is_some() { &[Chain::Reply][..] } else { &[Chain::Appraisal, Chain::Reply] };
                assert_eq!(asked, expected);
                assert!(turn.calls.iter().all(|c| c.answer.is_some() && c.prompt_tokens > 100));
            }
            None => {
                assert!(matches!(episode.end, EndReason::Unscored(_)), "{:?}", episode.end);
                assert!(turn.calls.iter().any(|c| c.failure.is_some()), "why is on record");
                println!("dialogue {}: {:?}", episode.dialogue, episode.end);
            }
        }
    }
    // The server holds the model to the form; what so small a model writes into it is not always a word.
    assert!(scored >= 10, "most can be read");
    assert_eq!(usage.failures, 0);
}
