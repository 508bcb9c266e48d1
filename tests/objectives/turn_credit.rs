//! Turn-level credit.

use rlver::objective::{
    AdvantageEstimator, DistancePotential, ObjectiveError, StdConvention, TurnAdvantages, TurnRewards, TurnTrace,
    distance_potential, group_advantages, turn_centred, turn_rloo,
};

use super::{all_close, close};

#[test]
fn turn_centred_moves_credit_between_turns() {
    let turns = turn_centred(0.5, &[0.2, -0.1, 0.5], 2.0).unwrap();
    all_close(&turns, &[0.5, -0.1, 1.1], 1e-12, "turns");
    close(turns.iter().sum::<f64>() / 3.0, 0.5, 1e-12, "mean unchanged");
    assert!(turn_centred(0.5, &[], 2.0).unwrap().is_empty());
    assert!(matches!(turn_centred(0.5, &[f64::NAN], 1.0), Err(ObjectiveError::NotFinite { .. })));
}

/// Two dialogues of one profile: decreases (10, 20) and (20, −10); returns (30, 20) and (10, −10).
#[test]
fn hand_computed_distance_potential() {
    let traces = [
        TurnTrace { group: 3, distances: &[70.0, 60.0, 40.0] },
        TurnTrace { group: 3, distances: &[70.0, 50.0, 60.0] },
    ];
    let immediate = DistancePotential { gamma: 1.0, immediate: 1.0 };
    let turns = distance_potential(immediate, &traces).unwrap();
    let half = 0.5f64.sqrt(); // two values a distance d apart are ±(d/2)/(d/√2)
    all_close(&turns[0], &[-half, half], 1e-6, "immediate, first");
    all_close(&turns[1], &[half, -half], 1e-6, "immediate, second");
    let returns = distance_potential(DistancePotential { immediate: 0.0, ..immediate }, &traces).unwrap();
    let std = (875.0f64 / 3.0).sqrt(); // mean 12.5, squares 306.25 + 56.25 + 6.25 + 506.25
    all_close(&returns[0], &[17.5 / std, 7.5 / std], 1e-6, "return, first");
    all_close(&returns[1], &[-2.5 / std, -22.5 / std], 1e-6, "return, second");
    let mixed = distance_potential(DistancePotential { immediate: 0.25, ..immediate }, &traces).unwrap();
    close(mixed[1][0], 0.25 * half + 0.75 * -2.5 / std, 1e-6, "mixed");
}

#[test]
fn nothing_to_compare_gives_zeros() {
    let still = [TurnTrace { group: 0, distances: &[50.0, 50.0, 50.0] }, TurnTrace { group: 1, distances: &[40.0] }];
    let turns = distance_potential(DistancePotential::default(), &still).unwrap();
    assert_eq!(turns, [vec![0.0, 0.0], vec![]]);
    assert!(distance_potential(DistancePotential::default(), &[]).unwrap().is_empty());
    let alone = [TurnTrace { group: 0, distances: &[50.0, 45.0] }];
    assert_eq!(distance_potential(DistancePotential::default(), &alone).unwrap(), [[0.0]]);
    let empty = [TurnTrace { group: 0, distances: &[] }];
    assert_eq!(distance_potential(DistancePotential::default(), &empty).unwrap(), [Vec::<f64>::new()]);
}

#[test]
fn impossible_settings_are_refused() {
    for settings in
        [DistancePotential { gamma: 1.5, immediate: 0.5 }, DistancePotential { gamma: 1.0, immediate: -0.1 }]
    {
        assert!(matches!(distance_potential(settings, &[]), Err(ObjectiveError::OutOfRange { .. })));
    }
}

/// Three dialogues of two scopes; γ = ½. Returns: (4, 4), (2), (0, 8, 6).
fn rewards() -> [TurnRewards<'static>; 3] {
    [
        TurnRewards { scope: 1, rewards: &[2.0, 4.0] },
        TurnRewards { scope: 1, rewards: &[2.0] },
        TurnRewards { scope: 2, rewards: &[-4.0, 5.0, 6.0] },
    ]
}

#[test]
fn hand_computed_turn_rloo() {
    let turns = turn_rloo(0.5, false, &rewards()).unwrap();
    // First turns of scope 1 against each other; everything else against all, the third turn against nobody.
    all_close(&turns.advantages[0], &[2.0, -4.0], 1e-12, "first");
    all_close(&turns.advantages[1], &[-2.0], 1e-12, "second");
    all_close(&turns.advantages[2], &[-3.0, 4.0, 0.0], 1e-12, "third");
    assert_eq!(turns.alone, 1);
    let whitened = turn_rloo(0.5, true, &rewards()).unwrap();
    // Mean −½, squares around it 6.25 + 12.25 + 2.25 + 6.25 + 20.25 + 0.25 = 47.5, of six turns.
    all_close(&whitened.advantages[0], &[2.5, -3.5].map(|a| a / 9.5f64.sqrt()), 1e-6, "whitened");
}

#[test]
fn turn_rloo_sums_to_nothing_within_a_turn_and_is_rloo_for_single_turns() {
    let scores = [[0.1], [0.55], [0.8], [0.35]];
    let dialogues: Vec<TurnRewards<'_>> = scores.iter().map(|r| TurnRewards { scope: 0, rewards: r }).collect();
    let turns = turn_rloo(1.0, false, &dialogues).unwrap();
    let flat: Vec<f64> = turns.advantages.concat();
    let rloo = group_advantages(AdvantageEstimator::Rloo, &scores.concat(), &[0; 4], StdConvention::Verl).unwrap();
    all_close(&flat, &rloo.advantages, 1e-12, "rloo");
    close(flat.iter().sum::<f64>(), 0.0, 1e-12, "sum");
}

#[test]
fn turn_rloo_has_nothing_to_say_where_nothing_differs() {
    let same = [TurnRewards { scope: 0, rewards: &[0.1, -0.1] }; 3];
    for whiten in [false, true] {
        let turns = turn_rloo(0.9, whiten, &same).unwrap();
        assert!(turns.advantages.iter().flatten().all(|a| a.abs() < 1e-12), "{turns:?}");
        assert_eq!(turn_rloo(0.9, whiten, &[]).unwrap(), TurnAdvantages::default());
    }
    let alone = turn_rloo(1.0, true, &[TurnRewards { scope: 0, rewards: &[0.3, 0.2] }]).unwrap();
    assert_eq!((alone.advantages, alone.alone), (vec![vec![0.0, 0.0]], 2));
    assert!(matches!(turn_rloo(1.1, false, &[]), Err(ObjectiveError::OutOfRange { .. })));
    let unscored = [TurnRewards { scope: 0, rewards: &[f64::NAN] }];
    assert!(matches!(turn_rloo(1.0, false, &unscored), Err(ObjectiveError::NotFinite { .. })));
}
