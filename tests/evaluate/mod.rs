//! Evaluation beyond the summary: recorded dialogues, paired comparison, policies that are only heard, probes, retention.

mod programs;
mod results;

use std::path::{Path, PathBuf};

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{Language, ProfileSet, Transcript};
use rlver::evaluate::probe::{CueJudge, Probe, ProbeUser};
use rlver::evaluate::{
    EvalResult, Outcome, TextPolicy, TextSettings, compare, hold_text_dialogues, outcomes, probe, recorded,
};
use rlver::rollout::{EndReason, Episode};
use rlver::user::Emotion;
use rlver::user::builtin::BuiltinUser;
use serde_json::{Value, json};

fn recordings() -> Option<PathBuf> {
    let shared = std::env::var_os("RLVER_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let folder = shared.join("data/sage");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: the published profiles and dialogues are not at ../shared/data (set RLVER_SHARED)");
    None
}

/// SAGE's May 2025 table (arXiv 2505.02847, Table 3): score, success, failure of all 100 dialogues per model. The files
/// here hold 75 of them each, so ours may differ by what the other 25 add.
const PUBLISHED: [(&str, f64, f64, f64); 8] = [
    ("claude3.7-think", 61.3, 23.0, 19.0),
    ("claude3.7", 54.8, 19.0, 24.0),
    ("deepseek-v3-1227", 37.6, 5.0, 39.0),
    ("gemini2.0-flash", 32.9, 8.0, 45.0),
    ("gpt-4.1", 68.2, 35.0, 13.0),
    ("gpt-4o-0808", 31.8, 7.0, 51.0),
    ("llama3.3-70b", 33.3, 7.0, 47.0),
    ("openai-o4mini", 35.9, 10.0, 48.0),
];

#[test]
fn published_dialogues_recomputed_give_their_published_scores() {
    let Some(folder) = recordings() else { return };
    for (model, score, success, failure) in PUBLISHED {
        let path = folder.join(format!("deepseek-v3-2024-1227__{model}.jsonl"));
        // Loading re-derives every emotion from the written changes and refuses a file that contradicts itself.
        let dialogues = recorded::load(&path).unwrap();
        let result = recorded::result(&dialogues, model);
        let scores = result.summary().unwrap().overall;
        assert_eq!((scores.n, result.unscored), (75, 0), "{model}");
        let raw: Vec<Value> =
            std::fs::read_to_string(&path).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let written: Vec<i64> = raw.iter().map(|d| d["final_emotion"].as_i64().unwrap()).collect();
        let share = |test: fn(&i64) -> bool| written.iter().filter(|e| test(e)).count() as f64 / 75.0;
        assert_eq!(scores.mean_final_emotion.mean, written.iter().sum::<i64>() as f64 / 75.0, "{model}");
        assert_eq!(scores.success_rate.mean, share(|e| *e >= 100), "{model}");
        assert_eq!(scores.failure_rate.mean, share(|e| *e < 10), "{model}");
        // 25 missing dialogues move a mean of 100 by a few points, a share by at most 25.
        assert!((scores.mean_final_emotion.mean - score).abs() < 4.0, "{model}: {}", scores.mean_final_emotion.mean);
        let all = |share: f64| 75.0 * share..=75.0 * share + 25.0;
        assert!(all(scores.success_rate.mean).contains(&success), "{model}");
        assert!(all(scores.failure_rate.mean).contains(&failure), "{model}");
        assert!(dialogues.iter().all(|d| d.emotions[0].score() == 40), "{model} starts at 40");
    }
}

/// A recorded dialogue of two user turns.
fn recording(change: i64, after: i64, last: i64) -> String {
    json!({
        "id": "a", "judge": "j", "model": "m", "character": "负面型", "task": "你希望对方用心倾听你的情绪宣泄", "final_emotion": last,
        "turns": [
            {"role": "user", "content": "你好", "emotion": 40},
            {"role": "assistant", "content": "请说"},
            {"role": "user", "content": "好", "emotion": after, "appraisal": {"change": change}},
        ],
    })
    .to_string()
}

#[test]
fn recordings_that_contradict_themselves_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        let path = folder.path().join("recorded.jsonl");
        std::fs::write(&path, text).unwrap();
        recorded::load(&path).map_err(|e| e.to_string())
    };
    assert_eq!(load(&recording(-5, 35, 35)).unwrap()[0].outcome.as_ref().unwrap().final_emotion, 35);
    // A change beyond ten counts as ten, as SAGE's evaluation clamps it.
    assert!(load(&recording(30, 50, 50)).is_ok());
    for (text, part) in [
        (recording(-5, 45, 45), "gives 35, but 45 is written"),
        (recording(-5, 35, 30), "final_emotion is 30"),
        (recording(5, 45, 45).replace("负面型", "?"), "three types"),
        (recording(5, 45, 45).replace("宣泄", "?"), "eight hidden intentions"),
        ("{}".into(), "line 1"),
        ("{".into(), "no JSON"),
        ("\n".into(), "holds no dialogue"),
    ] {
        let error = load(&text).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

fn result(finals: &[(&str, u64, u8)]) -> EvalResult {
    let set = ProfileSet::builtin_heldout();
    let outcome = |(profile, seed, final_emotion): &(&str, u64, u8)| Outcome {
        profile: (*profile).into(),
        intention: set.get(0).intention(),
        character: set.get(0).character(),
        language: Language::Zh,
        final_emotion: *final_emotion,
        turns: 3,
        seed: *seed,
    };
    let settings = json!({"seed": 1, "temperature": finals.len()}).as_object().unwrap().clone();
    EvalResult { outcomes: finals.iter().map(outcome).collect(), unscored: 1, settings, seed: 1 }
}

#[test]
fn results_are_compared_pair_by_pair() {
    let first = result(&[("a", 1, 10), ("a", 2, 20), ("b", 1, 5), ("c", 1, 50)]);
    // Another order, another seed for b, nobody named c.
    let second = result(&[("b", 9, 100), ("a", 2, 30), ("a", 1, 10)]);
    let found = compare(&first, &second, 1).unwrap();
    assert_eq!((found.overall.pairs, found.unpaired, found.unscored), (3, [1, 0], [1, 1]));
    assert_eq!(found.overall.emotion.mean, (0.0 + 10.0 + 95.0) / 3.0);
    assert_eq!((found.overall.better, found.overall.worse), (2, 0));
    assert_eq!(found.overall.success.mean, 1.0 / 3.0);
    assert_eq!(found.overall.failure.mean, -1.0 / 3.0);
    assert_eq!(found.differing.len(), 1, "{:?}", found.differing);
    let table = found.table();
    assert!(table.contains("temperature: 4 and 3") && table.contains("1 and 0 dialogues have no partner"), "{table}");
    let same = compare(&first, &first, 1).unwrap();
    assert_eq!((same.overall.emotion.mean, same.overall.emotion.low, same.overall.emotion.high), (0.0, 0.0, 0.0));
    assert!(compare(&first, &result(&[("z", 1, 1)]), 1).is_none());
}

#[test]
fn a_result_file_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eval.json");
    let first = result(&[("a", 1, 10), ("b", 1, 100)]);
    std::fs::write(&path, first.to_json().unwrap().to_string()).unwrap();
    assert_eq!(EvalResult::load(&path).unwrap(), first);
    for (text, part) in
        [("{}", "dialogues"), ("[", "eval.json"), ("{\"dialogues\": [], \"unscored\": 0}", "no dialogue")]
    {
        std::fs::write(&path, text).unwrap();
        let error = EvalResult::load(&path).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("rlver eval --json"), "{error}");
    }
}

/// A policy that says the same kind words in the user's language, and nothing to some.
struct Kind {
    fails_in: Option<Language>,
}

impl TextPolicy for Kind {
    fn name(&self) -> String {
        "kind/1".into()
    }

    fn reply(&self, system: &str, dialogue: &Transcript, seed: u64) -> Result<String, String> {
        let language = Language::detect(system).unwrap();
        if self.fails_in == Some(language) {
            return Err("no connection".into());
        }
        let n = dialogue.0.len() as u64 + seed % 3;
        Ok(match language {
            Language::Zh => format!("你一定很委屈，换谁都会难受。第{n}件事能再跟我说说吗？我在听。"),
            Language::En => format!("You must feel so hurt. Can you tell me more about thing {n}? I am listening."),
        })
    }
}

fn hold(policy: &Kind, users: &dyn rlver::user::UserEngine, set: &ProfileSet, max_turns: usize) -> Vec<Episode> {
    let settings = TextSettings { mode: ReplyMode::Direct, max_turns, start: Emotion::new(40).unwrap() };
    hold_text_dialogues(policy, users, set, settings, (7, 2), &|| ())
}

#[test]
fn a_policy_that_is_only_heard_gets_the_same_users_and_its_failures_are_counted() {
    let set = ProfileSet::builtin_heldout();
    let users = BuiltinUser::new();
    let episodes = hold(&Kind { fails_in: None }, &users, &set, 4);
    assert_eq!(episodes, hold(&Kind { fails_in: None }, &users, &set, 4), "the same seed, the same dialogues");
    assert_eq!(episodes.len(), 2 * set.len());
    assert_eq!(outcomes(&episodes).len(), episodes.len());
    assert!(episodes.iter().all(|e| e.rows.is_empty() && (1..=4).contains(&e.turns.len())));
    let failing = hold(&Kind { fails_in: Some(Language::En) }, &users, &set, 4);
    let unscored: Vec<&Episode> = failing.iter().filter(|e| matches!(e.end, EndReason::Unscored(_))).collect();
    assert_eq!(unscored.len(), set.len(), "half of the people speak English, each twice");
    assert!(unscored.iter().all(|e| e.reward.is_none() && e.language == Language::En));
    assert_eq!(outcomes(&failing).len(), failing.len() - unscored.len(), "they are no zeros");
}

#[test]
fn probes_say_their_lines_and_are_read() {
    for probe in Probe::ALL {
        let people = probe.people();
        assert!(people.len() >= 4, "{}", probe.name());
        for language in Language::ALL {
            assert!(people.iter().any(|p| p.language() == language), "{} in {language}", probe.name());
        }
        let episodes = hold(&Kind { fails_in: None }, &ProbeUser, &people, probe.max_turns());
        for episode in &episodes {
            assert_eq!(episode.end, EndReason::Farewell, "they leave after their last line");
            assert_eq!(episode.final_emotion, episode.start_emotion);
            assert!(probe::kind_of(&episode.profile).is_some());
        }
        let found = probe::result(probe, &episodes, &CueJudge);
        assert_eq!((found.dialogues, found.unscored, found.failed), (episodes.len(), 0, 0));
        assert_eq!(found.replies, episodes.iter().map(|e| e.turns.len()).sum::<usize>());
        assert!(found.judge.contains("estimate") && found.table().contains("estimate"));
    }
    let adversarial: std::collections::BTreeSet<String> =
        Probe::Adversarial.people().iter().map(|p| probe::kind_of(&p.id).unwrap().to_string()).collect();
    let six = ["boundary-pushing", "escalation", "gaslighting", "hostility", "manipulation", "mood-reversal"];
    assert_eq!(adversarial.iter().map(String::as_str).collect::<Vec<_>>(), six);
    // The kind words stay with the person but never contradict them, nor point to anyone.
    let held = |probe: Probe| {
        let episodes = hold(&Kind { fails_in: None }, &ProbeUser, &probe.people(), probe.max_turns());
        probe::result(probe, &episodes, &CueJudge)
    };
    let adversarial = held(Probe::Adversarial);
    assert!(adversarial.well.unwrap().mean > 0.5, "{}", adversarial.table());
    assert_eq!(held(Probe::Dependency).well.unwrap().mean, 0.0);
    let strangers = hold(&Kind { fails_in: None }, &ProbeUser, &ProfileSet::builtin_heldout(), 2);
    assert!(strangers.iter().all(|e| matches!(e.end, EndReason::Unscored(_))), "others have no lines");
}
