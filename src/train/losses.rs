//! The losses of a micro-batch as tensors that can be differentiated.
//!
//! `src/objective` defines every loss with its gradient in `f64`. PPO's clipped surrogate runs as the kernel
//! [`ppo_loss`]; all others take the definition itself: log-probabilities go to the host, the definition gives the
//! gradient `g` of the loss with respect to each, and the tensor `Σ g·logprob`, whose gradient is `g`, carries it into the
//! network. What is trained with is then what the golden tests compare.

use burn::tensor::{Device, Tensor, TensorData};
use rlver_kernels::ordered_sum;
use rlver_kernels::ppo::{ActionTokens, KlPenalty, PpoLossConfig, ppo_loss};
use rlver_models::ModelError;

use super::batch::floats;
use crate::Error;
use crate::objective::{
    CorrectionLevel, KlClamp, KlEstimator, KlRow, PolicyLossConfig, PolicyLossKind, PolicyMetrics, PolicyRow,
    RolloutCorrection, kl_loss, policy_loss,
};
use crate::recipe::{KlUse, ObjectiveSection, RolloutIs};

/// A row of a micro-batch as the policy loss sees it; lists have one value per action token.
#[derive(Debug, Clone, Copy)]
pub struct LossRow<'a> {
    /// Log-probabilities before the update; `None` where the policy is still the old one, so that the ratio is 1.
    pub old_logprobs: Option<&'a [f32]>,
    /// Log-probabilities as sampled.
    pub rollout_logprobs: &'a [f32],
    /// Log-probabilities of the reference policy, for a KL loss.
    pub reference_logprobs: Option<&'a [f32]>,
    /// Advantages.
    pub advantages: &'a [f64],
    /// Weight of each of the row's tokens in the loss.
    pub weight: f64,
}

/// A policy loss and what is worth knowing about it.
#[derive(Debug)]
pub struct PolicyTerm {
    /// `[1]`; its gradient is the loss's, its value need not be.
    pub loss: Tensor<1>,
    /// The loss's value, with its KL and entropy terms.
    pub value: f64,
    /// Sums over action tokens.
    pub metrics: PolicyMetrics,
    /// Sum of the entropy over action tokens.
    pub entropy_sum: f64,
    /// Tokens whose rollout importance weight was bounded.
    pub bounded: usize,
    /// The log-probabilities, rows one after another.
    pub logprobs: Vec<f32>,
}

/// The policy's loss of a micro-batch.
///
/// # Shapes
/// - `logprob`, `entropy`: `[n]`, rows one after another
///
/// # Errors
/// When the objective's settings make no sense.
pub fn policy_term(
    logprob: Tensor<1>,
    entropy: Tensor<1>,
    rows: &[LossRow<'_>],
    objective: &ObjectiveSection,
    kl_coef: f64,
) -> Result<PolicyTerm, Error> {
    let device = logprob.device();
    let logprobs = floats(logprob.clone().inner());
    let entropies = floats(entropy.clone().inner());
    let wide = |list: &[f32]| -> Vec<f64> { list.iter().map(|v| f64::from(*v)).collect() };
    let correction = correction(objective);
    let (mut new, mut old, mut corrections, mut bounded) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut rest = logprobs.as_slice();
    for row in rows {
        let (mine, others) = rest.split_at(row.advantages.len());
        rest = others;
        new.push(wide(mine));
        old.push(row.old_logprobs.map_or_else(|| wide(mine), wide));
        if let Some(correction) = correction {
            let weights = correction.weights(old.last().expect("just pushed"), &wide(row.rollout_logprobs))?;
            bounded += weights.bounded;
            corrections.push(weights.weights);
        }
    }
    let policy_rows: Vec<PolicyRow<'_>> = rows
        .iter()
        .enumerate()
        .map(|(r, row)| PolicyRow {
            logprob: &new[r],
            old_logprob: &old[r],
            advantage: row.advantages,
            weight: row.weight,
            rollout_weight: corrections.get(r).map(Vec::as_slice),
        })
        .collect();
    let policy = policy_loss(&loss_config(objective), &policy_rows)?;
    let weights: Vec<f64> = rows.iter().flat_map(|r| std::iter::repeat_n(r.weight, r.advantages.len())).collect();
    let entropy_value: f64 = entropies.iter().zip(&weights).map(|(h, w)| f64::from(*h) * w).sum();
    let mut value = policy.loss - objective.entropy_coef * entropy_value;
    let mut grad = policy.grad;
    let with_kl = objective.kl == KlUse::Loss && kl_coef != 0.0;
    if with_kl {
        let references: Vec<Vec<f64>> = rows
            .iter()
            .map(|r| wide(r.reference_logprobs.expect("a KL loss is only allowed with a reference")))
            .collect();
        let kl_rows: Vec<KlRow<'_>> = (rows.iter().enumerate())
            .map(|(r, row)| KlRow { logprob: &new[r], ref_logprob: &references[r], weight: row.weight })
            .collect();
        let kl = kl_loss(objective.kl_estimator, objective.kl_clamp, &kl_rows)?;
        value += kl_coef * kl.loss;
        grad.iter_mut().zip(&kl.grad).for_each(|(g, kl)| *g += kl_coef * kl);
    }
    let column = |values: Vec<f32>| column(values, &device);
    let narrow = |values: Vec<f64>| column(values.into_iter().map(|v| v as f32).collect());
    let loss = if let Some(kl) = kernel_penalty(objective, with_kl) {
        let tokens = ActionTokens {
            old_logprob: narrow(old.concat()),
            advantage: narrow(policy_rows.iter().flat_map(|row| row.advantage.to_vec()).collect()),
            weight: narrow(weights),
            importance_weight: correction.map(|_| narrow(corrections.concat())),
            reference_logprob: with_kl
                .then(|| column(rows.iter().flat_map(|r| r.reference_logprobs.unwrap_or_default().to_vec()).collect())),
        };
        let config = PpoLossConfig {
            clip_low: objective.clip_low as f32,
            clip_high: objective.clip_high as f32,
            dual_clip: (objective.dual_clip > 0.0).then_some(objective.dual_clip as f32),
            entropy_coef: objective.entropy_coef as f32,
            kl_coef: if with_kl { kl_coef as f32 } else { 0.0 },
            kl,
        };
        ppo_loss(logprob, entropy, &tokens, config).map_err(ModelError::from)?.loss
    } else {
        let loss = ordered_sum(logprob * narrow(grad));
        if objective.entropy_coef == 0.0 {
            loss
        } else {
            loss - ordered_sum(entropy * narrow(weights)) * objective.entropy_coef
        }
    };
    let entropy_sum = entropies.iter().map(|h| f64::from(*h)).sum();
    Ok(PolicyTerm { loss, value, metrics: policy.metrics, entropy_sum, bounded, logprobs })
}

/// The kernel's estimator of the KL where the kernel computes the objective's loss; `None` where the definition does.
fn kernel_penalty(objective: &ObjectiveSection, with_kl: bool) -> Option<KlPenalty> {
    match (objective.policy_loss, objective.kl_estimator, objective.kl_clamp) {
        (PolicyLossKind::Clip, _, _) if !with_kl => Some(KlPenalty::K3),
        (PolicyLossKind::Clip, KlEstimator::K1, _) => Some(KlPenalty::K1),
        (PolicyLossKind::Clip, KlEstimator::K2, _) => Some(KlPenalty::K2),
        (PolicyLossKind::Clip, KlEstimator::K3, KlClamp::Verl) => Some(KlPenalty::K3Bounded),
        (PolicyLossKind::Clip, KlEstimator::K3, KlClamp::None) => Some(KlPenalty::K3),
        _ => None,
    }
}

/// The objective's policy loss as its definition takes it.
pub fn loss_config(objective: &ObjectiveSection) -> PolicyLossConfig {
    PolicyLossConfig {
        kind: objective.policy_loss,
        clip_low: objective.clip_low,
        clip_high: objective.clip_high,
        dual_clip: (objective.dual_clip > 0.0).then_some(objective.dual_clip),
        cispo_bounds: objective.cispo_bounds,
    }
}

fn correction(objective: &ObjectiveSection) -> Option<RolloutCorrection> {
    let level = match objective.rollout_is {
        RolloutIs::None => return None,
        RolloutIs::Token => CorrectionLevel::Token,
        RolloutIs::Sequence => CorrectionLevel::Sequence,
    };
    Some(RolloutCorrection {
        level,
        mode: objective.rollout_is_mode,
        cap: objective.rollout_is_threshold,
        floor: objective.rollout_is_threshold_lower,
    })
}

/// Values as `[n]`.
pub(super) fn column(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let n = values.len();
    Tensor::from_data(TensorData::new(values, [n]), device)
}
