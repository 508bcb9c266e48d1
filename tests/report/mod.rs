//! The report of a run: what it holds, what it escapes, how it is served, and how it behaves in a browser.

mod run;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rlver::report::{Report, ReportError, ReportOptions, RunDigest, render, watch};
use rlver::train::Stage;
use run::{IMAGE, SCRIPT};
use serde_json::Value;

fn page(roots: &[&Path], max_dialogues: usize) -> Report {
    let runs: Vec<RunDigest> = roots.iter().map(|root| RunDigest::read(root).expect("a run")).collect();
    render(&runs, &ReportOptions { max_dialogues, live: false }).expect("a page")
}

/// The data a page carries.
fn data(html: &str) -> Value {
    let start = html.find("id=\"data\">").expect("data") + "id=\"data\">".len();
    let end = start + html[start..].find("</script>").expect("an end");
    serde_json::from_str(&html[start..end]).expect("JSON")
}

#[test]
fn markup_from_models_and_profiles_stays_data() {
    let folder = tempfile::tempdir().unwrap();
    // The folder's name is shown, too.
    let root = folder.path().join("<b>run");
    run::write(&root, 4, 6);
    let report = page(&[&root], 400);
    let rest = report.html.replace("&lt;b&gt;run", "");
    assert!(!rest.contains("<b>run"), "the folder's name is escaped");
    assert!(!report.html.contains(SCRIPT) && !report.html.contains(IMAGE), "no text of a run is markup");
    // Data, plotly.js, the page's own: three elements, each ended once.
    assert_eq!(report.html.matches("<script").count() - report.html.matches("\"<script").count(), 3);
    assert_eq!(report.html.matches("\u{2028}").count(), 0, "it would end a line of script");
    let data = data(&report.html);
    let hostile = data["dialogues"].as_array().unwrap().iter().find(|d| d["profile"] == IMAGE).expect("it is there");
    assert!(hostile["turns"][0]["re"].as_str().unwrap().contains(SCRIPT), "and reads as it was written");
    let (ours, plotly) = report.html.split_once("id=\"plotly\">").unwrap();
    let ours = format!("{ours}{}", plotly.split_once("</script>").unwrap().1);
    assert!(!ours.contains("src=\"http") && !ours.contains("href=\"http"), "nothing is loaded");
}

#[test]
fn a_large_run_is_sampled_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let root = run::write(&folder.path().join("run"), 40, 16);
    let report = page(&[&root], 100);
    assert_eq!((report.shown, report.total), (100, 40 * 16 + 32));
    let data = data(&report.html);
    let note = data["notes"][0].as_str().unwrap();
    assert!(note.starts_with("100 of 672 dialogues"), "{note}");
    let shown: Vec<&Value> = data["dialogues"].as_array().unwrap().iter().collect();
    let ids: Vec<&str> = shown.iter().map(|d| d["id"].as_str().unwrap()).collect();
    for list in ["best", "worst"] {
        let wanted = data[list].as_array().unwrap();
        assert_eq!(wanted.len(), 6, "{list}");
        assert!(wanted.iter().all(|id| ids.contains(&id.as_str().unwrap())), "{list} are in the page");
    }
    let counted = |id: &Value| shown.iter().find(|d| d["id"] == *id).unwrap()["counted"].as_i64().unwrap();
    for pair in data["improved"].as_array().unwrap() {
        assert!(counted(&pair[1]) > counted(&pair[0]), "the late dialogue ended better: {pair}");
    }
    assert!(!data["improved"].as_array().unwrap().is_empty());
    let steps: std::collections::BTreeSet<&str> = shown.iter().map(|d| d["stage"].as_str().unwrap()).collect();
    assert_eq!(steps.len(), 42, "every step has a dialogue in it");
    let everything = page(&[&root], 10_000);
    assert_eq!(everything.shown, everything.total);
    assert_eq!(self::data(&everything.html)["notes"], Value::Array(vec![]));
}

#[test]
fn charts_count_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let root = run::write(&folder.path().join("one"), 3, 4);
    let other = run::write(&folder.path().join("two"), 3, 4);
    let runs = [RunDigest::read(&root).unwrap()];
    let digest = runs[0].stage(Stage::Step(2)).unwrap();
    assert_eq!(digest.dialogues.len(), 4);
    assert_eq!(digest.behaviour.strategies.replies(), digest.dialogues.iter().map(|d| d.turns).sum::<usize>());
    let after = runs[0].stage(Stage::After).unwrap();
    let mean = after.dialogues.iter().map(|d| f64::from(d.counted.unwrap())).sum::<f64>() / 16.0;
    let report = page(&[&root, &other], 400);
    let data = data(&report.html);
    let figure = &data["runs"][0]["figures"][0];
    assert_eq!(figure["value"], format!("{mean:.1}"), "{figure}");
    let sections: Vec<&str> = data["sections"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap()).collect();
    assert_eq!(sections, ["intentions", "curves", "trajectories", "behaviour", "capabilities"]);
    let curves = &data["sections"][1]["charts"];
    let emotion = curves.as_array().unwrap().iter().find(|c| c["title"] == "Final emotion").unwrap();
    let names: Vec<&str> = emotion["data"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    assert!(names.contains(&"one") && names.contains(&"two"), "runs are laid over each other: {names:?}");
    let capabilities = data["sections"][4]["note"].as_str().unwrap();
    assert!(capabilities.contains("heuristic estimate"), "an estimate is called one: {capabilities}");
}

#[test]
fn what_is_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = RunDigest::read(folder.path()).err().unwrap();
    assert!(matches!(error, ReportError::NotARun(_)) && error.to_string().contains("rlver train"), "{error}");
    let root = run::write(&folder.path().join("run"), 2, 2);
    let file = root.join("episodes/step-000002.jsonl");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("{\"dialogue\": 1}\n");
    std::fs::write(&file, text).unwrap();
    let error = RunDigest::read(&root).err().unwrap().to_string();
    assert!(error.contains("step-000002.jsonl, line 3"), "{error}");
}

#[test]
fn a_run_without_episodes_still_has_its_curves() {
    let folder = tempfile::tempdir().unwrap();
    let root = run::write(&folder.path().join("run"), 3, 2);
    std::fs::remove_dir_all(root.join("episodes")).unwrap();
    let data = data(&page(&[&root], 400).html);
    assert_eq!(data["dialogues"], Value::Array(vec![]));
    assert_eq!(data["sections"].as_array().unwrap().len(), 1);
}

fn get(address: &str, path: &str, host: &str, method: &str) -> (u16, String) {
    let authority = address.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = std::net::TcpStream::connect(authority).expect("it listens");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default())
}

#[test]
fn a_watched_run_is_served_on_this_machine_and_stays_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let root = run::write(&folder.path().join("run"), 2, 2);
    let on = AtomicBool::new(true);
    let (said, heard) = std::sync::mpsc::channel::<String>();
    std::thread::scope(|scope| {
        let roots = [root.clone()];
        let server = scope.spawn(|| {
            let roots = roots;
            let said = said;
            watch(&roots, ReportOptions::default(), 0, &|_| None, &mut |a| said.send(a.into()).unwrap(), &|| {
                on.load(Ordering::Relaxed)
            })
        });
        let address = heard.recv().expect("it starts");
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        let host = address.trim_start_matches("http://").trim_end_matches('/').to_string();
        let (status, html) = get(&address, "/", &host, "GET");
        assert!(status == 200 && html.contains("connect-src 'self'"), "{status}");
        let stamp = get(&address, "/stamp", &host, "GET").1;
        assert_eq!(get(&address, "/stamp", &host, "GET").1, stamp, "nothing happened");
        run::write_episodes(&root, "step-000003", &[run::episode(1, 40, &[10; 6])]);
        assert_ne!(get(&address, "/stamp", &host, "GET").1, stamp, "a step happened");
        let (status, body) = get(&address, "/data.json", &host, "GET");
        assert_eq!(status, 200);
        assert!(body.contains("\"step 3\""), "the new step is there");
        assert_eq!(get(&address, "/", "evil.example", "GET").0, 403, "no other name leads here");
        assert_eq!(get(&address, "/", &host, "POST").0, 405);
        assert_eq!(get(&address, "/../Cargo.toml", &host, "GET").0, 404);
        std::fs::write(root.join("episodes/step-000004.jsonl"), "torn").unwrap();
        let (status, body) = get(&address, "/data.json", &host, "GET");
        assert!(status == 500 && body.contains("step-000004.jsonl, line 1"), "{body}");
        on.store(false, Ordering::Relaxed);
        server.join().expect("no panic").expect("it ends well");
    });
}

/// A program of the system, by the names it goes by.
fn program(variable: &str, names: &[&str]) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    names.iter().flat_map(|name| folders.iter().map(move |f| f.join(name))).find(|path| path.is_file())
}

#[test]
fn the_page_works_in_a_browser() {
    let python = program("RLVER_BROWSER_PYTHON", &["python3"]);
    let chromium = program("RLVER_CHROMIUM", &["chromium", "chromium-browser", "google-chrome"]);
    let ready = python.as_ref().is_some_and(|python| {
        Command::new(python).args(["-c", "import playwright"]).output().is_ok_and(|o| o.status.success())
    });
    let (Some(python), Some(chromium), true) = (python, chromium, ready) else {
        eprintln!(
            "SKIPPED: browser test: it needs Chromium and Python with playwright (RLVER_CHROMIUM, RLVER_BROWSER_PYTHON)"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let root = run::write(&folder.path().join("a-run"), 200, 32);
    let mut runs = [RunDigest::read(&root).unwrap()];
    runs[0].tokens = Some(Box::new(|ids| ids.iter().map(|id| format!("w{id} ")).collect()));
    let begun = std::time::Instant::now();
    let report = render(&runs, &ReportOptions::default()).unwrap();
    assert!(report.shown < report.total);
    println!("{} of {} dialogues, {} bytes, {:?}", report.shown, report.total, report.html.len(), begun.elapsed());
    let file = folder.path().join("report.html");
    std::fs::write(&file, report.html).unwrap();
    let shots = std::env::var_os("RLVER_SCREENSHOTS").map_or_else(|| folder.path().join("shots"), PathBuf::from);
    let said = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/browser.py"))
        .args([&file, &shots])
        .arg("2.0")
        .arg(chromium)
        .output()
        .expect("python runs");
    let out = String::from_utf8_lossy(&said.stdout);
    println!("{out}");
    assert!(said.status.success(), "{out}\n{}", String::from_utf8_lossy(&said.stderr));
}
