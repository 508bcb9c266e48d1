//! Training on another device than the CPU, on whatever WebGPU finds (software Vulkan will do). Needs `--features wgpu`.

use std::path::Path;

use rlver::audit::{AuditOptions, audit};

use crate::cli::say;
use crate::tiny::Home;

/// `train-ppo`, shrunk: what the policy sampled on the GPU, its log-probabilities, values and advantages are derived
/// again on the CPU from the weights of the step before, to 1e-3. So the update of step 1, made on the GPU, is part
/// of what is compared.
#[test]
fn the_default_recipe_takes_the_same_steps_on_wgpu_and_on_the_cpu() {
    let home = Home::new();
    let run = home.path("run");
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/train-ppo.toml");
    let path = |p: &Path| p.to_str().unwrap().to_owned();
    let mut arguments =
        vec!["train".to_owned(), path(&recipe), "--out".into(), path(&run), "--device".into(), "wgpu".into()];
    // One held-out person: evaluations are slow on software Vulkan.
    let people = home.path("one.jsonl");
    let all = std::fs::read_to_string(home.path("heldout.jsonl")).unwrap();
    std::fs::write(&people, all.lines().next().unwrap()).unwrap();
    let profiles = format!("eval.profiles={}", path(&people));
    for set in [
        &profiles,
        "run.steps=3",
        "rollout.dialogues=4",
        "rollout.max_turns=3",
        "objective.mini_batch=2",
        "eval.every=0",
        "checkpoint.every=1",
        "checkpoint.keep=4",
    ] {
        arguments.extend(["--set".to_owned(), set.to_owned()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    say(&arguments).well();
    let options = AuditOptions { device: "flex".into(), ..AuditOptions::default() };
    let reports = audit(&run, options, &mut |_| {}, &mut |note| println!("{note}")).unwrap();
    let steps: Vec<_> = reports.iter().filter(|r| r.file.starts_with("step-")).collect();
    assert_eq!(steps.len(), 3, "{reports:#?}");
    for step in steps {
        println!("{step:?}");
        assert!(step.logprobs > 100 && step.values > 100 && step.advantages > 100, "{step:?}");
    }
}
