//! Aggregation modes against hand-computed numbers.

use rlver::objective::{
    Aggregation, ObjectiveError, PolicyLossConfig, PolicyRow, RowShape, policy_loss, token_weights,
};

use super::policy::{NEW, OLD};
use super::{all_close, close};

const ALL: [Aggregation; 5] = [
    Aggregation::TokenMean,
    Aggregation::SeqMeanTokenSum,
    Aggregation::SeqMeanTokenMean,
    Aggregation::SeqMeanTokenSumNorm,
    Aggregation::DialogueMean,
];

fn shape(dialogue: u64, action_tokens: usize) -> RowShape {
    RowShape { dialogue, action_tokens }
}

#[test]
fn hand_computed_modes() {
    let advantages = [vec![0.8; 3], vec![-1.2; 5]];
    let config = PolicyLossConfig { dual_clip: Some(3.0), ..PolicyLossConfig::default() };
    let table = [
        (Aggregation::TokenMean, 0.734519),
        (Aggregation::SeqMeanTokenSum, 2.938077),
        (Aggregation::SeqMeanTokenMean, 0.434532),
        (Aggregation::SeqMeanTokenSumNorm, 0.587615),
        (Aggregation::DialogueMean, 0.434532),
    ];
    for (mode, expected) in table {
        let weights = token_weights(mode, &[shape(0, 3), shape(1, 5)], 5.0).unwrap();
        let rows = [0, 1].map(|row| PolicyRow {
            logprob: NEW[row],
            old_logprob: OLD[row],
            advantage: &advantages[row],
            weight: weights[row],
            rollout_weight: None,
        });
        close(policy_loss(&config, &rows).unwrap().loss, expected, 1e-6, &format!("{mode:?}"));
    }
}

#[test]
fn a_dialogue_of_many_rows_weighs_as_much_as_one_of_one() {
    let rows = [shape(4, 2), shape(4, 6), shape(9, 3), shape(4, 0)];
    let weights = token_weights(Aggregation::DialogueMean, &rows, 0.0).unwrap();
    all_close(&weights, &[1.0 / 16.0, 1.0 / 16.0, 1.0 / 6.0, 0.0], 1e-15, "dialogue-mean");
}

#[test]
fn rows_without_actions_are_not_counted() {
    let rows = [shape(0, 2), shape(1, 0), shape(2, 2)];
    for mode in ALL {
        let with = token_weights(mode, &rows, 4.0).unwrap();
        let without = token_weights(mode, &[rows[0], rows[2]], 4.0).unwrap();
        assert_eq!([with[0], with[1], with[2]], [without[0], 0.0, without[1]], "{mode:?}");
    }
}

#[test]
fn nothing_to_train_on_weighs_nothing() {
    for mode in ALL {
        assert_eq!(token_weights(mode, &[shape(0, 0), shape(1, 0)], 4.0).unwrap(), [0.0, 0.0], "{mode:?}");
        assert!(token_weights(mode, &[], 4.0).unwrap().is_empty());
    }
    let refused = token_weights(Aggregation::SeqMeanTokenSumNorm, &[], 0.0);
    assert!(matches!(refused, Err(ObjectiveError::OutOfRange { key: "norm_length", .. })));
}
