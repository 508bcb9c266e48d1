//! Overlong penalty and dynamic sampling.

use rlver::objective::{BatchDecision, OverlongPenalty, SampleBudget, group_is_informative, informative_groups};

use super::close;

#[test]
fn hand_computed_overlong_penalty() {
    let rule = OverlongPenalty { max_length: 4096, buffer: 512, factor: 1.0 };
    for (tokens, expected) in [(0, 0.0), (3584, 0.0), (3900, -0.617188), (4096, -1.0), (5000, -1.0)] {
        close(rule.penalty(tokens).unwrap(), expected, 5e-7, "penalty");
    }
    assert!(OverlongPenalty { buffer: 0, ..rule }.penalty(1).is_err());
    assert!(OverlongPenalty { buffer: 5000, ..rule }.penalty(1).is_err());
}

#[test]
fn groups_without_a_gradient_are_found() {
    assert!(!group_is_informative(&[]));
    assert!(!group_is_informative(&[0.4]));
    assert!(!group_is_informative(&[0.4, 0.4 + 1e-7]));
    assert!(group_is_informative(&[0.4, 0.41]));
    let flags = informative_groups(&[0.1, 0.5, 0.1, 0.9, 0.3], &[1, 2, 1, 2, 3]).unwrap();
    assert_eq!(flags, [false, true, false, true, false]);
}

#[test]
fn sampling_is_bounded() {
    let budget = SampleBudget { groups: 4, max_rounds: 3 };
    assert_eq!(budget.decide(4, 1), BatchDecision::Train);
    assert_eq!(budget.decide(3, 2), BatchDecision::SampleMore);
    assert_eq!(budget.decide(3, 3), BatchDecision::TrainShort { found: 3 });
    assert_eq!(budget.decide(0, 3), BatchDecision::Skip);
    assert_eq!(SampleBudget { groups: 0, max_rounds: 1 }.decide(0, 1), BatchDecision::Skip);
}
