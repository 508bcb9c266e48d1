//! The bundled policy is what `recipes/sft-pico.toml` makes.

use std::path::Path;

use rlver::metrics::MetricsLog;
use rlver::recipe::Recipe;
use rlver::train::{self, Event, Outcome, RunOptions, StopFlag};

/// Steps of the warm start that are run again here; the whole takes minutes.
const STEPS: u64 = 6;

#[test]
fn the_warm_start_begins_as_recorded_and_makes_the_same_tokenizer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recipe = Recipe::load(&root.join("recipes/sft-pico.toml"), &[]).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    let stop = StopFlag::default();
    let options = RunOptions { recipe: &recipe, folder: &folder, resume: false, stop: &stop };
    let outcome = train::run(&options, &mut |event| {
        if let Event::Step(metrics, _) = event
            && metrics.step() >= STEPS
        {
            stop.raise();
        }
    })
    .unwrap();
    assert!(matches!(outcome, Outcome::Interrupted { step } if step as u64 == STEPS));

    // The whole run's record lies beside the fixtures; elsewhere than on the machine that made it, sums round differently.
    let recorded = MetricsLog::read(root.join("tests/fixtures/sft-pico-metrics.jsonl")).unwrap();
    let ours = MetricsLog::read(folder.join("metrics.jsonl")).unwrap();
    for (a, b) in ours.iter().zip(&recorded) {
        let (a, b) = (a.get("sft/loss").unwrap(), b.get("sft/loss").unwrap());
        assert!((a / b - 1.0).abs() < 1e-3, "loss {a} instead of {b}");
    }
    let made = folder.join(format!("checkpoints/step-{STEPS:06}/policy/tokenizer.json"));
    assert_eq!(std::fs::read(made).unwrap(), std::fs::read(root.join("assets/pico/tokenizer.json")).unwrap());
}

#[test]
fn the_recorded_warm_start_learned_and_the_assets_are_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recorded = MetricsLog::read(root.join("tests/fixtures/sft-pico-metrics.jsonl")).unwrap();
    let heldout: Vec<f64> = recorded.iter().filter_map(|m| m.get("sft/heldout_loss")).collect();
    let recipe = Recipe::load(&root.join("recipes/sft-pico.toml"), &[]).unwrap();
    assert_eq!(recorded.last().unwrap().step() as usize, recipe.run.steps, "the record is of this recipe");
    assert!(heldout.last().unwrap() < &1.5, "held-out loss {heldout:?}");
    let bytes: u64 =
        std::fs::read_dir(root.join("assets/pico")).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 12_000_000, "assets/pico has {bytes} bytes");
}
