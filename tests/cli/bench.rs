//! `rlver bench` on networks so small that only its bookkeeping is tested.

use serde_json::Value;

use super::{Said, rlver};

fn bench(arguments: &[&str]) -> Said {
    let mut all = vec!["bench"];
    all.extend(arguments);
    Said::of(rlver(&all).output().expect("it starts"))
}

const TINY: &str = "h=32,layers=1,heads=2,kv=1,ffn=48,vocab=4096";

#[test]
fn every_stage_is_measured_in_a_process_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("bench.json");
    let stages =
        ["--stage", "prefill", "--stage", "decode-2", "--stage", "update", "--stage", "packed-700", "--stage", "step"];
    let mut arguments = vec!["--shape", TINY, "--repeats", "2", "--json", json.to_str().expect("UTF-8")];
    arguments.extend(stages);
    let said = bench(&arguments).well();
    assert!(said.out.contains("| prefill | 512 |"), "{said:?}");
    assert!(said.err.contains("update: run 2 of 2"), "progress is shown: {said:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let measured = report["stages"].as_array().expect("stages");
    let tokens: Vec<u64> = measured.iter().filter_map(|s| s["tokens"].as_u64()).collect();
    assert_eq!(tokens[..4], [512, 128, 1024, 700]);
    for stage in measured {
        let rate = &stage["tokens_per_s"];
        assert_eq!(stage["seconds"].as_array().map(Vec::len), Some(2), "{stage}");
        assert!(rate["low"].as_f64() <= rate["median"].as_f64() && rate["median"].as_f64() <= rate["high"].as_f64());
        if cfg!(target_os = "linux") {
            assert!(stage["peak_rss_bytes"].as_u64() > Some(1_000_000), "{stage}");
        }
    }
    let utilisation = measured[2]["model_flop_utilisation"]["median"].as_f64().expect("an update's FLOPs are known");
    assert!(utilisation > 0.0 && utilisation < 1.0, "{utilisation}");
    let step = &measured[4];
    let (total, parts) = (step["seconds"][1].as_f64().expect("a time"), &step["parts"]);
    let parts = [&parts["time/rollout_s"], &parts["time/update_s"]].map(|p| p.as_f64().expect("a time"));
    assert!((parts[0] + parts[1] - total).abs() < 1e-6 * total, "{step}");
    assert!(step["trainer_tokens_per_s"]["median"].as_f64() > step["tokens_per_s"]["median"].as_f64(), "{step}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    bench(&["--shape", "h=30,heads=4,kv=2"]).refused(&["h = 30", "head width", "expected small"]);
    bench(&["--stage", "decoding"]).refused(&["decoding", "decode-8"]);
    // The process that measures says why it cannot, below what was being done.
    let small = bench(&["--shape", "h=32,heads=2,kv=1,vocab=300", "--stage", "step"]);
    assert_eq!(small.code, Some(1), "{small:?}");
    for part in ["vocab = 300 has no room", "error: the process that measures step", "its message is above"] {
        assert!(small.err.contains(part), "{part}: {small:?}");
    }
    bench(&["--device", "gpu"]).refused(&["expected flex"]);
}
