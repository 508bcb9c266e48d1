//! Turn-level credit.

use rlver::objective::{DistancePotential, ObjectiveError, TurnTrace, distance_potential, turn_centred};

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
