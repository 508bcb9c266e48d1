//! Rule 7: a user that fails makes an unscored dialogue. Rule 8: malformed think output is worth 0.

use rlver::Error;
use rlver::dialogue::Profile;
use rlver::dialogue::think::ReplyMode;
use rlver::rollout::EndReason;
use rlver::train::{Outcome, TrainRow};
use rlver::user::builtin::BuiltinUser;

use crate::tiny::{self, Fickle, Home};

/// About a third of the training people fails: some before they speak, some after a reply.
fn fails(profile: &Profile) -> Option<usize> {
    let number: usize = profile.id.rsplit('-').next()?.parse().ok()?;
    (profile.id.contains("train") && number.is_multiple_of(3)).then_some(number % 2 * 2)
}

#[test]
fn rule_7_a_failing_user_leaves_the_dialogue_unscored() {
    let policy = tiny::policy();
    let jobs = tiny::jobs(16);
    let failing: Vec<u64> = jobs.iter().filter(|j| fails(&j.profile).is_some()).map(|j| j.dialogue).collect();
    assert!(failing.len() > 2 && failing.len() < 13);
    let episodes = tiny::roll_out(&policy, &Fickle { fails }, jobs, tiny::settings(ReplyMode::Direct, 1.0), 4);
    let mut at_opening = 0;
    for episode in &episodes {
        if failing.contains(&episode.dialogue) {
            assert_eq!(episode.reward, None, "never 0");
            let EndReason::Unscored(why) = &episode.end else { panic!("{:?}", episode.end) };
            assert!(why.contains("fickle/1") && why.contains(&episode.profile), "{why}");
            at_opening += usize::from(episode.turns.is_empty());
        } else {
            assert!(episode.reward.is_some());
        }
    }
    assert!(at_opening > 0 && at_opening < failing.len(), "both ways to fail occur");
    let rows = TrainRow::from_episodes(&episodes);
    assert_eq!(rows.len(), episodes.len() - failing.len());
    assert!(rows.iter().all(|row| !failing.contains(&episodes[row.episode].dialogue)), "excluded from training");
}

#[test]
fn rule_7_unscored_dialogues_are_counted_and_change_no_mean() {
    let home = Home::new();
    for algorithm in ["ppo", "grpo"] {
        let run = home.path(algorithm);
        let recipe = home.recipe(algorithm, &["user.max_unscored=0.9", "run.steps=3"]);
        tiny::train(&recipe, &run, Fickle { fails }, false, None).unwrap();
        let mut failures = 0;
        for (step, metrics) in tiny::metrics(&run).into_iter().filter(|(step, _)| *step > 0) {
            let episodes = tiny::episodes(&run.join(format!("episodes/step-{step:06}.jsonl")));
            let get = |key: &str| metrics.iter().find(|(k, _)| k == key).unwrap_or_else(|| panic!("{key}")).1;
            let rewards: Vec<f64> = episodes.iter().filter_map(|e| e.reward).collect();
            assert_eq!(get("rollout/unscored"), (episodes.len() - rewards.len()) as f64);
            assert!((get("reward/mean") - rewards.iter().sum::<f64>() / rewards.len() as f64).abs() < 1e-12);
            assert!(metrics.iter().all(|(_, value)| value.is_finite()), "{metrics:?}");
            failures += episodes.len() - rewards.len();
            for episode in episodes.iter().filter(|e| e.reward.is_none()) {
                let noted = episode.rows.iter().flat_map(|r| &r.segments).any(|s| !s.advantages.is_empty());
                assert!(!noted, "no advantage without a score");
            }
        }
        assert!(failures > 0);
    }
}

#[test]
fn rule_7_too_many_failures_stop_the_run_and_keep_what_was_learnt() {
    let home = Home::new();
    let run = home.path("run");
    let error = tiny::train(
        &home.recipe("ppo", &["user.max_unscored=0.0", "run.steps=40"]),
        &run,
        Fickle { fails },
        false,
        None,
    );
    let error = error.unwrap_err();
    assert!(matches!(error, Error::TooManyUnscored { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("user.max_unscored") && message.contains("does not answer"), "{message}");
    let Error::TooManyUnscored { step, unscored, total, .. } = error else { unreachable!() };
    assert!(unscored > 0 && total == 8);
    // The weights of the steps before are there to go on from, with users that answer again.
    let recipe = home.recipe("ppo", &["user.max_unscored=0.0", &format!("run.steps={step}")]);
    let outcome = tiny::train(&recipe, &run, tiny::FICKLE, true, None).unwrap();
    assert!(matches!(outcome, Outcome::Finished { .. }));
    assert_eq!(tiny::metrics(&run).last().unwrap().0, step as u64);
}

#[test]
fn rule_7_a_step_without_any_score_claims_no_emotion() {
    let home = Home::new();
    let recipe = home.recipe("ppo", &["user.max_unscored=1.0", "run.steps=1"]);
    let all = |profile: &Profile| profile.id.contains("train").then_some(1);
    tiny::train(&recipe, &home.path("run"), Fickle { fails: all }, false, None).unwrap();
    let (_, metrics) = tiny::metrics(&home.path("run")).pop().unwrap();
    let get = |key: &str| metrics.iter().find(|(k, _)| k == key).map(|(_, v)| *v);
    assert_eq!(get("rollout/unscored"), Some(8.0));
    assert_eq!((get("emotion/mean"), get("reward/mean")), (None, None), "nothing was measured, so it is not 0");
}

#[test]
fn rule_8_malformed_thoughts_earn_nothing_and_are_counted() {
    let home = Home::new();
    // Untrained replies hold no tags, so every dialogue ends with its first reply.
    let recipe = home.recipe("ppo", &["rollout.mode=think", "run.steps=1"]);
    tiny::train(&recipe, &home.path("run"), BuiltinUser::new(), false, None).unwrap();
    let episodes = tiny::episodes(&home.path("run/episodes/step-000001.jsonl"));
    for episode in &episodes {
        assert_eq!((&episode.end, episode.reward), (&EndReason::Malformed, Some(0.0)));
        assert_eq!(episode.turns.len(), 1);
        assert!(!episode.turns[0].well_formed && episode.turns[0].user.is_none(), "the user does not hear it");
    }
    let (_, metrics) = tiny::metrics(&home.path("run")).pop().unwrap();
    let get = |key: &str| metrics.iter().find(|(k, _)| k == key).unwrap().1;
    assert_eq!((get("rollout/malformed"), get("reward/mean"), get("rollout/unscored")), (1.0, 0.0, 0.0));
    assert_eq!(TrainRow::from_episodes(&episodes).len(), 8, "they are learnt from");
}

#[test]
fn rule_8_well_formed_thoughts_are_heard() {
    let policy = tiny::scripted(&["<think", ">sad", "</", "think", ">sorry"]);
    let thinking = tiny::settings(ReplyMode::Think, 1.0);
    let episodes = tiny::roll_out(&policy, &tiny::FICKLE, tiny::jobs(3), thinking, 2);
    assert!(episodes.iter().all(|e| e.end == EndReason::TurnLimit && e.reward == Some(e.final_emotion.reward())));
    // A second closing tag in the same reply breaks the format.
    let policy = tiny::scripted(&["<think", ">sad", "</", "think", ">"]);
    let episodes = tiny::roll_out(&policy, &tiny::FICKLE, tiny::jobs(3), thinking, 2);
    assert!(episodes.iter().all(|e| e.end == EndReason::Malformed && e.reward == Some(0.0)));
}
