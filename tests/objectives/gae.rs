//! Generalized advantages against verl, RLVER's release and hand-computed numbers.

use rlver::objective::{MaskedRow, gae, gae_rlver, last_action, place_terminal_reward, whiten};
use serde_json::Value;

use super::{GOLDEN, actions, all_close, cases, fixture, mask, matrix, name, number};

struct Batch {
    advantages: Vec<Vec<f64>>,
    returns: Vec<Vec<f64>>,
    whitened: Vec<Vec<f64>>,
}

type Row<'a> = (&'a [f64], &'a [f64], &'a [bool]);

fn run(case: &Value, masks: &[Vec<bool>], one: impl Fn(Row<'_>) -> rlver::objective::Gae) -> Batch {
    let (rewards, values) = (matrix(&case["inputs"]["token_level_rewards"]), matrix(&case["inputs"]["values"]));
    let (mut advantages, mut returns) = (Vec::new(), Vec::new());
    for ((rewards, values), mask) in rewards.iter().zip(&values).zip(masks) {
        let row = one((rewards, values, mask));
        advantages.push(row.advantages);
        returns.push(row.returns);
    }
    let rows: Vec<_> = advantages.iter().zip(masks).map(|(values, mask)| MaskedRow { values, mask }).collect();
    let whitened = whiten(&rows, true).unwrap();
    Batch { advantages, returns, whitened }
}

#[test]
fn golden_gae() {
    let fixture = fixture("ppo_gae.json");
    for case in cases(&fixture) {
        let masks = mask(&case["inputs"]["response_mask"]);
        let (gamma, lambda) = (number(&case["params"]["gamma"]), number(&case["params"]["lam"]));
        let batch = run(case, &masks, |(r, v, m)| gae(r, v, m, gamma, lambda).unwrap());
        let pairs = [
            (&batch.advantages, "advantages_raw"),
            (&batch.returns, "returns"),
            (&batch.whitened, "advantages_whitened"),
        ];
        for (actual, key) in pairs {
            for ((actual, expected), mask) in actual.iter().zip(actions(&case["expected"][key], &masks)).zip(&masks) {
                let kept = rlver::objective::action_values(actual, mask).unwrap();
                all_close(&kept, &expected, GOLDEN, &format!("{} {key}", name(case)));
                assert!(actual.iter().zip(mask).all(|(value, action)| *action || *value == 0.0));
            }
        }
    }
    assert_eq!(cases(&fixture).len(), 24);
}

#[test]
fn golden_gae_of_the_rlver_release() {
    let fixture = fixture("ppo_gae.json");
    for case in cases(&fixture) {
        let masks = mask(&case["inputs"]["response_mask"]);
        let expected = &case["expected_rlver_legacy_no_skip"];
        let (gamma, lambda) = (number(&case["params"]["gamma"]), number(&case["params"]["lam"]));
        let batch = run(case, &masks, |(r, v, _)| gae_rlver(r, v, gamma, lambda).unwrap());
        for (actual, key) in [(&batch.advantages, "advantages_raw"), (&batch.returns, "returns")] {
            for (actual, expected) in actual.iter().zip(matrix(&expected[key])) {
                all_close(actual, &expected, GOLDEN, &format!("{} {key}", name(case)));
            }
        }
        let whitened = actions(&expected["advantages_whitened"], &masks);
        for ((actual, expected), mask) in batch.whitened.iter().zip(whitened).zip(&masks) {
            let kept = rlver::objective::action_values(actual, mask).unwrap();
            all_close(&kept, &expected, GOLDEN, &format!("{} whitened", name(case)));
        }
    }
}

const MASK: [&[bool]; 2] =
    [&[true, true, false, false, true, true, false], &[true, true, true, false, false, true, false]];
const VALUES: [&[f64]; 2] = [&[0.5, 0.4, 0.9, -0.7, 0.2, 0.1, 0.3], &[0.1, -0.2, 0.3, 0.8, 0.6, 0.4, 0.2]];
const REWARDS: [&[f64]; 2] = [&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], &[-0.01, 0.02, -0.03, 0.0, 0.0, 0.55, 0.0]];

fn hand(gamma: f64, lambda: f64) -> [rlver::objective::Gae; 2] {
    [0, 1].map(|row| {
        let full = gae(REWARDS[row], VALUES[row], MASK[row], gamma, lambda).unwrap();
        let keep = |values: &[f64]| rlver::objective::action_values(values, MASK[row]).unwrap();
        rlver::objective::Gae { advantages: keep(&full.advantages), returns: keep(&full.returns) }
    })
}

#[test]
fn hand_computed_gae() {
    type Table = [[[f64; 4]; 2]; 2];
    let table: [(f64, f64, Table); 3] = [
        (1.0, 1.0, [[[0.5, 0.6, 0.8, 0.9], [1.0; 4]], [[0.43, 0.74, 0.22, 0.15], [0.53, 0.54, 0.52, 0.55]]]),
        (
            1.0,
            0.95,
            [
                [[0.391387, 0.51725, 0.755, 0.9], [0.891387, 0.91725, 0.955, 1.0]],
                [[0.375781, 0.721875, 0.2125, 0.15], [0.475781, 0.521875, 0.5125, 0.55]],
            ],
        ),
        (
            0.99,
            0.95,
            [
                [[0.3654, 0.499096, 0.74545, 0.9], [0.8654, 0.899096, 0.94545, 1.0]],
                [[0.361405, 0.711754, 0.207075, 0.15], [0.461405, 0.511754, 0.507075, 0.55]],
            ],
        ),
    ];
    for (gamma, lambda, rows) in table {
        for (actual, [advantages, returns]) in hand(gamma, lambda).iter().zip(rows) {
            all_close(&actual.advantages, &advantages, 1e-6, "advantages");
            all_close(&actual.returns, &returns, 1e-6, "returns");
        }
    }
}

#[test]
fn hand_computed_whitening() {
    let rows = hand(1.0, 0.95);
    let all = [true; 4];
    let rows: Vec<_> = rows.iter().map(|row| MaskedRow { values: &row.advantages, mask: &all }).collect();
    let shifted = whiten(&rows, true).unwrap();
    all_close(&shifted[0], &[-0.414683, 0.053052, 0.936588, 1.475442], 1e-6, "row 0");
    all_close(&shifted[1], &[-0.472679, 0.813487, -1.079471, -1.311736], 1e-6, "row 1");
    let kept = whiten(&rows, false).unwrap();
    all_close(&kept[0], &[0.088291, 0.556026, 1.439562, 1.978416], 1e-6, "row 0, mean kept");
    all_close(&kept[1], &[0.030295, 1.316462, -0.576497, -0.808762], 1e-6, "row 1, mean kept");
}

#[test]
fn hand_computed_plain_recursion() {
    let expected = [[0.329196, 0.451786, 0.76925, 0.915], [0.397604, 0.744846, 0.23668, 0.16]];
    for row in 0..2 {
        let full = gae_rlver(REWARDS[row], VALUES[row], 1.0, 0.95).unwrap();
        let kept = rlver::objective::action_values(&full.advantages, MASK[row]).unwrap();
        all_close(&kept, &expected[row], 5e-7, "plain");
    }
}

#[test]
fn the_terminal_reward_is_kept_when_the_user_has_the_last_word() {
    assert_eq!(place_terminal_reward(MASK[0], 0.8), [0.0, 0.0, 0.0, 0.0, 0.0, 0.8, 0.0]);
    assert_eq!(last_action(MASK[1]), Some(5));
    assert_eq!(place_terminal_reward(&[false, false], 0.8), [0.0, 0.0]);
    let lost = gae(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], VALUES[0], MASK[0], 1.0, 1.0).unwrap();
    all_close(&lost.advantages, &[-0.5, -0.4, 0.0, 0.0, -0.2, -0.1, 0.0], 1e-12, "reward on a user token");
}
