//! Broken input from outside: the message names it and says what to do, nothing panics, nothing made is lost.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use rlver::dialogue::ProfileSet;

use super::{Said, say, text, train};
use crate::tiny::{self, Home};

fn line(index: usize) -> String {
    serde_json::to_string(ProfileSet::builtin_train().get(index).as_ref()).unwrap()
}

#[test]
fn broken_profiles_name_file_line_and_key() {
    let home = Home::new();
    let file = home.path("people.jsonl");
    let key = format!("user.profiles={}", file.display());
    let try_with = |text: &str| {
        std::fs::write(&file, text).unwrap();
        train(&home, "run", &[&key])
    };
    try_with(&format!("{}\n{}", line(0), &line(1)[..20])).refused(&["people.jsonl", "line 2", "JSON"]);
    try_with(&format!("{}\n{}", line(0), line(1).replace("\"scene\"", "\"scenery\""))).refused(&[
        "people.jsonl",
        "line 2",
        "`scene`",
    ]);
    try_with(&format!("{}\n\n{}", line(0), line(0))).refused(&["people.jsonl", "line 3", "`id`", "twice"]);
    try_with("").refused(&["people.jsonl", "no profile", "main_cha"]);
    try_with(" \n\n").refused(&["people.jsonl", "no profile"]);
    try_with(&[line(0), line(1)].join("\n")).refused(&["rollout.dialogues = 4", "2 profiles", "people.jsonl"]);
    std::fs::write(&file, [0xff, 0xfe, b'{']).unwrap();
    train(&home, "run", &[&key]).refused(&["people.jsonl", "UTF-8"]);
    train(&home, "run", &["user.profiles=/no/such/file"]).refused(&["/no/such/file"]);
    train(&home, "run", &["eval.profiles=/no/such/file"]).refused(&["/no/such/file"]);
    // English people only, and none is left for a run in Chinese.
    let english: Vec<String> = (0..144).map(line).filter(|l| l.contains("\"en\"")).take(6).collect();
    std::fs::write(&file, english.join("\n")).unwrap();
    train(&home, "run", &[&key, "user.languages=[\"zh\"]"]).refused(&["people.jsonl", "filtering"]);
    assert!(!home.path("run").exists(), "nothing is made for a run that cannot start");
    let model = home.path("policy");
    say(&["eval", "--model", text(&model), "--profiles", "/no/such/file"]).refused(&["/no/such/file"]);
}

/// Trains, chats and scores with a model folder after `damage`; all must refuse with `parts`.
fn damaged(damage: impl Fn(&Path), parts: &[&str], score_too: bool) {
    let home = Home::new();
    let model = home.path("policy");
    damage(&model);
    train(&home, "run", &[]).refused(parts);
    assert!(!home.path("run").exists());
    say(&["chat", "--model", text(&model)]).refused(parts);
    if score_too {
        say(&["score", "--model", text(&model), "--tokens", "-"]).refused(parts);
    }
}

fn edit(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_weights_are_refused() {
    let weights = |folder: &Path| folder.join("model.safetensors");
    for keep in [0, 7, 100, 5000, 1_000_000] {
        let cut = |folder: &Path| edit(&weights(folder), |bytes| bytes.truncate(keep.min(bytes.len() - 1)));
        damaged(cut, &["model.safetensors", "truncated", "again"], true);
    }
    damaged(|f| edit(&weights(f), |b| b[3] = 0xff), &["model.safetensors", "damaged"], true);
    damaged(|f| edit(&weights(f), |b| b[12] = b'}'), &["model.safetensors", "damaged"], true);
    damaged(|f| std::fs::remove_file(weights(f)).unwrap(), &["model.safetensors"], true);
    let nan = |folder: &Path| {
        edit(&weights(folder), |bytes| {
            let end = bytes.len();
            bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        });
    };
    damaged(nan, &["model.safetensors", "tensor `", "NaN"], true);
}

#[test]
fn damaged_configurations_are_refused() {
    let config = |change: fn(&mut serde_json::Value)| {
        move |folder: &Path| {
            edit(&folder.join("config.json"), |bytes| {
                let mut value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                change(&mut value);
                *bytes = value.to_string().into_bytes();
            });
        }
    };
    damaged(config(|c| c["hidden_size"] = 48.into()), &["embed_tokens", "shape"], true);
    damaged(config(|c| c["num_hidden_layers"] = 3.into()), &["model.layers.2", "missing"], true);
    damaged(config(|c| c["num_hidden_layers"] = 1.into()), &["model.layers.1", "does not belong"], true);
    damaged(config(|c| c["num_attention_heads"] = 0.into()), &["config.json", "num_attention_heads"], true);
    damaged(config(|c| c["model_type"] = "llama".into()), &["config.json", "model_type", "qwen2"], true);
    damaged(config(|c| c["use_sliding_window"] = true.into()), &["config.json", "use_sliding_window"], true);
    damaged(config(|c| c["vocab_size"] = serde_json::json!(1e18)), &["config.json", "vocab_size"], true);
    damaged(|f| edit(&f.join("config.json"), |b| b.truncate(20)), &["config.json"], true);
    damaged(|f| std::fs::remove_file(f.join("config.json")).unwrap(), &["config.json"], true);
}

#[test]
fn a_tokenizer_that_is_not_the_models_is_refused() {
    let tokenizer = |f: &Path| f.join("tokenizer.json");
    damaged(|f| edit(&tokenizer(f), |b| b.truncate(b.len() / 2)), &["tokenizer.json"], false);
    damaged(|f| std::fs::remove_file(tokenizer(f)).unwrap(), &["tokenizer.json", "missing"], false);
    damaged(|f| std::fs::write(f.join("tokenizer_config.json"), "{}").unwrap(), &["chat template"], false);
    // More ids than the model has rows.
    let foreign = |folder: &Path| {
        let word = |i: u32| (0..4).map(|k| char::from(b'a' + (i / 7u32.pow(k) % 7) as u8)).collect::<String>();
        let letters: Vec<String> = (0..2401).map(|i| format!("{0} {0} {0}", word(i))).collect();
        let json = rlver_models::tokenizer::train_bpe(
            letters.iter().map(String::as_str),
            900,
            &["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        );
        std::fs::write(tokenizer(folder), json.unwrap()).unwrap();
    };
    damaged(foreign, &["tokenizer", "do not belong together"], false);
}

#[test]
fn a_damaged_checkpoint_is_named() {
    for (file, parts) in [
        ("progress.json", &["progress.json", "damaged"][..]),
        ("policy-optimizer.safetensors", &["policy-optimizer.safetensors", "damaged"]),
        ("critic/model.safetensors", &["critic", "damaged"]),
        ("policy/model.safetensors", &["policy", "damaged"]),
    ] {
        let home = Home::new();
        train(&home, "run", &["run.steps=1"]).well();
        let run = home.path("run");
        edit(&run.join("checkpoints/step-000001").join(file), |b| b.truncate(b.len() / 2));
        let before = tiny::files(&run);
        let recipe = home.path("recipe.toml");
        let arguments = ["train", text(&recipe), "--out", text(&run), "--resume", "--set", "run.steps=2"];
        say(&arguments).refused(parts);
        let kept = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
            files.into_iter().filter(|(name, _)| name != Path::new("recipe.toml")).collect()
        };
        assert!(kept(before) == kept(tiny::files(&run)), "nothing is lost");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let home = Home::new();
    std::fs::write(home.path("file"), "not a folder").unwrap();
    // A parent that is a file cannot hold folders, not even for root.
    train(&home, "file/run", &[]).refused(&["file/run", "cannot write"]);
}

/// Runs the tiny recipe under `sh -c` with `prelude` before it.
fn train_in_shell(home: &Home, out: &Path, prelude: &str, set: &[&str]) -> Said {
    let set: String = set.iter().map(|s| format!(" --set {s}")).collect();
    let script = format!(
        "{prelude} exec {:?} train {:?} --out {out:?}{set}",
        env!("CARGO_BIN_EXE_rlver"),
        home.path("recipe.toml"),
    );
    Said::of(Command::new("sh").args(["-c", &script]).output().expect("sh runs"))
}

#[test]
fn a_write_that_fails_midway_loses_nothing() {
    // Files may not grow beyond a limit, and the signal for it is ignored: writes fail as on a full disk.
    let home = Home::new();
    let run = home.path("run");
    let limit = |kilobytes: usize| format!("trap '' XFSZ; ulimit -f {};", 2 * kilobytes);
    let said = train_in_shell(&home, &run, &limit(40), &["run.steps=2", "checkpoint.every=1"]);
    said.refused(&["cannot write", "room"]);
    assert!(run.join("recipe.toml").exists() && run.join("metrics.jsonl").exists());
    assert!(tiny::files(&run).iter().all(|(name, _)| !name.starts_with("policy")), "no half model");
    assert!(!run.join("checkpoints/step-000001").exists(), "no half checkpoint");
}

#[test]
fn a_full_disk_keeps_the_last_checkpoint() {
    let home = Home::new();
    let disk = home.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "tmpfs", text(&disk)]).output();
    if !mount.is_ok_and(|m| m.status.success()) {
        let _ = std::io::stderr()
            .write_all(b"SKIPPED a_full_disk_keeps_the_last_checkpoint (a small disk cannot be mounted here)\n");
        return;
    }
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0).status();
        }
    }
    let _mounted = Mounted(&disk);
    let run = disk.join("run");
    let said = train_in_shell(&home, &run, "", &["run.steps=60", "checkpoint.every=1", "checkpoint.keep=50"]);
    said.refused(&["cannot write", "room"]);
    let checkpoints = std::fs::read_dir(run.join("checkpoints")).unwrap();
    let whole = checkpoints.filter(|c| c.as_ref().unwrap().path().extension().is_none()).count();
    assert!(whole >= 1, "{said:?}");
    // With room again the run goes on from there.
    assert!(Command::new("mount").args(["-o", "remount,size=60m", text(&disk)]).status().unwrap().success());
    let recipe = home.path("recipe.toml");
    let steps = format!("run.steps={}", whole + 1);
    let arguments = ["train", text(&recipe), "--out", text(&run), "--resume", "--set", &steps];
    say(&arguments).well();
}
