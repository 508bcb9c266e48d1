//! Rules about a step's batch: what is sampled again, what is left out, and that a step without anything to learn from
//! changes nothing and says so.

use std::path::Path;

use rlver::recipe::Recipe;
use rlver::rollout::EndReason;
use rlver::train::{Event, RunOptions, StopFlag, run_with_users};
use rlver::user::UserEngine;

use crate::tiny::{self, Fickle, Home};

/// Carries out a recipe and returns what it told.
fn notes(recipe: &Recipe, folder: &Path, users: impl UserEngine + 'static) -> Vec<String> {
    let stop = StopFlag::default();
    let options = RunOptions { recipe, folder, resume: false, stop: &stop };
    let mut notes = Vec::new();
    run_with_users(&options, Box::new(users), &mut |event| {
        if let Event::Note(text) = event {
            notes.push(text);
        }
    })
    .unwrap();
    notes
}

fn weights(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("model.safetensors")).unwrap()
}

fn get(metrics: &[(String, f64)], key: &str) -> Option<f64> {
    metrics.iter().find(|(k, _)| k == key).map(|(_, v)| *v)
}

/// Runs that cannot learn anything: what they say, and that the policy is what it was, to the byte.
fn learns_nothing(home: &Home, name: &str, recipe: &Recipe, users: impl UserEngine + 'static, says: &str) {
    let run = home.path(name);
    let told = notes(recipe, &run, users);
    let about: Vec<&String> = told.iter().filter(|note| note.starts_with("step ")).collect();
    assert!(about.iter().any(|note| note.contains(says)), "{name}: {told:?}");
    assert!(about.iter().any(|note| note.contains("nothing was updated")), "{name}: {told:?}");
    assert!(weights(&run.join("policy")) == weights(&home.path("policy")), "{name}: the policy moved");
    for (step, metrics) in tiny::metrics(&run) {
        assert!(metrics.iter().all(|(_, value)| value.is_finite()), "{name}, step {step}: {metrics:?}");
        assert_eq!(get(&metrics, "policy/loss"), None, "{name}");
    }
}

#[test]
fn a_step_without_anything_to_learn_from_changes_nothing() {
    let home = Home::new();
    let all = |profile: &rlver::dialogue::Profile| profile.id.contains("train").then_some(1);
    let unscored = home.recipe("ppo", &["user.max_unscored=1.0", "run.steps=2"]);
    learns_nothing(&home, "unscored", &unscored, Fickle { fails: all }, "no dialogue to learn from");
    // A first reply fits, three turns never do.
    let masked = home.recipe("grpo", &["rollout.max_context=90", "overlong_mask=true", "run.steps=2"]);
    let run = home.path("masked");
    learns_nothing(&home, "masked", &masked, tiny::FICKLE, "no dialogue to learn from");
    let episodes = tiny::episodes(&run.join("episodes/step-000001.jsonl"));
    assert!(episodes.iter().all(|e| e.end == EndReason::Truncated && e.reward.is_some()));
    assert!(episodes.iter().any(|e| e.action_tokens() > 0));
    let still = home.recipe("grpo", &["dynamic_sampling=true", "max_rounds=2", "run.steps=2"]);
    learns_nothing(&home, "still", &still, tiny::Still, "after 2 rounds of sampling no group");
}

#[test]
fn equal_rewards_are_told_and_give_the_policy_no_gradient() {
    let home = Home::new();
    let recipe = home.recipe("grpo", &["run.steps=1", "entropy_coef=0", "weight_decay=0"]);
    let told = notes(&recipe, &home.path("run"), tiny::Still);
    assert!(told.iter().any(|note| note.contains("all rewards are equal")), "{told:?}");
    let (_, metrics) = tiny::metrics(&home.path("run")).pop().unwrap();
    assert_eq!(get(&metrics, "grad_norm/policy"), Some(0.0));
    assert_eq!((get(&metrics, "group/zero_variance"), get(&metrics, "group/singletons")), (Some(4.0), Some(0.0)));
}

#[test]
fn dynamic_sampling_fills_the_step_with_groups_that_differ() {
    let home = Home::new();
    // A third of the people never changes its mind: their groups compare nothing and are replaced.
    let set = ["dynamic_sampling=true", "max_rounds=4", "run.steps=2", "user.max_unscored=1.0"];
    let recipe = home.recipe("grpo", &set);
    let told = notes(&recipe, &home.path("run"), tiny::SomeStill);
    let mut rounds = 0.0;
    for (step, metrics) in tiny::metrics(&home.path("run")).into_iter().filter(|(step, _)| *step > 0) {
        let episodes = tiny::episodes(&home.path(&format!("run/episodes/step-{step:06}.jsonl")));
        let used = get(&metrics, "rollout/rounds").unwrap();
        assert_eq!(episodes.len() as f64, 8.0 * used, "every dialogue is kept on record");
        let learnt: Vec<u64> = episodes
            .iter()
            .filter(|e| e.rows.iter().flat_map(|r| &r.segments).any(|s| !s.advantages.is_empty()))
            .map(|e| e.group)
            .collect();
        let mut groups = learnt.clone();
        groups.dedup();
        assert_eq!((groups.len(), learnt.len()), (4, 8), "as many groups as asked for");
        for group in groups {
            let rewards: Vec<f64> = episodes.iter().filter(|e| e.group == group).filter_map(|e| e.reward).collect();
            assert!((rewards[0] - rewards[1]).abs() > 1e-6, "{rewards:?}");
        }
        assert_eq!(get(&metrics, "group/zero_variance"), Some(4.0 * (used - 1.0) + missing(&episodes, used)));
        rounds += used;
    }
    assert!(rounds > 2.0, "some step needed a second round");
    assert!(!told.iter().any(|note| note.contains("only")), "{told:?}");
}

/// Uninformative groups beyond those that a further round made up for.
fn missing(episodes: &[rlver::rollout::Episode], rounds: f64) -> f64 {
    let mut groups: Vec<u64> = episodes.iter().map(|e| e.group).collect();
    groups.dedup();
    let still = groups
        .iter()
        .filter(|g| {
            let rewards: Vec<f64> = episodes.iter().filter(|e| e.group == **g).filter_map(|e| e.reward).collect();
            (rewards[0] - rewards[1]).abs() <= 1e-6
        })
        .count();
    still as f64 - 4.0 * (rounds - 1.0)
}

#[test]
fn dynamic_sampling_trains_on_what_there_is_when_its_rounds_are_spent() {
    let home = Home::new();
    let recipe = home.recipe("grpo", &["dynamic_sampling=true", "max_rounds=1", "run.steps=6"]);
    let told = notes(&recipe, &home.path("run"), tiny::SomeStill);
    assert!(
        told.iter().any(|note| note.contains("of 4 groups have rewards that differ; training on these")),
        "{told:?}"
    );
}

#[test]
fn every_estimator_trains_and_the_first_update_has_ratio_one() {
    let home = Home::new();
    for (algorithm, set) in [
        ("ppo", "advantage=gae"),
        ("ppo", "advantage=gae-rlver lambda=0.9"),
        ("ppo", "advantage=gae kl=reward kl_control=adaptive critic_warmup=1"),
        ("grpo", "advantage=grpo turn_credit=turn-centred std_floor=0.1"),
        ("grpo", "advantage=dr_grpo policy_loss=gspo rollout_is=sequence"),
        ("grpo", "advantage=rloo policy_loss=cispo rollout_is=token"),
        ("grpo", "advantage=reinforce_plus_plus kl=loss kl_estimator=k3+"),
        ("grpo", "advantage=reinforce_plus_plus_baseline aggregation=dialogue-mean overlong_buffer=8"),
        ("grpo", "advantage=remax rollout.n=1"),
        ("grpo", "advantage=turn-rloo turn_gamma=0.7"),
        ("grpo", "advantage=distance-potential rollout.mode=think"),
    ] {
        let once = "ppo_epochs=1 mini_batch=0 entropy_coef=0 run.steps=2";
        let set: Vec<&str> = set.split(' ').chain(once.split(' ')).collect();
        let recipe = home.recipe(algorithm, &set);
        let run = home.path(&set.join("+").replace('/', "-"));
        tiny::train(&recipe, &run, tiny::FICKLE, false, None).unwrap();
        let (_, metrics) = tiny::metrics(&run).pop().unwrap();
        assert!(metrics.iter().all(|(_, value)| value.is_finite()), "{set:?}: {metrics:?}");
        let ratio = get(&metrics, "policy/ratio_max").unwrap();
        if recipe.objective.kl == rlver::recipe::KlUse::None {
            assert_eq!(ratio, 1.0, "{set:?}");
            assert_eq!(get(&metrics, "policy/approx_kl"), Some(0.0), "{set:?}");
        } else {
            // Here the old log-probabilities come from a pass of their own.
            assert!((ratio - 1.0).abs() < 1e-4, "{set:?}: {ratio}");
        }
        assert!(get(&metrics, "rollout/logprob_gap").unwrap() < 1e-5, "{set:?}: {metrics:?}");
        assert!(get(&metrics, "advantage/std").is_some());
        assert!(get(&metrics, "grad_norm/policy").unwrap() > 0.0 || set[1] == "rollout.mode=think", "{set:?}");
        let moved = weights(&run.join("policy")) != weights(&home.path("policy"));
        assert!(moved, "{set:?}");
        let remax = set[0] == "advantage=remax";
        assert_eq!(get(&metrics, "reward/greedy_mean").is_some(), remax);
    }
}
