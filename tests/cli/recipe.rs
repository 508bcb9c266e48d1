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
fn objectives_that_cannot_work_are_refused_and_the_others_are_not() {
    let home = Home::new();
    let load = |algorithm: &str, set: &str| {
        let set: Vec<String> = set.split_whitespace().map(String::from).collect();
        Recipe::parse("tiny.toml", &home.recipe_text(algorithm), &set).map_err(|e| e.to_string())
    };
    for (algorithm, set) in [
        ("grpo", "advantage=turn-rloo rollout.n=1"),
        ("grpo", "advantage=turn-rloo turn_baseline=group kl=reward turn_gamma=0.5"),
        ("grpo", "advantage=distance-potential"),
        ("grpo", "advantage=distance-potential rollout.n=1 immediate=0"),
        ("grpo", "advantage=remax rollout.n=1"),
        ("grpo", "turn_credit=turn-centred turn_alpha=2 std_floor=0.1"),
        ("grpo", "policy_loss=gspo clip_low=3e-4 clip_high=4e-4 rollout_is=sequence"),
        ("grpo", "policy_loss=cispo cispo_bounds=trl kl=loss kl_estimator=k3+ kl_control=adaptive"),
        ("grpo", "dynamic_sampling=true max_rounds=5 overlong_buffer=4 overlong_mask=true"),
        ("ppo", "advantage=gae-rlver critic_warmup=2 old_logprobs=rollout"),
        ("ppo", "curriculum.controller=dual-loop environment=challenging"),
    ] {
        load(algorithm, set).unwrap_or_else(|e| panic!("{set}: {e}"));
    }
    for (algorithm, set, named) in [
        ("ppo", "advantage=turn-rloo", "objective.advantage"),
        ("grpo", "advantage=gae-rlver", "objective.advantage"),
        ("grpo", "rollout.n=1", "rollout.n"),
        ("grpo", "advantage=turn-rloo turn_baseline=group rollout.n=1", "rollout.n"),
        ("grpo", "advantage=distance-potential rollout.n=1", "rollout.n"),
        ("grpo", "advantage=rloo dynamic_sampling=true rollout.n=1", "rollout.n"),
        ("grpo", "advantage=remax reward=emotion-potential", "objective.reward"),
        ("grpo", "advantage=turn-rloo turn_credit=turn-centred", "objective.turn_credit"),
        ("grpo", "advantage=rloo std_floor=0.1", "objective.std_floor"),
        ("grpo", "critic_warmup=1", "objective.critic_warmup"),
        ("grpo", "turn_gamma=1.5", "objective.turn_gamma"),
        ("ppo", "advantage=gae-rlver turn_gamma=0.5", "objective.turn_gamma"),
        ("ppo", "rollout_is=token old_logprobs=rollout", "objective.rollout_is"),
        ("ppo", "rollout_is=token rollout_is_threshold=0.5", "objective.rollout_is_threshold"),
        ("ppo", "kl_control=adaptive", "objective.kl_control"),
        ("ppo", "kl=reward gamma=0.9 mode=think", "objective.gamma"),
        ("ppo", "dual_clip=0.5", "objective.dual_clip"),
        ("ppo", "dual_clip=nan", "objective.dual_clip"),
        ("ppo", "mini_batch=1000", "objective.mini_batch"),
        ("grpo", "policy_loss=cispo clip_high=0", "objective.clip_high"),
        ("grpo", "dynamic_sampling=true max_rounds=0", "objective.max_rounds"),
        ("grpo", "overlong_buffer=1000", "objective.overlong_buffer"),
        ("ppo", "curriculum.rehearsal=1.5", "curriculum.rehearsal"),
        ("ppo", "curriculum.pass_emotion=101", "curriculum.pass_emotion"),
    ] {
        let error = load(algorithm, set).expect_err(set);
        assert!(error.contains(named), "{set}: {error}");
    }
}
