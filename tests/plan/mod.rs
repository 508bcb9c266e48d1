//! `rlver plan` against what runs really take. Replies of random weights never end by themselves, so that dialogues are as
//! long as the plan assumes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use burn::tensor::Device;
use rlver::dialogue::ProfileSet;
use rlver::plan::{self, RunPlan};
use rlver::recipe::Recipe;
use rlver::train::load_tokenizer;
use rlver_models::qwen2::{Qwen2, Qwen2Config, Qwen2Shape};
use rlver_models::weights::{self, WeightType};
use serde_json::Value;

use crate::cli::{Said, rlver};
use crate::tiny::normal;

/// How far a plan may be from the truth.
const TOLERANCE: f64 = 0.15;

struct Case {
    name: &'static str,
    shape: Qwen2Shape,
    recipe: &'static str,
}

/// Different sizes, and a different part of memory is the largest in each.
const CASES: [Case; 3] = [
    Case {
        name: "activations",
        shape: shape(256, 4, 8, 704),
        recipe: "[run]\nalgorithm = \"ppo\"\n[rollout]\ndialogues = 8\nmax_turns = 4\n[objective]\nkl = \"loss\"\n",
    },
    Case {
        name: "micro-batches",
        shape: shape(384, 4, 6, 1056),
        recipe: "[run]\nalgorithm = \"grpo\"\n[rollout]\ndialogues = 4\nn = 2\nmax_turns = 3\n\
                 [objective]\nadvantage = \"grpo\"\nmicro_batch_tokens = 600\n",
    },
    Case {
        name: "optimizer",
        shape: shape(512, 8, 8, 1408),
        recipe: "[run]\nalgorithm = \"ppo\"\n[rollout]\ndialogues = 4\nmax_turns = 1\n[objective]\nkl = \"loss\"\n",
    },
];

const fn shape(hidden_size: usize, layers: usize, heads: usize, intermediate_size: usize) -> Qwen2Shape {
    Qwen2Shape { vocab_size: 4096, hidden_size, intermediate_size, layers, heads, kv_heads: 2, max_positions: 1024 }
}

/// Two steps: the moments are there from the second on.
const COMMON: [&str; 8] = [
    "run.steps=2",
    "user.start_emotion=90",
    "rollout.max_new_tokens=32",
    "eval.max_turns=1",
    "checkpoint.every=0",
    "checkpoint.episodes_every=0",
    "optimizer.lr=1e-6",
    "rollout.max_context=1000",
];

#[test]
#[cfg(target_os = "linux")]
fn the_peak_of_three_recipes_is_met() {
    for case in &CASES {
        let folder = tempfile::tempdir().expect("a folder");
        let recipe = prepare(case, folder.path());
        let planned = Said::of(rlver(&["plan", &recipe, "--json", "--no-calibration"]).output().expect("it starts"));
        let plan: Value = serde_json::from_str(&planned.well().out).expect("JSON");
        let planned = plan["peak_memory_bytes"].as_u64().expect("a number") as f64;
        let parts: u64 = plan["memory"].as_object().expect("parts").values().filter_map(Value::as_u64).sum();
        assert_eq!(parts as f64, planned, "the parts add up");
        let measured = peak_of_training(&recipe, &folder.path().join("run")) as f64;
        let off = planned / measured - 1.0;
        println!(
            "{}: planned {:.0} MB, measured {:.0} MB, {:+.1} %",
            case.name,
            planned / 1e6,
            measured / 1e6,
            off * 100.0
        );
        assert!(off.abs() <= TOLERANCE, "{}: planned {planned}, measured {measured}: {plan:#}", case.name);
    }
}

/// Writes a policy of random weights and the recipe file that trains it.
fn prepare(case: &Case, folder: &Path) -> String {
    let policy = folder.join("policy");
    std::fs::create_dir(&policy).expect("a new folder");
    load_tokenizer("builtin:pico").expect("it is built in").save(&policy).expect("saved");
    let model = Qwen2::init(Qwen2Config::new(case.shape), &Device::flex(), normal(3));
    weights::save(&model, &policy, WeightType::F32).expect("saved");
    let people = folder.join("people.jsonl");
    let person = serde_json::to_string(ProfileSet::builtin_heldout().get(0).as_ref()).expect("plain data");
    std::fs::write(&people, person).expect("written");
    let mut set: Vec<String> = COMMON.iter().map(ToString::to_string).collect();
    set.push(format!("model.policy={:?}", policy.display().to_string()));
    set.push(format!("eval.profiles={:?}", people.display().to_string()));
    let recipe = Recipe::parse(case.name, case.recipe, &set).expect("a valid recipe");
    let path = folder.join("recipe.toml");
    std::fs::write(&path, recipe.to_toml()).expect("written");
    path.display().to_string()
}

/// `VmHWM` of a training run, read until it ends: it only ever grows.
fn peak_of_training(recipe: &str, run: &Path) -> u64 {
    let mut command = rlver(&["train", recipe, "--out", run.to_str().expect("UTF-8")]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        if let Some(ended) = child.try_wait().expect("our child") {
            assert!(ended.success(), "{ended}");
            return peak;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:")).map(|l| l.trim().trim_end_matches(" kB"));
        peak = line.and_then(|kb| kb.parse::<u64>().ok()).map_or(peak, |kb| kb * 1024);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_that_does_not_fit_is_told_what_to_change() {
    let recipe = Recipe::parse("test", "[objective]\nkl = \"loss\"\n", &[]).expect("the defaults");
    let networks = plan::networks(&recipe).expect("pico");
    let plan = RunPlan::new(&recipe, None).expect("pico");
    let keys = |free: u64| -> Vec<&str> {
        plan::remedies(&recipe, &networks, &plan.dialogue, free).iter().map(|r| r.key).collect()
    };
    assert_eq!(keys(plan.peak_memory_bytes - 1), ["objective.micro_batch_tokens"], "the mildest first, and no more");
    let all = keys(0);
    assert!(all.contains(&"objective.kl") && all.contains(&"run.algorithm"), "{all:?}");
    assert_eq!(all.last(), Some(&"model.policy"));
}

#[test]
fn text_and_refusals() {
    let said =
        Said::of(rlver(&["plan", "recipes/train-ppo.toml", "--no-calibration"]).output().expect("it starts")).well();
    for part in ["optimizer", "peak", "tokens per step", "disk"] {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
    Said::of(rlver(&["plan", "recipes/none.toml"]).output().expect("it starts")).refused(&["none.toml"]);
}
