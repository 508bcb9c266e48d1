//! Credit per turn: what a reply earned reaches the reply's tokens, in both layouts of rows.

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{HiddenIntention, Role};
use rlver::objective::{AdvantageEstimator, TurnCredit};
use rlver::recipe::{ObjectiveSection, Recipe, TurnBaseline};
use rlver::rollout::{EndReason, Episode, Segment, Turn};
use rlver::train::{AdvantageInputs, Advantages, TrainRow, compute_advantages};
use rlver::user::{Appraisal, Emotion, UserTurn};
use serde_json::json;

fn emotion(score: i64) -> Emotion {
    Emotion::new(score).unwrap()
}

fn segment(role: Role, turn: usize, n: usize) -> Segment {
    let logprobs = if role == Role::Assistant { vec![-1.0; n] } else { vec![] };
    Segment { role, turn, ids: vec![7; n], logprobs, ..Segment::default() }
}

/// A dialogue that starts at 50 and whose emotion after each reply is `emotions`; reply `k` has `k + 1` tokens.
fn episode(dialogue: u64, intention: HiddenIntention, emotions: &[i64], mode: ReplyMode) -> Episode {
    let mut before = 50;
    let turns = emotions
        .iter()
        .map(|&after| {
            let appraisal = Appraisal { change: (after - before) as i8, ..Appraisal::default() };
            let user = UserTurn {
                appraisal,
                before: emotion(before),
                after: emotion(after),
                line: "so".into(),
                farewell: false,
                guard: None,
            };
            before = after;
            serde_json::from_value::<Turn>(json!({"reply": "ah", "well_formed": true, "user": user})).unwrap()
        })
        .collect();
    let pieces = |turn| vec![segment(Role::User, turn, 3), segment(Role::Assistant, turn, turn + 1)];
    let rows: Vec<Vec<Segment>> = match mode {
        ReplyMode::Direct => vec![(0..emotions.len()).flat_map(pieces).collect()],
        ReplyMode::Think => (0..emotions.len()).map(pieces).collect(),
    };
    let mut out = super::advantages::episode(dialogue, dialogue / 2, Some(before as f64 / 100.0), rows);
    out.intention = intention;
    out.mode = mode;
    out.turns = turns;
    out.start_emotion = emotion(50);
    out.final_emotion = emotion(before);
    out
}

fn advantages(episodes: &[Episode], objective: &ObjectiveSection) -> Advantages {
    let rows = TrainRow::from_episodes(episodes);
    let old: Vec<Vec<f32>> = rows.iter().map(|r| r.rollout_logprobs.clone()).collect();
    let inputs = AdvantageInputs { episodes, rows: &rows, old_logprobs: &old, ..AdvantageInputs::default() };
    compute_advantages(&inputs, objective).unwrap()
}

fn objective() -> ObjectiveSection {
    ObjectiveSection {
        advantage: AdvantageEstimator::TurnRloo,
        turn_gamma: 0.5,
        whiten: false,
        ..Recipe::default().objective
    }
}

fn all_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} is not {expected:?}");
}

use HiddenIntention::{Advice, Praise};

#[test]
fn every_token_of_a_turn_gets_the_turns_credit() {
    for mode in [ReplyMode::Direct, ReplyMode::Think] {
        // Changes in points: (+4, +6), (−2, +2), (+8, −4). Returns at γ = ½: (7, 6), (−1, 2), (6, −4).
        let episodes = [
            episode(0, Advice, &[54, 60], mode),
            episode(1, Advice, &[48, 50], mode),
            episode(2, Praise, &[58, 54], mode),
        ];
        let found = advantages(&episodes, &objective()).advantages.concat();
        let first = |own: f64, others: f64| (own - others / 2.0) / 100.0;
        let expected = [
            [first(7.0, 5.0), first(6.0, -2.0), first(6.0, -2.0)],
            [first(-1.0, 13.0), first(2.0, 2.0), first(2.0, 2.0)],
            [first(6.0, 6.0), first(-4.0, 8.0), first(-4.0, 8.0)],
        ];
        all_close(&found, &expected.concat());
        // Only the two advice seekers are compared with each other; the third is judged against both.
        let scoped = ObjectiveSection { turn_baseline: TurnBaseline::Intention, ..objective() };
        let found = advantages(&episodes, &scoped).advantages.concat();
        all_close(&found[..3], &[0.08, 0.04, 0.04]);
        all_close(&found[6..], &[first(6.0, 6.0), first(-4.0, 8.0), first(-4.0, 8.0)]);
    }
}

#[test]
fn an_unscored_dialogue_is_no_baseline_and_a_malformed_one_pays_on_its_last_turn() {
    let mode = ReplyMode::Think;
    let mut episodes =
        [episode(0, Advice, &[54, 60], mode), episode(1, Advice, &[10, 90], mode), episode(2, Advice, &[52, 52], mode)];
    episodes[1].reward = None;
    episodes[1].end = EndReason::Unscored("silent".into());
    // The last reply of the third was malformed: nobody heard it, and what the dialogue had earned is gone.
    episodes[2].turns[1].user = None;
    episodes[2].end = EndReason::Malformed;
    episodes[2].reward = Some(0.0);
    let found = advantages(&episodes, &ObjectiveSection { turn_gamma: 1.0, ..objective() }).advantages.concat();
    // Returns: (0.10, 0.06) and (−0.50, −0.52).
    all_close(&found, &[0.6, 0.58, 0.58, -0.6, -0.58, -0.58]);
}

#[test]
fn whitening_is_over_turns_not_tokens() {
    let episodes = [episode(0, Advice, &[54, 60], ReplyMode::Direct), episode(1, Advice, &[48, 50], ReplyMode::Direct)];
    let found = advantages(&episodes, &ObjectiveSection { whiten: true, ..objective() }).advantages.concat();
    // Turn advantages ±0.08 and ±0.04: mean 0, variance (2·0.0064 + 2·0.0016)/3.
    let std = (0.016f64 / 3.0).sqrt() + 1e-6;
    all_close(&found, &[0.08, 0.04, 0.04, -0.08, -0.04, -0.04].map(|a| a / std));
}

#[test]
fn turn_centred_moves_a_groups_advantage_between_the_turns_of_a_dialogue() {
    for mode in [ReplyMode::Direct, ReplyMode::Think] {
        // One group: rewards 0.60 and 0.50; changes in points (+4, +6), (−2, +2).
        let episodes = [episode(0, Advice, &[54, 60], mode), episode(1, Advice, &[48, 50], mode)];
        let o = ObjectiveSection {
            advantage: AdvantageEstimator::DrGrpo,
            turn_credit: TurnCredit::TurnCentred,
            turn_alpha: 2.0,
            ..objective()
        };
        let found = advantages(&episodes, &o).advantages.concat();
        // ±0.05 for the dialogues; 2·(∓0.01) and 2·(∓0.02) for their turns.
        all_close(&found, &[0.03, 0.07, 0.07, -0.09, -0.01, -0.01]);
    }
}

#[test]
fn distance_potential_mixes_decreases_and_returns() {
    for mode in [ReplyMode::Direct, ReplyMode::Think] {
        let episodes = [episode(0, Advice, &[54, 60], mode), episode(1, Advice, &[48, 50], mode)];
        let with = |immediate| ObjectiveSection {
            advantage: AdvantageEstimator::DistancePotential,
            turn_gamma: 1.0,
            immediate,
            ..objective()
        };
        // First turns (4, −2), second turns (6, 2): the first dialogue's are the better of two, ±√½.
        let half = 0.5f64.sqrt();
        let near = |found: &[f64], expected: &[f64]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?} is not {expected:?}");
        };
        near(&advantages(&episodes, &with(1.0)).advantages.concat(), &[half, half, half, -half, -half, -half]);
        // Returns (10, 6), (0, 2): mean 4.5, squares 30.25 + 2.25 + 20.25 + 6.25 = 59.
        let std = (59.0f64 / 3.0).sqrt();
        let returns = [5.5, 1.5, 1.5, -4.5, -2.5, -2.5].map(|g| g / std);
        near(&advantages(&episodes, &with(0.0)).advantages.concat(), &returns);
        let mixed: Vec<f64> =
            [half, half, half, -half, -half, -half].iter().zip(returns).map(|(r, g)| 0.5 * (r + g)).collect();
        near(&advantages(&episodes, &with(0.5)).advantages.concat(), &mixed);
    }
}
