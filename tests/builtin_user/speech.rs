//! What the user says, and that it can be re-derived and repeated.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::replies::STORIES;
use super::{profile, session, start};
use rlver::dialogue::{CharacterType, HiddenIntention, Language, Profile, ProfileSet};
use rlver::user::builtin::BuiltinUser;
use rlver::user::{Band, SessionSettings, UserEngine, UserTurn};

/// The embedded profiles as files, whichever are there.
pub(crate) fn own_profiles() -> Vec<Arc<Profile>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/profiles");
    ["train.zh", "train.en", "heldout.zh", "heldout.en"]
        .iter()
        .filter_map(|name| ProfileSet::load(&folder.join(format!("{name}.jsonl"))).ok())
        .flat_map(|set| set.iter().cloned().collect::<Vec<_>>())
        .collect()
}

fn published_profiles() -> Option<Vec<Arc<Profile>>> {
    let shared = std::env::var_os("RLVER_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let mut all = Vec::new();
    for name in ["train_profile.jsonl", "test_profile.jsonl"] {
        let path = shared.join("data/rlver").join(name);
        if !path.exists() {
            return None;
        }
        all.extend(ProfileSet::load(&path).unwrap().iter().cloned());
    }
    Some(all)
}

/// Ten turns of alternating replies from somewhere else; returns opening and turns.
fn talk(profile: &Arc<Profile>, emotion: i64, seed: u64) -> (String, Vec<UserTurn>) {
    let engine = BuiltinUser::new();
    let mut user = engine.open(profile.clone(), SessionSettings { start: start(emotion), seed });
    let opening = user.opening().unwrap();
    let replies: Vec<&str> =
        STORIES.iter().filter(|s| s.language == profile.language()).flat_map(|s| s.replies).collect();
    let turns = (0..10).map(|i| user.respond(replies[(i * 7 + seed as usize) % replies.len()]).unwrap()).collect();
    (opening, turns)
}

fn check_lines(profile: &Arc<Profile>, seed: u64) -> (usize, usize) {
    let (opening, turns) = talk(profile, 50, seed);
    let language = profile.language();
    let mut seen = HashSet::from([opening.clone()]);
    let mut sized = 0;
    let lines: Vec<&str> = turns.iter().take_while(|t| !t.farewell).map(|t| t.line.as_str()).collect();
    for line in &lines {
        assert!(seen.insert(line.to_string()), "{}: said twice: {line}", profile.id);
        assert_eq!(Language::detect(line), Some(language), "{line}");
        let questions = line.matches(['?', '？']).count();
        assert!(questions <= 2, "{}: {questions} questions: {line}", profile.id);
        if profile.character() == CharacterType::Passive {
            assert_eq!(questions, 0, "{}: a passive person asks: {line}", profile.id);
        }
        let fits = match language {
            Language::Zh => (12..=60).contains(&line.chars().count()),
            Language::En => (7..=45).contains(&line.split_whitespace().count()),
        };
        sized += usize::from(fits);
    }
    for line in lines.iter().copied().chain([opening.as_str()]) {
        let task = profile.task.trim_end_matches(['.', '。']).to_lowercase();
        assert!(!line.to_lowercase().contains(&task), "{line}");
        let telling = ["隐藏", "主题", "***", "####", "NPC", "emotion", "hidden"];
        assert!(!telling.iter().any(|w| line.contains(w)), "{}: {line}", profile.id);
    }
    (sized, lines.len())
}

#[test]
fn the_same_seed_says_the_same_and_another_seed_says_it_differently() {
    for profile in own_profiles().iter().take(16) {
        assert_eq!(talk(profile, 40, 3), talk(profile, 40, 3));
        assert_ne!(talk(profile, 40, 3).1, talk(profile, 40, 4).1);
    }
}

#[test]
fn lines_are_short_fresh_in_the_users_language_and_keep_the_secret() {
    let (mut sized, mut all) = (0, 0);
    for profile in own_profiles() {
        for seed in 0..3 {
            let (fits, lines) = check_lines(&profile, seed);
            sized += fits;
            all += lines;
        }
    }
    println!("own profiles: {sized} of {all} lines within the length wanted");
    assert!(sized * 100 >= all * 95);
}

#[test]
fn facts_are_disclosed_in_order() {
    for profile in own_profiles().iter().filter(|p| p.character() != CharacterType::Passive) {
        let (opening, turns) = talk(profile, 60, 1);
        let told: String = std::iter::once(opening).chain(turns.iter().map(|t| t.line.clone())).collect();
        let at: Vec<usize> = profile.details.iter().filter_map(|d| told.find(d.say.trim())).collect();
        assert!(at.len() >= 3 && at.is_sorted(), "{}", profile.id);
    }
}

#[test]
fn the_published_profiles_work() {
    let Some(profiles) = published_profiles() else {
        use std::io::Write;
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the published profiles are not at ../shared/data/rlver (set RLVER_SHARED)"
        );
        return;
    };
    assert_eq!(profiles.len(), 600);
    let (mut sized, mut all) = (0, 0);
    for profile in &profiles {
        let (fits, lines) = check_lines(profile, 5);
        sized += fits;
        all += lines;
    }
    println!("published profiles: {sized} of {all} lines within the length wanted");
    assert!(sized * 100 >= all * 90);
}

#[test]
fn emotions_follow_from_the_appraisals() {
    for profile in own_profiles() {
        let (_, turns) = talk(&profile, 40, 2);
        let mut emotion = start(40);
        for turn in &turns {
            assert_eq!(turn.before, emotion);
            emotion = emotion.after(&turn.appraisal);
            assert_eq!(turn.after, emotion);
            assert_eq!(turn.farewell, matches!(emotion.band(), Band::S | Band::F));
            let a = &turn.appraisal;
            for field in [&a.content, &a.fit, &a.activity, &a.feeling] {
                assert_eq!(Language::detect(field), Some(profile.language()), "{field}");
            }
        }
    }
}

#[test]
fn the_user_says_goodbye_at_both_ends() {
    for language in Language::ALL {
        let story = STORIES.iter().find(|s| s.language == language).unwrap();
        let p = || profile(language, HiddenIntention::Venting, CharacterType::Avoidant, Some(story.first));
        let (bye, thanks) = if language == Language::Zh { ("再见", "谢") } else { ("oodbye", "hank") };

        let mut user = session(p(), 95, 1);
        user.opening().unwrap();
        let turn = user.respond(story.reply(HiddenIntention::Venting)).unwrap();
        assert_eq!((turn.after.band(), turn.farewell), (Band::S, true));
        assert!(turn.line.contains(bye) && turn.line.contains(thanks), "{}", turn.line);

        let mut user = session(p(), 12, 1);
        user.opening().unwrap();
        let turn = user.respond("").unwrap();
        assert_eq!((turn.after.band(), turn.farewell), (Band::F, true));
        assert!(turn.line.contains(bye), "{}", turn.line);
    }
}

#[test]
fn hints_differ_between_intentions() {
    let mut owners: std::collections::HashMap<String, HiddenIntention> = Default::default();
    for language in Language::ALL {
        for intention in HiddenIntention::ALL {
            let mut heard = HashSet::new();
            for seed in 0..40 {
                let mut user = session(profile(language, intention, CharacterType::Avoidant, Some("…")), 60, seed);
                user.opening().unwrap();
                let line = user.respond(if language == Language::Zh { "嗯。" } else { "ok" }).unwrap().line;
                // A refused reply is answered with a short rebuff and a hint.
                let ends: &[char] = if language == Language::Zh { &['。', '？'] } else { &['.', '?'] };
                let hint = line.trim_end_matches(ends).rsplit(ends).next().unwrap().trim().to_string();
                if let Some(owner) = owners.insert(hint.clone(), intention) {
                    assert_eq!(owner, intention, "{hint}");
                }
                heard.insert(hint);
            }
            assert!(heard.len() >= 5, "{intention} {language}: {heard:?}");
        }
    }
}
