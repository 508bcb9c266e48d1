//! Training on another device than the CPU, on whatever WebGPU finds (software Vulkan will do). Needs `--features wgpu`.

use std::path::Path;

use rlver::audit::{AuditOptions, audit};

use crate::cli::say;
use crate::tiny::{self, Home};

/// `train-ppo`, shrunk: what the policy sampled on the GPU, its log-probabilities, values and advantages are derived
/// again on the CPU from the weights of the step before, to 1e-3. So the update of step 1, made on the GPU, is part
/// of what is compared. A second run on the GPU gives the same bytes.
#[test]
fn the_default_recipe_takes_the_same_steps_on_wgpu_and_on_the_cpu() {
    let home = Home::new();
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/train-ppo.toml");
    let path = |p: &Path| p.to_str().unwrap().to_owned();
    // One held-out person: evaluations are slow on software Vulkan.
    let people = home.path("one.jsonl");
    let all = std::fs::read_to_string(home.path("heldout.jsonl")).unwrap();
    std::fs::write(&people, all.lines().next().unwrap()).unwrap();
    let profiles = format!("eval.profiles={}", path(&people));
    let mut settings = Vec::new();
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
        settings.extend(["--set", set]);
    }
    let train = |name: &str| {
        let run = home.path(name);
        let (recipe, out) = (path(&recipe), path(&run));
        let mut arguments = vec!["train", &recipe, "--out", &out, "--device", "wgpu"];
        arguments.extend(&settings);
        say(&arguments).well();
        run
    };
    let run = train("run");
    let options = AuditOptions { device: "flex".into(), ..AuditOptions::default() };
    let reports = audit(&run, options, &mut |_| {}, &mut |note| println!("{note}")).unwrap();
    let steps: Vec<_> = reports.iter().filter(|r| r.file.starts_with("step-")).collect();
    assert_eq!(steps.len(), 3, "{reports:#?}");
    for step in steps {
        println!("{step:?}");
        assert!(step.logprobs > 100 && step.values > 100 && step.advantages > 100, "{step:?}");
    }
    let again = train("again");
    assert_eq!(tiny::metrics(&run), tiny::metrics(&again));
    let policy = |run: &Path| std::fs::read(run.join("policy/model.safetensors")).unwrap();
    assert!(policy(&run) == policy(&again), "the same weights");
}
