//! `rlver recipe`, and the two reference pages that are printed from the code.

use std::path::Path;

use rlver::metrics::markdown_table;
use rlver::recipe::Recipe;

use super::{say, text};
use crate::tiny::Home;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap_or_default()
}

#[test]
fn the_recipe_reference_is_what_explain_prints() {
    let explained = say(&["recipe", "explain"]).well().out;
    assert!(explained == page("recipes.md"), "run `rlver recipe explain > docs/recipes.md`");
}

#[test]
fn the_metrics_reference_holds_the_table() {
    let table = markdown_table();
    assert!(page("metrics.md").ends_with(&table), "docs/metrics.md must end with this table:\n{table}");
}

#[test]
fn the_recipes_we_ship_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let printed = say(&["recipe", "check", text(&path)]).well().out;
        let resolved = Recipe::parse("printed", &printed, &[]).unwrap();
        assert_eq!(resolved, Recipe::load(&path, &[]).unwrap(), "what is printed is the recipe");
        checked += 1;
    }
    assert!(checked >= 2);
}

#[test]
fn check_prints_every_key_with_overrides() {
    let home = Home::new();
    let recipe = home.path("recipe.toml");
    let printed = say(&["recipe", "check", text(&recipe), "--set", "clip_high=0.28", "--set", "run.seed=9"]).well().out;
    assert!(printed.contains("clip_high = 0.28") && printed.contains("seed = 9") && printed.contains("[sft]"));
}

#[test]
fn mistakes_are_named_with_a_suggestion() {
    let home = Home::new();
    let recipe = home.path("recipe.toml");
    let check = |set: &str| say(&["recipe", "check", text(&recipe), "--set", set]);
    check("objective.clip_lo=0.1").refused(&["objective.clip_lo", "did you mean `objective.clip_low`"]);
    check("entropy_coeff=0.1").refused(&["entropy_coeff", "objective.entropy_coef"]);
    check("run.steps=many").refused(&["run.steps", "many"]);
    check("rollout.temperature=0").refused(&["rollout.temperature", "between"]);
    check("objective.advantage=grpo").refused(&["objective.advantage", "run.algorithm = \"grpo\""]);
    check("objective.mini_batch=99").refused(&["objective.mini_batch", "rollout.dialogues"]);
    check("run.device=tpu").refused(&["run.device", "expected flex"]);
    check("user.start_emotion=5").refused(&["user.start_emotion", "between 10 and 99"]);
    let broken = home.path("broken.toml");
    std::fs::write(&broken, "[rollout]\nmax_turn = 3\n").unwrap();
    say(&["recipe", "check", text(&broken)]).refused(&["broken.toml", "rollout.max_turn", "rollout.max_turns"]);
    std::fs::write(&broken, "[rollout\n").unwrap();
    say(&["recipe", "check", text(&broken)]).refused(&["broken.toml", "TOML"]);
    say(&["recipe", "check", "nowhere.toml"]).refused(&["nowhere.toml"]);
    // Refused before weights load: this model does not exist.
    let set = ["--set", "model.policy=/no/such/model", "--set", "rollout.n=0"];
    let mut arguments = vec!["train", text(&recipe)];
    arguments.extend(set);
    say(&arguments).refused(&["rollout.n"]);
}

#[test]
fn credit_per_turn_needs_somebody_to_compare_with() {
    let home = Home::new();
    let text = home.recipe_text("grpo");
    let load = |set: &[&str]| {
        let set: Vec<String> = ["advantage=turn-rloo"].iter().chain(set).map(ToString::to_string).collect();
        Recipe::parse("tiny.toml", &text, &set).map_err(|e| e.to_string())
    };
    assert!(load(&["rollout.n=1"]).is_ok(), "the step's other dialogues are enough");
    assert!(load(&["turn_baseline=group", "rollout.n=2"]).is_ok());
    for (set, named) in [
        (&["turn_baseline=group", "rollout.n=1"][..], "rollout.n"),
        (&["kl=reward"], "objective.kl"),
        (&["algorithm=ppo"], "objective.advantage"),
        (&["turn_gamma=1.5"], "objective.turn_gamma"),
    ] {
        let error = load(set).unwrap_err();
        assert!(error.contains(named), "{set:?}: {error}");
    }
}
