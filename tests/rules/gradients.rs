//! Rule 4: normalisers are those of the whole mini-batch; gradients know nothing of micro-batches, packing or order.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rlver::objective::Aggregation;
use rlver::recipe::{ObjectiveSection, OptimizerSection, Recipe};
use rlver::train::{AdamW, Advantages, Learner, Rates, TrainRow, UpdateBatch, update};

use crate::tiny;

const AGGREGATIONS: [Aggregation; 5] = [
    Aggregation::TokenMean,
    Aggregation::SeqMeanTokenSum,
    Aggregation::SeqMeanTokenMean,
    Aggregation::SeqMeanTokenSumNorm,
    Aggregation::DialogueMean,
];

/// Rows with everything an update reads about each.
#[derive(Clone)]
struct Item {
    row: TrainRow,
    dialogue: u64,
    old: Vec<f32>,
    reference: Vec<f32>,
    value: Vec<f32>,
    advantage: Vec<f64>,
    target: Vec<f64>,
}

/// Seven rows of four dialogues, of very different length.
fn items(vocabulary: usize) -> Vec<Item> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let shapes = [(0, 5, 1), (0, 30, 9), (0, 12, 3), (1, 60, 31), (2, 9, 2), (2, 17, 8), (3, 44, 20)];
    shapes
        .into_iter()
        .map(|(dialogue, length, actions)| {
            let mut positions: Vec<usize> = (1..length).collect();
            positions.shuffle(&mut rng);
            positions.truncate(actions);
            positions.sort_unstable();
            let mut floats =
                |low: f32, high: f32| (0..actions).map(|_| rng.random_range(low..high)).collect::<Vec<f32>>();
            let (old, reference, value) = (floats(-7.0, -5.0), floats(-7.0, -5.0), floats(0.0, 1.0));
            let (advantage, target) = (floats(-2.0, 2.0), floats(0.0, 1.0));
            let ids = (0..length).map(|_| rng.random_range(0..vocabulary as u32)).collect();
            Item {
                row: TrainRow {
                    episode: dialogue as usize,
                    ids,
                    actions: positions,
                    turn_ends: Vec::new(),
                    rollout_logprobs: old.clone(),
                },
                dialogue,
                old,
                reference,
                value,
                advantage: advantage.into_iter().map(f64::from).collect(),
                target: target.into_iter().map(f64::from).collect(),
            }
        })
        .collect()
}

/// One update of policy and critic; their parameters afterwards.
///
/// With a large ε AdamW's first step is nearly proportional to the gradient, so that equal parameters mean equal
/// gradients; with a small one the sign of rounding noise would decide where a gradient is almost 0.
fn updated(items: &[Item], objective: &ObjectiveSection) -> Vec<f32> {
    let policy = tiny::policy();
    let settings = OptimizerSection { eps: 1.0, max_grad_norm: 1e6, weight_decay: 0.0, ..Recipe::default().optimizer };
    let learner = |model| Learner { model, optimizer: AdamW::new(&settings) };
    let mut critic = policy.model.to_critic();
    critic.visit(&mut |name, shape, mut slot| {
        if name == "score.weight" {
            let mut normal = tiny::normal(9);
            slot.set((0..tiny::HIDDEN).map(|_| 0.1 * normal() as f32).collect(), shape, &policy.model.device());
        }
    });
    let (mut policy_learner, mut critic) = (learner(policy.model.clone()), learner(critic));
    let list = |f: fn(&Item) -> Vec<f32>| items.iter().map(f).collect::<Vec<_>>();
    let rows: Vec<TrainRow> = items.iter().map(|i| i.row.clone()).collect();
    let dialogues: Vec<u64> = items.iter().map(|i| i.dialogue).collect();
    let (old, reference, values) = (list(|i| i.old.clone()), list(|i| i.reference.clone()), list(|i| i.value.clone()));
    let targets = Advantages {
        advantages: items.iter().map(|i| i.advantage.clone()).collect(),
        returns: items.iter().map(|i| i.target.clone()).collect(),
        ..Advantages::default()
    };
    let batch = UpdateBatch {
        rows: &rows,
        dialogues: &dialogues,
        old_logprobs: &old,
        reference_logprobs: Some(&reference),
        kl_coef: objective.kl_coef,
        old_values: Some(&values),
        targets: &targets,
        temperature: 0.8,
        vocabulary: policy.vocabulary(),
        norm_length: 20.0,
    };
    let rates = Rates { policy: Some(0.1), critic: 0.1 };
    let report = update(&mut policy_learner, Some(&mut critic), &batch, objective, rates, 3).unwrap();
    assert_eq!(
        (report.skipped, report.steps),
        (0, objective.ppo_epochs * 4usize.div_ceil(if objective.mini_batch == 0 { 4 } else { objective.mini_batch }))
    );
    [&policy_learner.model, &critic.model].iter().flat_map(|m| m.parameters()).flat_map(|(_, p)| p.values()).collect()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn before() -> Vec<f32> {
    let policy = tiny::policy();
    policy.model.parameters().iter().flat_map(|(_, p)| p.values()).collect()
}

fn objective(aggregation: Aggregation, micro_batch_tokens: usize) -> ObjectiveSection {
    ObjectiveSection {
        aggregation,
        micro_batch_tokens,
        kl: rlver::recipe::KlUse::Loss,
        kl_coef: 0.1,
        entropy_coef: 0.05,
        ..Recipe::default().objective
    }
}

#[test]
fn rule_4_gradients_do_not_depend_on_micro_batches() {
    let items = items(tiny::tokenizer().vocab_size());
    let before = before();
    for aggregation in AGGREGATIONS {
        let whole = updated(&items, &objective(aggregation, 1_000_000));
        let moved = largest_difference(&whole[..before.len()], &before);
        assert!(moved > 1e-3, "{aggregation:?} moves the policy: {moved}");
        for micro in [1, 40, 70, 120] {
            let error = largest_difference(&updated(&items, &objective(aggregation, micro)), &whole);
            assert!(error <= 1e-6, "{aggregation:?}, micro-batches of {micro} tokens: {error}");
        }
    }
}

#[test]
fn rule_4_gradients_do_not_depend_on_the_order_of_rows() {
    let items = items(tiny::tokenizer().vocab_size());
    for aggregation in AGGREGATIONS {
        let whole = updated(&items, &objective(aggregation, 1_000_000));
        // The last orders part the rows of a dialogue from each other.
        for order in [[6, 5, 4, 3, 2, 1, 0], [3, 0, 1, 2, 6, 4, 5], [0, 3, 1, 4, 2, 6, 5], [5, 0, 3, 2, 6, 4, 1]] {
            let shuffled: Vec<Item> = order.iter().map(|&i| items[i].clone()).collect();
            for micro in [60, 1_000_000] {
                let error = largest_difference(&updated(&shuffled, &objective(aggregation, micro)), &whole);
                assert!(error <= 1e-6, "{aggregation:?}, order {order:?}, micro {micro}: {error}");
            }
        }
    }
}

#[test]
fn rule_4_holds_for_several_mini_batches_and_epochs() {
    let items = items(tiny::tokenizer().vocab_size());
    for aggregation in [Aggregation::TokenMean, Aggregation::DialogueMean] {
        let with = |micro| {
            let objective = ObjectiveSection { mini_batch: 3, ppo_epochs: 2, ..objective(aggregation, micro) };
            updated(&items, &objective)
        };
        let error = largest_difference(&with(1), &with(1_000_000));
        // Four updates, each on the rounding of the one before.
        assert!(error <= 4e-6, "{aggregation:?}: {error}");
    }
}
