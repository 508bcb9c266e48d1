//! Rule 9: users are keyed by dialogue, never by position.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{Profile, ProfileSet};
use rlver::rollout::Episode;
use rlver::user::builtin::BuiltinUser;
use rlver::user::{SessionSettings, UserEngine};

use crate::tiny;

/// Tells every reply of an episode to a fresh user and compares all that the user did.
fn replay(episode: &Episode, profiles: &HashMap<String, Arc<Profile>>) {
    let settings = SessionSettings { start: episode.start_emotion, seed: episode.user_seed };
    let mut user = BuiltinUser::new().open(profiles[&episode.profile].clone(), settings);
    assert_eq!(user.opening().unwrap(), episode.opening, "dialogue {}", episode.dialogue);
    let mut emotion = episode.start_emotion;
    for (turn, heard) in episode.turns.iter().enumerate() {
        let Some(recorded) = &heard.user else { break };
        assert_eq!(&user.respond(&heard.reply).unwrap(), recorded, "dialogue {}, turn {turn}", episode.dialogue);
        assert_eq!(recorded.before, emotion);
        emotion = recorded.before.after(&recorded.appraisal);
        assert_eq!(recorded.after, emotion);
    }
    assert_eq!(episode.final_emotion, emotion);
}

#[test]
fn rule_9_every_appraisal_re_derives_from_its_own_profile() {
    let policy = tiny::policy();
    let profiles = ProfileSet::builtin_train().iter().map(|p| (p.id.clone(), p.clone())).collect();
    let jobs = tiny::jobs(14);
    let order: Vec<u64> = jobs.iter().map(|j| j.dialogue).collect();
    let settings = tiny::settings(ReplyMode::Direct, 1.0);
    let episodes = tiny::roll_out(&policy, &BuiltinUser::new(), jobs.clone(), settings, 3);
    assert_eq!(episodes.iter().map(|e| e.dialogue).collect::<Vec<_>>(), order, "in the order of the jobs");
    let lengths: BTreeSet<usize> = episodes.iter().map(Episode::action_tokens).collect();
    assert!(lengths.len() > 5, "dialogues end at different times: {lengths:?}");
    for (episode, job) in episodes.iter().zip(&jobs) {
        assert_eq!((&episode.profile, episode.user_seed), (&job.profile.id, job.user_seed));
        replay(episode, &profiles);
    }
    // Alone, side by side or in another order, a dialogue is the same one.
    let mut reversed = jobs;
    reversed.reverse();
    let mut again = tiny::roll_out(&policy, &BuiltinUser::new(), reversed, settings, 5);
    again.reverse();
    for (a, b) in episodes.iter().zip(&again) {
        assert_eq!((&a.turns, a.rows[0].ids()), (&b.turns, b.rows[0].ids()), "dialogue {}", a.dialogue);
    }
}

#[test]
fn rule_9_holds_in_a_run() {
    let home = tiny::Home::new();
    let recipe = home.recipe("grpo", &["run.steps=2", "rollout.dialogues=5"]);
    tiny::train(&recipe, &home.path("run"), BuiltinUser::new(), false, None).unwrap();
    let profiles = ProfileSet::builtin_train().iter().map(|p| (p.id.clone(), p.clone())).collect();
    let mut dialogues = BTreeSet::new();
    for step in 1..=2 {
        let episodes = tiny::episodes(&home.path("run").join(format!("episodes/step-{step:06}.jsonl")));
        assert_eq!(episodes.len(), 10);
        for pair in episodes.chunks(2) {
            assert_eq!(
                (&pair[0].profile, &pair[0].opening),
                (&pair[1].profile, &pair[1].opening),
                "one group, one person"
            );
            assert_eq!(pair[0].group, pair[1].group);
            assert_ne!(pair[0].rows, pair[1].rows, "yet two dialogues");
        }
        for episode in &episodes {
            assert!(dialogues.insert(episode.dialogue), "ids are unique in a run");
            replay(episode, &profiles);
        }
    }
}
