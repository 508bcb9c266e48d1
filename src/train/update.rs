use burn::tensor::{Device, Tensor, TensorData};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rlver_kernels::ppo::{ActionTokens, KlPenalty, PpoLossConfig, ppo_loss, value_loss};
use rlver_models::ModelError;
use rlver_models::qwen2::Qwen2;

use super::advantages::Advantages;
use super::batch::{TrainRow, action_states, micro_batches};
use super::optimizer::{AdamW, GradientSum};
use crate::Error;
use crate::objective::{RowShape, token_weights};
use crate::recipe::{KlUse, ObjectiveSection};

/// A network with its optimizer.
#[derive(Debug)]
pub struct Learner {
    /// The weights, untracked, f32.
    pub model: Qwen2,
    /// Its optimizer.
    pub optimizer: AdamW,
}

/// Everything an update reads; lists have one entry per row, one value per action token.
pub struct UpdateBatch<'a> {
    /// The rows.
    pub rows: &'a [TrainRow],
    /// The dialogue of every row.
    pub dialogues: &'a [u64],
    /// Log-probabilities before the update.
    pub old_logprobs: &'a [Vec<f32>],
    /// Log-probabilities of the reference policy, for a KL loss.
    pub reference_logprobs: Option<&'a [Vec<f32>]>,
    /// The critic's values before the update.
    pub old_values: Option<&'a [Vec<f32>]>,
    /// Advantages and returns.
    pub targets: &'a Advantages,
    /// Temperature of the log-probabilities.
    pub temperature: f32,
    /// Valid vocabulary.
    pub vocabulary: usize,
    /// Normaliser of `seq-mean-token-sum-norm`.
    pub norm_length: f64,
}

/// What an update reports; means over its optimizer steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UpdateReport {
    /// Policy loss with all its terms.
    pub policy_loss: f64,
    /// Share of action tokens whose ratio was clipped.
    pub clip_fraction: f64,
    /// Share bounded by the dual clip.
    pub clip_fraction_lower: f64,
    /// Mean of old − new log-probability.
    pub approx_kl: f64,
    /// Mean entropy of the policy over action tokens.
    pub entropy: f64,
    /// Largest probability ratio.
    pub ratio_max: f64,
    /// Value loss.
    pub critic_loss: f64,
    /// Share of action tokens whose value was clipped.
    pub critic_clip_fraction: f64,
    /// Gradient norm of the policy before clipping.
    pub policy_grad_norm: f64,
    /// Gradient norm of the critic before clipping.
    pub critic_grad_norm: f64,
    /// Optimizer steps that were skipped because the gradient was not finite.
    pub skipped: usize,
    /// Optimizer steps.
    pub steps: usize,
}

/// Learning rates of an update.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Policy; `None` leaves it as it is.
    pub policy: Option<f64>,
    /// Critic.
    pub critic: f64,
}

/// `ppo_epochs` passes over the batch in mini-batches of whole dialogues, shuffled by `seed`.
///
/// Weights are normalised over each mini-batch before it is split into micro-batches, so that gradients do not depend
/// on the split.
///
/// # Errors
/// When a network refuses its input.
pub fn update(
    policy: &mut Learner,
    mut critic: Option<&mut Learner>,
    batch: &UpdateBatch<'_>,
    objective: &ObjectiveSection,
    rates: Rates,
    seed: u64,
) -> Result<UpdateReport, Error> {
    let mut report = UpdateReport::default();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..objective.ppo_epochs {
        for mini in mini_batches(batch.dialogues, objective.mini_batch, &mut rng) {
            let weights = mini_weights(batch, &mini, objective)?;
            if weights.iter().all(|w| *w == 0.0) {
                continue;
            }
            report.steps += 1;
            if let Some(lr) = rates.policy {
                policy_step(policy, batch, &mini, &weights, objective, lr, &mut report)?;
            }
            if let (Some(critic), Some(old)) = (critic.as_deref_mut(), batch.old_values) {
                critic_step(critic, batch, old, &mini, &weights, objective, rates.critic, &mut report)?;
            }
        }
    }
    let n = report.steps.max(1) as f64;
    for mean in [
        &mut report.policy_loss,
        &mut report.clip_fraction,
        &mut report.clip_fraction_lower,
        &mut report.approx_kl,
        &mut report.entropy,
        &mut report.critic_loss,
        &mut report.critic_clip_fraction,
        &mut report.policy_grad_norm,
        &mut report.critic_grad_norm,
    ] {
        *mean /= n;
    }
    Ok(report)
}

/// Row indices of each mini-batch: dialogues are shuffled and never split.
fn mini_batches(dialogues: &[u64], size: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    // Ids are sorted, so that neither the order of the rows nor how they mix dialogues decides who learns together.
    let mut order: Vec<u64> = dialogues.to_vec();
    order.sort_unstable();
    order.dedup();
    let size = if size == 0 { order.len().max(1) } else { size };
    order.shuffle(rng);
    order
        .chunks(size)
        .map(|chosen| {
            let mut rows: Vec<usize> = Vec::new();
            for dialogue in chosen {
                rows.extend(dialogues.iter().enumerate().filter(|(_, d)| *d == dialogue).map(|(i, _)| i));
            }
            rows
        })
        .collect()
}

fn mini_weights(batch: &UpdateBatch<'_>, mini: &[usize], objective: &ObjectiveSection) -> Result<Vec<f64>, Error> {
    let shapes: Vec<RowShape> = mini
        .iter()
        .map(|&r| RowShape { dialogue: batch.dialogues[r], action_tokens: batch.rows[r].actions.len() })
        .collect();
    Ok(token_weights(objective.aggregation, &shapes, batch.norm_length)?)
}

/// A micro-batch: row indices with the weight of each row's tokens.
struct Micro<'a> {
    rows: Vec<&'a TrainRow>,
    index: Vec<usize>,
    weights: Vec<f64>,
}

impl Micro<'_> {
    /// Per-token values of the micro-batch's rows as `[n]`.
    fn gather(&self, values: impl Fn(usize) -> Vec<f32>, device: &Device) -> Tensor<1> {
        let all: Vec<f32> = self.index.iter().flat_map(|&r| values(r)).collect();
        let n = all.len();
        Tensor::from_data(TensorData::new(all, [n]), device)
    }

    fn token_weights(&self, device: &Device) -> Tensor<1> {
        let all: Vec<f32> = self
            .rows
            .iter()
            .zip(&self.weights)
            .flat_map(|(row, w)| std::iter::repeat_n(*w as f32, row.actions.len()))
            .collect();
        let n = all.len();
        Tensor::from_data(TensorData::new(all, [n]), device)
    }
}

fn split<'a>(batch: &UpdateBatch<'a>, mini: &[usize], weights: &[f64], max_tokens: usize) -> Vec<Micro<'a>> {
    let rows: Vec<&TrainRow> = mini.iter().map(|&r| &batch.rows[r]).collect();
    let mut taken = 0;
    micro_batches(&rows, max_tokens)
        .into_iter()
        .map(|rows| {
            let range = taken..taken + rows.len();
            taken = range.end;
            Micro { rows, index: mini[range.clone()].to_vec(), weights: weights[range].to_vec() }
        })
        .collect()
}

fn policy_step(
    policy: &mut Learner,
    batch: &UpdateBatch<'_>,
    mini: &[usize],
    weights: &[f64],
    objective: &ObjectiveSection,
    lr: f64,
    report: &mut UpdateReport,
) -> Result<(), Error> {
    let config = PpoLossConfig {
        clip_low: objective.clip_low as f32,
        clip_high: objective.clip_high as f32,
        dual_clip: (objective.dual_clip > 0.0).then_some(objective.dual_clip as f32),
        entropy_coef: objective.entropy_coef as f32,
        kl_coef: if objective.kl == KlUse::Loss { objective.kl_coef as f32 } else { 0.0 },
        kl: KlPenalty::K3,
    };
    let tracked = policy.model.tracked();
    let device = tracked.device();
    let mut gradients = GradientSum::default();
    let total: f64 = mini.iter().map(|&r| batch.rows[r].actions.len() as f64).sum();
    for micro in split(batch, mini, weights, objective.micro_batch_tokens) {
        let (hidden, targets) = action_states(&tracked, &micro.rows)?;
        let scored = tracked.logprob(hidden, &targets, batch.temperature, batch.vocabulary)?;
        let tokens = ActionTokens {
            old_logprob: micro.gather(|r| batch.old_logprobs[r].clone(), &device),
            advantage: micro.gather(|r| batch.targets.advantages[r].iter().map(|a| *a as f32).collect(), &device),
            weight: micro.token_weights(&device),
            reference_logprob: batch
                .reference_logprobs
                .map(|reference| micro.gather(|r| reference[r].clone(), &device)),
            importance_weight: None,
        };
        let entropy = scored.entropy.clone().inner().sum();
        let out = ppo_loss(scored.logprob, scored.entropy, &tokens, config).map_err(ModelError::from)?;
        let mut grads = out.loss.backward();
        gradients.add(&tracked, &mut grads);
        let read = |t: Tensor<1>| -> f64 { f64::from(t.into_scalar::<f32>()) };
        let metrics = out.metrics();
        report.policy_loss += read(out.loss.inner());
        report.clip_fraction += metrics.clipped / total;
        report.clip_fraction_lower += metrics.clipped_lower / total;
        report.approx_kl += metrics.kl_k1 / total;
        report.entropy += read(entropy) / total;
        report.ratio_max = report.ratio_max.max(metrics.ratio_max);
    }
    let norm = policy.optimizer.update(&mut policy.model, gradients, lr);
    note_norm(norm, &mut report.policy_grad_norm, &mut report.skipped);
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn critic_step(
    critic: &mut Learner,
    batch: &UpdateBatch<'_>,
    old_values: &[Vec<f32>],
    mini: &[usize],
    weights: &[f64],
    objective: &ObjectiveSection,
    lr: f64,
    report: &mut UpdateReport,
) -> Result<(), Error> {
    let clip = (objective.value_clip > 0.0).then_some(objective.value_clip as f32);
    let tracked = critic.model.tracked();
    let device = tracked.device();
    let mut gradients = GradientSum::default();
    let total: f64 = mini.iter().map(|&r| batch.rows[r].actions.len() as f64).sum();
    for micro in split(batch, mini, weights, objective.micro_batch_tokens) {
        let (hidden, _) = action_states(&tracked, &micro.rows)?;
        let out = value_loss(
            tracked.values(hidden)?,
            micro.gather(|r| old_values[r].clone(), &device),
            micro.gather(|r| batch.targets.returns[r].iter().map(|v| *v as f32).collect(), &device),
            micro.token_weights(&device),
            clip,
        )
        .map_err(ModelError::from)?;
        report.critic_loss += f64::from(out.loss.clone().inner().into_scalar::<f32>());
        report.critic_clip_fraction += f64::from(out.clipped.inner().sum().into_scalar::<f32>()) / total;
        let mut grads = out.loss.backward();
        gradients.add(&tracked, &mut grads);
    }
    let norm = critic.optimizer.update(&mut critic.model, gradients, lr);
    note_norm(norm, &mut report.critic_grad_norm, &mut report.skipped);
    Ok(())
}

fn note_norm(norm: f64, sum: &mut f64, skipped: &mut usize) {
    if norm.is_finite() {
        *sum += norm;
    } else {
        *skipped += 1;
    }
}
