//! The attack set. It grows: a way to cheat that is found becomes a family in `fit::attacks` and a line here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rlver::dialogue::{Language, ProfileSet};
use rlver::user::judge::Judge;
use rlver::user::judge::fit::attacks::Attack;
use rlver::user::judge::fit::robust::{Earned, earned};
use rlver::user::judge::recorded::Recorded;

/// The recorded dialogues, or `None` with a loud line where they are not at hand.
pub(super) fn recorded() -> Option<Vec<Recorded>> {
    let shared = std::env::var_os("RLVER_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let Ok(folder) = std::fs::read_dir(shared.join("data/sage")) else {
        eprintln!("SKIPPED: the recorded dialogues are not at ../shared/data/sage (set RLVER_SHARED)");
        return None;
    };
    let profiles = ProfileSet::load(&shared.join("data/rlver/test_profile.jsonl")).unwrap();
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let all = paths.iter().flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        Recorded::parse(&path.display().to_string(), &text, Some(&profiles)).unwrap()
    });
    Some(all.collect())
}

/// What each family may earn at most.
fn allowed(family: Attack) -> f64 {
    match family {
        Attack::SomebodyElse => 0.25,
        // Their content is honest; what counts is that the edit adds nothing.
        Attack::Repeated | Attack::ListAppended => 1.0,
        _ => 0.05,
    }
}

/// Targets the shipped weights miss: the share that raises the emotion and the replies above the original, as measured.
/// `docs/users.md` says so too. A line may only go, or its numbers fall.
const MISSED: [(&str, Attack, f64, usize); 3] = [
    ("recorded", Attack::BrokenSentence, 0.38, 0),
    ("stories zh", Attack::BrokenSentence, 0.2, 0),
    ("stories en", Attack::BrokenSentence, 0.25, 0),
];

fn check(what: &str, (original, families): (Earned, BTreeMap<Attack, Earned>)) {
    println!("{what}: {} of {} originals raise the emotion", original.raised, original.n);
    assert!(original.n >= 40 && original.rate() > 0.5, "{what}: good replies must pay, or the rest says nothing");
    let mut problems = Vec::new();
    for (family, earned) in families {
        println!("  {family:?}: {:.3} raise, {} above the original", earned.rate(), earned.above);
        let missed = MISSED.iter().find(|(set, missed, ..)| *set == what && *missed == family);
        let (most, above) = missed.map_or((allowed(family), 0), |(_, _, most, above)| (*most, *above));
        if earned.rate() > most + 1e-9 {
            problems.push(format!("{family:?} raises the emotion in {:.3} of the cases", earned.rate()));
        }
        if matches!(family, Attack::Repeated | Attack::ListAppended | Attack::DemandAppended) && earned.above > above {
            problems.push(format!("{family:?} leaves {} replies above the original", earned.above));
        }
    }
    assert!(problems.is_empty(), "{what}: {problems:#?}");
}

#[test]
fn edits_of_recorded_good_replies_do_not_pay() {
    let Some(dialogues) = recorded() else { return };
    let all: Vec<&Recorded> = dialogues.iter().collect();
    check("recorded", earned(Judge::shipped(), &all, 200, 1));
}

#[test]
fn edits_of_our_own_good_replies_do_not_pay_in_either_language() {
    for language in Language::ALL {
        let dialogues = super::stories::dialogues(language);
        let all: Vec<&Recorded> = dialogues.iter().collect();
        check(&format!("stories {language}"), earned(Judge::shipped(), &all, 200, 1));
    }
}

#[test]
fn recorded_replies_are_seldom_refused() {
    let Some(dialogues) = recorded() else { return };
    let (verdicts, _) = Judge::shipped().transcripts(&dialogues);
    let refused = verdicts.iter().filter(|v| v.guard.is_some()).count();
    println!("{refused} of {} recorded replies refused", verdicts.len());
    assert!(refused as f64 <= 0.02 * verdicts.len() as f64, "{refused} of {}", verdicts.len());
}
