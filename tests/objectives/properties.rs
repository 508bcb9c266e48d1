//! What must hold for any batch.

use proptest::prelude::*;
use rlver::objective::{
    AdvantageEstimator, Aggregation, KlClamp, KlEstimator, KlRow, MaskedRow, PolicyLossConfig, PolicyLossKind,
    PolicyMetrics, PolicyRow, RowShape, StdConvention, ValueRow, action_values, gae, group_advantages, kl_loss,
    masked_mean, masked_variance, policy_loss, reinforce_plus_plus, token_weights, value_loss, whiten,
};

const MODES: [Aggregation; 5] = [
    Aggregation::TokenMean,
    Aggregation::SeqMeanTokenSum,
    Aggregation::SeqMeanTokenMean,
    Aggregation::SeqMeanTokenSumNorm,
    Aggregation::DialogueMean,
];
const KINDS: [PolicyLossKind; 3] = [PolicyLossKind::Clip, PolicyLossKind::Gspo, PolicyLossKind::Cispo];

/// Reward, value and action flag of one row's tokens.
fn row() -> impl Strategy<Value = Vec<(f64, f64, bool)>> {
    prop::collection::vec((-1.0..1.0f64, -2.0..2.0f64, any::<bool>()), 0..24)
}

/// New logprob, old logprob, reference logprob and advantage of one row's action tokens, and the row's dialogue.
type LossRow = (u64, Vec<(f64, f64, f64, f64)>);

fn loss_rows() -> impl Strategy<Value = Vec<LossRow>> {
    let token = (-4.0..0.0f64, -4.0..0.0f64, -4.0..0.0f64, -2.0..2.0f64);
    prop::collection::vec((0..3u64, prop::collection::vec(token, 0..6)), 0..9)
}

fn split(row: &[(f64, f64, bool)]) -> (Vec<f64>, Vec<f64>, Vec<bool>) {
    (row.iter().map(|t| t.0).collect(), row.iter().map(|t| t.1).collect(), row.iter().map(|t| t.2).collect())
}

fn near(left: &[f64], right: &[f64], tolerance: f64) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| (l - r).abs() <= tolerance)
}

/// Loss, gradient per row and metrics of `order`, in micro-batches of `size`, with weights from the whole mini-batch.
fn in_micro_batches(
    rows: &[LossRow],
    order: &[usize],
    size: usize,
    mode: Aggregation,
    kind: PolicyLossKind,
) -> (f64, Vec<Vec<f64>>, PolicyMetrics) {
    let shapes: Vec<_> = rows.iter().map(|row| RowShape { dialogue: row.0, action_tokens: row.1.len() }).collect();
    let weights = token_weights(mode, &shapes, 6.0).unwrap();
    let column = |pick: fn(&(f64, f64, f64, f64)) -> f64| -> Vec<Vec<f64>> {
        rows.iter().map(|row| row.1.iter().map(pick).collect()).collect()
    };
    let [new, old, reference, advantage] = [column(|t| t.0), column(|t| t.1), column(|t| t.2), column(|t| t.3)];
    let config = PolicyLossConfig { kind, dual_clip: Some(3.0), ..PolicyLossConfig::default() };
    let (mut loss, mut grads, mut metrics) = (0.0, vec![Vec::new(); rows.len()], PolicyMetrics::default());
    for batch in order.chunks(size) {
        let policy_rows: Vec<_> = batch
            .iter()
            .map(|row| PolicyRow {
                logprob: &new[*row],
                old_logprob: &old[*row],
                advantage: &advantage[*row],
                weight: weights[*row],
                rollout_weight: None,
            })
            .collect();
        let kl_rows: Vec<_> = batch
            .iter()
            .map(|row| KlRow { logprob: &new[*row], ref_logprob: &reference[*row], weight: weights[*row] })
            .collect();
        let value_rows: Vec<_> = batch
            .iter()
            .map(|row| ValueRow {
                values: &new[*row],
                old_values: &old[*row],
                returns: &advantage[*row],
                weight: weights[*row],
            })
            .collect();
        let policy = policy_loss(&config, &policy_rows).unwrap();
        let kl = kl_loss(KlEstimator::K3, KlClamp::Verl, &kl_rows).unwrap();
        let value = value_loss(Some(0.5), &value_rows).unwrap();
        loss += policy.loss + 0.1 * kl.loss + value.loss;
        metrics.merge(&policy.metrics);
        let total: Vec<f64> =
            policy.grad.iter().zip(&kl.grad).zip(&value.grad).map(|((p, k), v)| p + 0.1 * k + v).collect();
        let mut rest = total.into_iter();
        for row in batch {
            grads[*row] = rest.by_ref().take(new[*row].len()).collect();
        }
    }
    (loss, grads, metrics)
}

proptest! {
    #[test]
    fn user_tokens_change_no_advantage(
        row in row(), at in any::<prop::sample::Index>(), k in 1..6usize,
        poison in prop::sample::select(vec![f64::NAN, f64::INFINITY, 1e30]), gamma in 0.5..=1.0f64, lambda in 0.0..=1.0f64,
    ) {
        let (rewards, values, mask) = split(&row);
        let before = gae(&rewards, &values, &mask, gamma, lambda).unwrap();
        for position in [at.index(row.len() + 1), row.len()] {
            let mut longer = row.clone();
            longer.splice(position..position, std::iter::repeat_n((poison, poison, false), k));
            let (rewards, values, longer_mask) = split(&longer);
            let after = gae(&rewards, &values, &longer_mask, gamma, lambda).unwrap();
            for (before, after) in [(&before.advantages, &after.advantages), (&before.returns, &after.returns)] {
                prop_assert_eq!(action_values(before, &mask).unwrap(), action_values(after, &longer_mask).unwrap());
            }
        }
    }

    #[test]
    fn masked_slots_are_never_read(rows in prop::collection::vec(row(), 0..4)) {
        let poisoned: Vec<Vec<_>> = rows
            .iter()
            .map(|row| row.iter().map(|t| if t.2 { *t } else { (f64::NAN, f64::NAN, false) }).collect())
            .collect();
        let both = [rows, poisoned].map(|rows| {
            let parts: Vec<_> = rows.iter().map(|row| split(row)).collect();
            let masked: Vec<_> = parts.iter().map(|(r, _, mask)| MaskedRow { values: r, mask }).collect();
            let advantages: Vec<_> = parts.iter().map(|(r, v, m)| gae(r, v, m, 0.9, 0.8).unwrap()).collect();
            (
                masked_mean(&masked).unwrap(), masked_variance(&masked).unwrap(), whiten(&masked, true).unwrap(),
                reinforce_plus_plus(&masked, 0.9).unwrap(), advantages,
            )
        });
        prop_assert_eq!(&both[0], &both[1]);
        prop_assert!(both[0].2.iter().flatten().all(|value| value.is_finite()));
    }

    #[test]
    fn without_discount_the_advantage_is_return_minus_value(row in row()) {
        let (rewards, values, mask) = split(&row);
        let ours = gae(&rewards, &values, &mask, 1.0, 1.0).unwrap();
        for t in 0..row.len() {
            let to_go: f64 = (t..row.len()).filter(|s| mask[*s]).map(|s| rewards[s]).sum();
            let expected = if mask[t] { to_go - values[t] } else { 0.0 };
            prop_assert!((ours.advantages[t] - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn the_first_update_has_ratio_one(rows in loss_rows()) {
        for kind in KINDS {
            let new: Vec<Vec<f64>> = rows.iter().map(|row| row.1.iter().map(|t| t.0).collect()).collect();
            let advantage: Vec<Vec<f64>> = rows.iter().map(|row| row.1.iter().map(|t| t.3).collect()).collect();
            let rows: Vec<_> = new
                .iter()
                .zip(&advantage)
                .map(|(l, a)| PolicyRow { logprob: l, old_logprob: l, advantage: a, weight: 1.0, rollout_weight: None })
                .collect();
            let config = PolicyLossConfig { kind, dual_clip: Some(3.0), ..PolicyLossConfig::default() };
            let ours = policy_loss(&config, &rows).unwrap();
            let expected: Vec<f64> = advantage.concat().iter().map(|a| -a).collect();
            prop_assert_eq!(&ours.grad, &expected);
            prop_assert_eq!((ours.metrics.clipped, ours.metrics.clipped_lower), (0, 0));
            prop_assert_eq!((ours.metrics.approx_kl(), ours.metrics.approx_kl_k3()), (0.0, 0.0));
            prop_assert!(ours.grad.is_empty() || ours.metrics.ratio_max == 1.0);
        }
    }

    #[test]
    fn gradients_do_not_depend_on_micro_batches_or_order(
        (rows, order) in loss_rows().prop_flat_map(|rows| {
            let order: Vec<usize> = (0..rows.len()).collect();
            (Just(rows), Just(order).prop_shuffle())
        }),
    ) {
        let straight: Vec<usize> = (0..rows.len()).collect();
        for (mode, kind) in MODES.into_iter().flat_map(|mode| KINDS.map(|kind| (mode, kind))) {
            let whole = in_micro_batches(&rows, &straight, rows.len().max(1), mode, kind);
            for size in [1, 2, 4, 8] {
                let parts = in_micro_batches(&rows, &order, size, mode, kind);
                prop_assert!((whole.0 - parts.0).abs() <= 1e-9 * (1.0 + whole.0.abs()));
                prop_assert_eq!(&whole.1, &parts.1);
                prop_assert_eq!(whole.2.tokens, parts.2.tokens);
                prop_assert_eq!((whole.2.clipped, whole.2.clipped_lower), (parts.2.clipped, parts.2.clipped_lower));
                prop_assert!((whole.2.approx_kl() - parts.2.approx_kl()).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn weights_of_means_sum_to_one(shapes in prop::collection::vec((0..4u64, 0..9usize), 0..9)) {
        let rows: Vec<_> =
            shapes.iter().map(|(dialogue, action_tokens)| RowShape { dialogue: *dialogue, action_tokens: *action_tokens }).collect();
        let any = rows.iter().any(|row| row.action_tokens > 0);
        for mode in MODES {
            let weights = token_weights(mode, &rows, 9.0).unwrap();
            prop_assert!(weights.iter().all(|w| w.is_finite() && *w >= 0.0));
            let tokens: f64 = weights.iter().zip(&rows).map(|(w, row)| w * row.action_tokens as f64).sum();
            let filled: f64 = weights.iter().zip(&rows).filter(|(_, row)| row.action_tokens > 0).map(|(w, _)| w).sum();
            let sum = match mode {
                Aggregation::SeqMeanTokenSum => filled,
                Aggregation::SeqMeanTokenSumNorm => filled * 9.0,
                _ => tokens,
            };
            prop_assert!((sum - f64::from(u8::from(any))).abs() < 1e-7, "{:?}: {}", mode, sum);
        }
    }

    #[test]
    fn group_advantages_sum_to_zero_in_any_order(
        dialogues in prop::collection::vec((0..4u64, 0.0..1.0f64), 0..16).prop_shuffle(),
    ) {
        let groups: Vec<u64> = dialogues.iter().map(|d| d.0).collect();
        let scores: Vec<f64> = dialogues.iter().map(|d| d.1).collect();
        let shifted: Vec<f64> = scores.iter().map(|s| s + 0.25).collect();
        for estimator in [AdvantageEstimator::Grpo, AdvantageEstimator::DrGrpo, AdvantageEstimator::Rloo] {
            let ours = group_advantages(estimator, &scores, &groups, StdConvention::Verl).unwrap();
            for group in 0..4 {
                let sum: f64 = ours.advantages.iter().zip(&groups).filter(|(_, g)| **g == group).map(|(a, _)| a).sum();
                prop_assert!(sum.abs() < 1e-9);
            }
            let moved = group_advantages(estimator, &shifted, &groups, StdConvention::Verl).unwrap();
            prop_assert!(near(&ours.advantages, &moved.advantages, 1e-6));
        }
    }
}

#[test]
fn a_batch_without_actions_has_no_loss() {
    let rows: Vec<LossRow> = vec![(0, vec![]), (1, vec![])];
    for (mode, kind) in MODES.into_iter().flat_map(|mode| KINDS.map(|kind| (mode, kind))) {
        let (loss, grads, metrics) = in_micro_batches(&rows, &[0, 1], 1, mode, kind);
        assert_eq!(loss, 0.0);
        assert!(grads.iter().all(Vec::is_empty));
        assert_eq!((metrics.clip_fraction(), metrics.approx_kl(), metrics.approx_kl_k3()), (0.0, 0.0, 0.0));
    }
}
