//! The hub, played by a server of our own on this machine.
//!
//! Environment variables are process-wide, so each case runs in a process of its own: this test binary, asked for the
//! one ignored test that resolves a model and prints the outcome.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rlver_models::hub::{describe, resolve};

use super::hub_server::{Answer, COMMIT, answer};

struct Hub {
    endpoint: String,
    requests: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    fn start(answers: &[(&str, Answer)], otherwise: u16) -> Self {
        let answers: HashMap<String, Answer> = answers.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hub = Self { endpoint, requests: requests.clone(), seen: seen.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                requests.fetch_add(1, Ordering::SeqCst);
                let _ = answer(stream, &answers, otherwise, &seen);
            }
        });
        hub
    }

    /// Resolves `model` in a fresh process; `Ok` holds the folder, `Err` the message.
    fn resolve(&self, home: &Path, model: &str, more: &[(&str, &str)]) -> Result<String, String> {
        ask(&self.endpoint, home, model, more)
    }
}

fn ask(endpoint: &str, home: &Path, model: &str, more: &[(&str, &str)]) -> Result<String, String> {
    let out = Command::new(std::env::current_exe().expect("this binary"))
        .args(["resolve_as_told", "--ignored", "--nocapture", "--test-threads=1"])
        .env_remove("HF_TOKEN")
        .env_remove("HF_HUB_CACHE")
        .env("NO_PROXY", "127.0.0.1")
        .env("HF_ENDPOINT", endpoint)
        .env("HF_HOME", home)
        .env("RLVER_TEST_MODEL", model)
        .envs(more.iter().copied())
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = |tag: &str| text.split_once(tag).and_then(|(_, rest)| rest.lines().next()).map(str::to_owned);
    match (line("RESOLVED "), line("REFUSED ")) {
        (Some(folder), _) => Ok(folder),
        (_, Some(message)) => Err(message),
        _ => panic!("neither: {text}\n{}", String::from_utf8_lossy(&out.stderr)),
    }
}

/// Not a test of its own: the other tests run it in a process with their environment.
#[test]
#[ignore = "run by the other tests of this module"]
fn resolve_as_told() {
    let Ok(model) = std::env::var("RLVER_TEST_MODEL") else { return };
    let revision = std::env::var("RLVER_TEST_REVISION").ok();
    let find = if std::env::var_os("RLVER_TEST_DESCRIBE").is_some() { describe } else { resolve };
    match find(&model, revision.as_deref()) {
        Ok(folder) => println!("\nRESOLVED {}", folder.display()),
        Err(e) => println!("\nREFUSED {e}"),
    }
}

fn file(text: &str) -> Answer {
    Answer::File(text.as_bytes().to_vec())
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn a_folder_needs_no_network_and_nonsense_is_no_model() {
    let dir = home();
    let path = dir.path().to_str().expect("UTF-8");
    assert_eq!(resolve(path, None).expect("a folder"), dir.path());
    for name in ["", "no-such-folder", "./org/name", "../name", "/abs/name", "org/name/more", "org/..", "a b/c", "org/"]
    {
        let said = resolve(name, None).expect_err("is refused").to_string();
        assert!(said.contains("neither a folder nor"), "{said}");
    }
}

#[test]
fn a_single_file_model_is_fetched_once() {
    let hub = Hub::start(
        &[("config.json", file("{}")), ("tokenizer.json", file("{\"t\":1}")), ("model.safetensors", file("weights"))],
        404,
    );
    let dir = home();
    let folder = hub.resolve(dir.path(), "org/name", &[]).expect("resolves");
    assert!(folder.contains(COMMIT) && Path::new(&folder).starts_with(dir.path()), "{folder}");
    assert_eq!(fs::read_to_string(Path::new(&folder).join("model.safetensors")).expect("there"), "weights");
    assert_eq!(fs::read_to_string(Path::new(&folder).join("tokenizer.json")).expect("there"), "{\"t\":1}");
    let asked = hub.requests.load(Ordering::SeqCst);
    assert_eq!(hub.resolve(dir.path(), "org/name", &[]).expect("cached"), folder);
    assert_eq!(hub.requests.load(Ordering::SeqCst), asked, "a complete snapshot asks nobody");
    assert_eq!(ask("http://127.0.0.1:9", dir.path(), "org/name", &[]).expect("cached"), folder);
    // The same commit asked for by name, as another program would have left it: without a ref.
    let by_name = [("RLVER_TEST_REVISION", COMMIT)];
    assert_eq!(ask("http://127.0.0.1:9", dir.path(), "org/name", &by_name).expect("cached"), folder);
}

/// A plan needs no weights: they may be gigabytes.
#[test]
fn a_description_leaves_the_weights_where_they_are() {
    let hub = Hub::start(
        &[("config.json", file("{}")), ("tokenizer.json", file("{\"t\":1}")), ("model.safetensors", file("weights"))],
        404,
    );
    let dir = home();
    let described = [("RLVER_TEST_DESCRIBE", "1")];
    let folder = hub.resolve(dir.path(), "org/name", &described).expect("is described");
    assert!(Path::new(&folder).join("config.json").exists() && !Path::new(&folder).join("model.safetensors").exists());
    assert!(!hub.seen.lock().expect("no panic").iter().any(|request| request.contains("model.safetensors")));
    assert_eq!(ask("http://127.0.0.1:9", dir.path(), "org/name", &described).expect("cached"), folder);
    // Whoever needs the weights fetches the rest.
    assert_eq!(hub.resolve(dir.path(), "org/name", &[]).expect("resolves"), folder);
    assert!(Path::new(&folder).join("model.safetensors").exists());
    let said = ask("http://127.0.0.1:9", home().path(), "org/name", &described).expect_err("nobody listens");
    assert!(said.contains("check the network"), "{said}");
}

#[test]
fn shards_follow_the_index_and_the_revision_is_asked_for() {
    let index =
        r#"{"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors", "c": "model-1.safetensors"}}"#;
    let hub = Hub::start(
        &[
            ("config.json", file("{}")),
            ("model.safetensors.index.json", file(index)),
            ("model-1.safetensors", file("one")),
            ("model-2.safetensors", file("two")),
        ],
        404,
    );
    let dir = home();
    let folder = hub.resolve(dir.path(), "org/name", &[("RLVER_TEST_REVISION", "v1.0")]).expect("resolves");
    for (name, text) in [("model-1.safetensors", "one"), ("model-2.safetensors", "two")] {
        assert_eq!(fs::read_to_string(Path::new(&folder).join(name)).expect("there"), text);
    }
    let seen = hub.seen.lock().expect("no panic while held").clone();
    assert!(seen.iter().all(|path| path.starts_with("/org/name/resolve/v1.0/")), "{seen:?}");

    for bad in [r#"{"weight_map": {"a": "../../evil.safetensors"}}"#, "{}", "nonsense", r#"{"weight_map": {}}"#] {
        let hub = Hub::start(&[("config.json", file("{}")), ("model.safetensors.index.json", file(bad))], 404);
        let said = hub.resolve(home().path(), "org/name", &[]).expect_err("is refused");
        assert!(said.contains("model.safetensors.index.json") && said.contains("unusable"), "{said}");
    }
}

#[test]
fn what_the_hub_does_not_have_is_not_found() {
    let hub = Hub::start(&[], 404);
    let said = hub.resolve(home().path(), "org/name", &[]).expect_err("is refused");
    assert!(said.contains("neither a folder here nor found on") && said.contains(&hub.endpoint), "{said}");
    let hub = Hub::start(&[("config.json", file("{}"))], 404);
    let said = hub.resolve(home().path(), "org/name", &[]).expect_err("is refused");
    assert!(said.contains("model.safetensors or model.safetensors.index.json"), "{said}");
}

#[test]
fn gated_models_ask_for_a_token_and_take_it_from_the_environment() {
    let hub = Hub::start(&[("model.safetensors", file("w")), ("config.json", Answer::Status(401))], 404);
    let dir = home();
    let said = hub.resolve(dir.path(), "org/name", &[]).expect_err("is refused");
    assert!(said.contains("HTTP 401") && said.contains("set HF_TOKEN"), "{said}");
    let said = hub.resolve(dir.path(), "org/name", &[("HF_TOKEN", "wrong")]).expect_err("is refused");
    assert!(said.contains("was not accepted"), "{said}");
    hub.resolve(dir.path(), "org/name", &[("HF_TOKEN", "secret")]).expect("the token opens it");
    let dir = home();
    fs::write(dir.path().join("token"), "secret\n").expect("writes");
    hub.resolve(dir.path(), "org/name", &[]).expect("so does the token of a login");
    let hub = Hub::start(&[], 403);
    assert!(hub.resolve(home().path(), "org/name", &[("HF_TOKEN", "x")]).expect_err("refused").contains("HTTP 403"));
}

#[test]
fn no_network_says_so() {
    let said = ask("http://127.0.0.1:9", home().path(), "org/name", &[]).expect_err("nobody listens");
    assert!(said.contains("is not a folder here") && said.contains("check the network"), "{said}");
    let said = ask("not a url", home().path(), "org/name", &[]).expect_err("no such place");
    assert!(said.contains("HF_ENDPOINT"), "{said}");
    let said = Hub::start(&[], 500).resolve(home().path(), "org/name", &[]).expect_err("the server is ill");
    assert!(said.contains("500"), "{said}");
}

#[test]
fn a_broken_off_download_is_no_model_and_goes_on_next_time() {
    let weights = "w".repeat(4000);
    let config = ("config.json", file("{}"));
    for broken in [Answer::CutOff(weights.clone().into_bytes()), Answer::Short(weights.clone().into_bytes())] {
        let dir = home();
        let hub = Hub::start(&[config.clone(), ("model.safetensors", broken)], 404);
        let said = hub.resolve(dir.path(), "org/name", &[]).expect_err("is refused");
        assert!(said.contains("model.safetensors") && said.contains("run again"), "{said}");
        let hub = Hub::start(&[config.clone(), ("model.safetensors", file(&weights))], 404);
        let folder = hub.resolve(dir.path(), "org/name", &[]).expect("a second run mends it");
        assert_eq!(fs::read_to_string(Path::new(&folder).join("model.safetensors")).expect("there"), weights);
    }
}
