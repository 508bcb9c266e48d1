//! The outer loop: where it sends people, and that it counts what happened.

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{HiddenIntention, Language, ProfileSet};
use rlver::recipe::{CurriculumSection, Recipe};
use rlver::train::curriculum::{Activation, Controller, Disclosure, Trust, UserState, challenging};
use rlver::user::builtin::BuiltinUser;
use rlver::user::{Emotion, SessionSettings, UserEngine};

use crate::tiny;

fn settings() -> CurriculumSection {
    Recipe::default().curriculum
}

use HiddenIntention::{Advice, Praise};

/// `held` dialogues of an intention and state, of which `passed` passed.
fn outcomes(
    intention: HiddenIntention,
    state: usize,
    passed: usize,
    held: usize,
) -> Vec<(HiddenIntention, usize, bool)> {
    (0..held).map(|i| (intention, state, i < passed)).collect()
}

#[test]
fn there_are_24_states_and_each_is_told_apart() {
    let names: std::collections::BTreeSet<String> =
        (0..UserState::COUNT).map(|i| UserState::of_index(i).to_string()).collect();
    assert_eq!(names.len(), 24);
    let profiles = ProfileSet::builtin_train();
    for i in [0, profiles.len() - 1] {
        let profile = profiles.get(i);
        let people: std::collections::BTreeSet<String> =
            (0..24).map(|state| UserState::of_index(state).of_person(profile).player).collect();
        assert_eq!(people.len(), 24);
        assert!(people.iter().all(|player| player.starts_with(profile.player.trim_end())));
        let guarded =
            UserState { disclosure: Disclosure::Guarded, activation: Activation::Calm, trust: Trust::Neutral };
        let person = guarded.of_person(profile);
        assert_eq!(person.details[..], profile.details[..2], "little is told, in the same order");
        assert_eq!((&person.id, &person.task, person.language()), (&profile.id, &profile.task, profile.language()));
    }
}

#[test]
fn a_state_moves_where_a_dialogue_starts_and_never_over_its_ends() {
    let usual = Emotion::new(50).unwrap();
    let starts: Vec<u8> = (0..24).map(|state| UserState::of_index(state).start(usual).score()).collect();
    assert_eq!(starts[..8], [60, 50, 45, 35, 55, 45, 40, 30]);
    for score in [10, 99] {
        let usual = Emotion::new(score).unwrap();
        assert!((0..24).all(|s| (10..100).contains(&UserState::of_index(s).start(usual).score())));
    }
}

#[test]
fn pass_rates_are_what_was_seen_and_borrow_from_other_intentions() {
    let mut controller = Controller::new();
    assert_eq!(controller.pass_rate(Advice, 3), 0.5, "nothing is known");
    controller.record(outcomes(Praise, 3, 9, 10), &settings());
    // Others: (9 + 1)/(10 + 2); own: nothing.
    assert!((controller.pass_rate(Advice, 3) - 10.0 / 12.0).abs() < 1e-12);
    // Own: 9 of 10, and two of what the others say, who say nothing.
    assert!((controller.pass_rate(Praise, 3) - (9.0 + 2.0 * 0.5) / 12.0).abs() < 1e-12);
    assert_eq!(controller.pass_rate(Advice, 4), 0.5, "another state");
    // What was seen fades.
    controller.record([], &CurriculumSection { memory: 0.5, ..settings() });
    assert!((controller.pass_rate(Praise, 3) - (4.5 + 1.0) / 7.0).abs() < 1e-12);
}

#[test]
fn states_near_one_half_are_preferred_and_none_is_forgotten() {
    let mut controller = Controller::new();
    for state in 0..24 {
        let passed = [0, 25, 50][state % 3]; // never, half, always
        controller.record(outcomes(Advice, state, passed, 50), &CurriculumSection { memory: 1.0, ..settings() });
    }
    let probabilities = controller.probabilities(Advice, &settings());
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    for (state, p) in probabilities.iter().enumerate() {
        assert!(*p >= 0.2 / 24.0, "rehearsal");
        if state % 3 == 1 {
            assert!(*p > 5.0 * probabilities[state - 1] && *p > 5.0 * probabilities[state + 1], "{probabilities:?}");
        }
    }
    let drawn: Vec<usize> = (0..4000).map(|seed| controller.draw(Advice, &settings(), seed)).collect();
    for (state, p) in probabilities.iter().enumerate() {
        let share = drawn.iter().filter(|s| **s == state).count() as f64 / 4000.0;
        assert!((share - p).abs() < 0.02, "state {state}: {share} {p}");
    }
    assert!(controller.entropy(&settings()) < 1.0);
    assert!((Controller::new().entropy(&settings()) - 1.0).abs() < 1e-12, "uniform before anything is known");
    let uniform = CurriculumSection { rehearsal: 1.0, ..settings() };
    assert!(controller.probabilities(Advice, &uniform).iter().all(|p| (p - 1.0 / 24.0).abs() < 1e-12));
}

#[test]
fn what_was_rarely_met_is_explored() {
    let mut controller = Controller::new();
    let outcomes = (0..23).flat_map(|state| outcomes(Advice, state, 10, 20)).collect::<Vec<_>>();
    controller.record(outcomes, &settings());
    let bold = controller.probabilities(Advice, &CurriculumSection { exploration: 2.0, ..settings() });
    let timid = controller.probabilities(Advice, &CurriculumSection { exploration: 0.0, ..settings() });
    assert!(bold[23] > 2.0 * bold[0], "{bold:?}");
    assert!((timid[23] - timid[0]).abs() < 1e-9, "{timid:?}");
}

#[test]
fn the_challenging_environment_accepts_less_and_never_more() {
    let profiles = ProfileSet::builtin_train();
    let replies = [
        (Language::En, "I hear you, that sounds exhausting, and it makes sense that you feel this way."),
        (Language::En, "You did well to speak up, and that took courage."),
        (Language::En, "Maybe you could write down what happened and ask for a meeting."),
        (Language::Zh, "听起来这件事让你很委屈，我能理解你的感受。"),
        (Language::Zh, "你已经做得很好了，能坚持下来真的不容易。"),
        (Language::Zh, "也许你可以先把事情写下来，再找个时间和他谈谈。"),
    ];
    let (mut accepted, mut fewer) = (0, 0);
    for profile in profiles.iter() {
        for (_, reply) in replies.iter().filter(|(language, _)| *language == profile.language()) {
            let change = |users: &BuiltinUser| {
                let start = Emotion::new(50).unwrap();
                let mut session = users.open(profile.clone(), SessionSettings { start, seed: 5 });
                session.opening().unwrap();
                session.respond(reply).unwrap().appraisal.change
            };
            let (vanilla, challenging) = (change(&BuiltinUser::new()), change(&challenging(&BuiltinUser::new())));
            assert!(challenging <= vanilla && (vanilla <= 0 || challenging >= 0), "{}: {reply}", profile.id);
            accepted += usize::from(vanilla > 0);
            fewer += usize::from(vanilla > 0 && challenging <= 0);
        }
    }
    println!("vanilla accepts {accepted}, of which challenging refuses {fewer}");
    assert!(fewer > 0, "a small step in the right direction is worth nothing");
}

#[test]
fn the_challenging_environment_is_trained_in_and_not_evaluated_in() {
    let home = tiny::Home::new();
    let recipe = home.recipe("ppo", &["environment=challenging", "run.steps=1", "curriculum.controller=dual-loop"]);
    let stop = rlver::train::StopFlag::default();
    let options = rlver::train::RunOptions { recipe: &recipe, folder: &home.path("run"), resume: false, stop: &stop };
    rlver::train::run(&options, &mut |_| {}).unwrap();
    let (_, metrics) = tiny::metrics(&home.path("run")).pop().unwrap();
    assert!(metrics.iter().any(|(key, _)| key == "curriculum/pass_rate"));
    let episodes = tiny::episodes(&home.path("run/episodes/step-000001.jsonl"));
    assert!(episodes.iter().all(|e| e.mode == ReplyMode::Direct));
    for group in episodes.chunks(2) {
        assert_eq!(group[0].start_emotion, group[1].start_emotion, "a group comes in one state");
    }
}
