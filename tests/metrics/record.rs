use rlver::metrics::{Metrics, MetricsError, MetricsLog};
use tempfile::TempDir;

fn metrics(step: u64, emotion: f64) -> Metrics {
    let mut metrics = Metrics::new(step);
    metrics.insert("emotion/mean", emotion);
    metrics
}

/// A folder with a log of these bytes.
fn folder(content: &str) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

fn steps(path: &std::path::Path) -> Vec<u64> {
    MetricsLog::read(path).unwrap().iter().map(Metrics::step).collect()
}

#[test]
fn a_record_is_one_line_with_the_step_first_and_null_for_what_json_cannot_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    let mut record = metrics(3, 41.5);
    record.insert("policy/loss", f64::NAN);
    record.insert("policy/ratio_max", f64::INFINITY);
    record.insert("policy/lr", 5e-7);
    record.insert("emotion/mean", 42.5);
    MetricsLog::create(&path).unwrap().write(&record).unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"step\":3,\"emotion/mean\":42.5,\"policy/loss\":null,\"policy/ratio_max\":null,\"policy/lr\":5e-7}\n"
    );
    let [back] = &MetricsLog::read(&path).unwrap()[..] else { panic!("one record") };
    assert_eq!((back.step(), back.get("emotion/mean"), back.get("missing")), (3, Some(42.5), None));
    assert!(back.get("policy/loss").unwrap().is_nan());
    let keys: Vec<_> = back.iter().map(|(key, _)| key.to_owned()).collect();
    assert_eq!(keys, ["emotion/mean", "policy/loss", "policy/ratio_max", "policy/lr"]);
}

#[test]
#[should_panic(expected = "set by Metrics::new")]
fn the_step_cannot_be_written_twice() {
    Metrics::new(1).insert("step", 2.0);
}

#[test]
fn a_torn_last_line_is_left_out_and_does_not_spoil_what_follows() {
    for torn in ["{\"st", "{\"step\":2,\"emotion/mean\":4", "\0\0\0", "{\"step\":2}x"] {
        let (_folder, path) = folder(&format!("{{\"step\":1}}\n{torn}"));
        assert_eq!(steps(&path), [1], "{torn:?}");
        MetricsLog::append(&path).unwrap().write(&metrics(2, 50.0)).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"step\":1}\n{\"step\":2,\"emotion/mean\":50.0}\n",
            "{torn:?}"
        );
    }
    // Cut inside a character.
    let (_folder, path) = folder("");
    std::fs::write(&path, b"{\"step\":1}\n{\"step\":2,\"\xe4\xb8").unwrap();
    assert_eq!(steps(&path), [1]);
}

#[test]
fn a_whole_last_line_that_lacks_its_end_is_kept() {
    let (_folder, path) = folder("{\"step\":1}\n{\"step\":2}");
    assert_eq!(steps(&path), [1, 2]);
    MetricsLog::append(&path).unwrap().write(&Metrics::new(3)).unwrap();
    assert_eq!(steps(&path), [1, 2, 3]);
}

#[test]
fn resuming_drops_later_steps_and_keeps_the_bytes_of_the_others() {
    // Spaces and number formats are not ours: kept lines must not be rewritten.
    let kept = "{ \"step\": 1, \"emotion/mean\": 40.50 }\n\n{\"step\":2}\n";
    let (folder, path) = folder(&format!("{kept}{{\"step\":3}}\n{{\"step\":4}}\n{{\"ste"));
    assert_eq!(MetricsLog::truncate_after(&path, 2).unwrap(), 3);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), kept.replace("\n\n", "\n"));
    assert_eq!(MetricsLog::truncate_after(&path, 2).unwrap(), 0);
    assert_eq!(MetricsLog::truncate_after(folder.path().join("none.jsonl"), 2).unwrap(), 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn a_log_continues_where_it_ended_and_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    let mut log = MetricsLog::append(&path).unwrap();
    log.write(&Metrics::new(0)).unwrap();
    // Readers see each line as soon as it is written.
    assert_eq!(steps(&path), [0]);
    log.write(&Metrics::new(1)).unwrap();
    MetricsLog::append(&path).unwrap().write(&Metrics::new(2)).unwrap();
    assert_eq!(steps(&path), [0, 1, 2]);
    let refused = MetricsLog::create(&path).unwrap_err();
    assert!(matches!(refused, MetricsError::Exists { .. }));
    assert!(refused.to_string().contains("metrics.jsonl already exists; resume"), "{refused}");
    assert_eq!(steps(&path), [0, 1, 2]);
}

#[test]
fn damage_is_reported_with_file_line_and_key() {
    for (line, problem) in [
        ("{\"step\":", "EOF"),
        ("[1]", "expected a map"),
        ("{\"emotion/mean\":1.0}", "missing field `step`"),
        ("{\"step\":-1}", "key `step` is -1"),
        ("{\"step\":1.5}", "key `step` is 1.5"),
        ("{\"step\":1,\"policy/loss\":\"low\"}", "key `policy/loss` is \"low\", expected a number or null"),
    ] {
        let (_folder, path) = folder(&format!("{{\"step\":0}}\n{line}\n{{\"step\":2}}\n"));
        let before = std::fs::read(&path).unwrap();
        let message = MetricsLog::read(&path).unwrap_err().to_string();
        assert!(message.contains("metrics.jsonl, line 2: ") && message.contains(problem), "{message}");
        assert!(MetricsLog::truncate_after(&path, 0).is_err());
        assert!(MetricsLog::append(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), before, "a damaged log is left alone");
    }
    let message = MetricsLog::create("/no/such/folder/metrics.jsonl").unwrap_err().to_string();
    assert!(message.starts_with("cannot create /no/such/folder/metrics.jsonl: "), "{message}");
}
