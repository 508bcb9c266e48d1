use std::ops::Range;

use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rlver_kernels::ppo::value_loss;
use rlver_models::ModelError;
use rlver_models::qwen2::Qwen2;

use super::advantages::Advantages;
use super::batch::{TrainRow, action_states, floats, micro_batches};
use super::losses::{LossRow, column, policy_term};
use super::optimizer::{AdamW, GradientSum};
use crate::Error;
use crate::objective::{PolicyMetrics, RowShape, token_weights};
use crate::recipe::ObjectiveSection;

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
    /// Log-probabilities before the update. An empty list stands for those of the update's own first forward, which
    /// is the same computation for the rows of [`first_mini_batch`].
    pub old_logprobs: &'a [Vec<f32>],
    /// Log-probabilities of the reference policy, for a KL loss.
    pub reference_logprobs: Option<&'a [Vec<f32>]>,
    /// Coefficient of a KL loss.
    pub kl_coef: f64,
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
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// Share of action tokens whose rollout importance weight was bounded.
    pub bounded_fraction: f64,
    /// Largest difference between sampled and trainer's log-probability among the rows without old ones.
    pub logprob_gap: f64,
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
    /// Probability ratios new/old of each row's action tokens, as the row's last update saw them before it moved the
    /// policy; a row no policy update read has none.
    pub ratios: Vec<Vec<f32>>,
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
    let mut report = UpdateReport { ratios: vec![Vec::new(); batch.rows.len()], ..UpdateReport::default() };
    let mut old_logprobs = batch.old_logprobs.to_vec();
    for mini in plan(batch.dialogues, objective, seed) {
        let weights = mini_weights(batch, &mini, objective)?;
        if weights.iter().all(|w| *w == 0.0) {
            continue;
        }
        report.steps += 1;
        let mini = split(batch, &mini, &weights, objective.micro_batch_tokens);
        if let Some(lr) = rates.policy {
            policy_step(policy, batch, &mini, &mut old_logprobs, objective, lr, &mut report)?;
        }
        if let (Some(critic), Some(old)) = (critic.as_deref_mut(), batch.old_values) {
            critic_step(critic, batch, &mini, old, objective, rates.critic, &mut report)?;
        }
    }
    let n = report.steps.max(1) as f64;
    for mean in [
        &mut report.policy_loss,
        &mut report.clip_fraction,
        &mut report.clip_fraction_lower,
        &mut report.approx_kl,
        &mut report.entropy,
        &mut report.bounded_fraction,
        &mut report.critic_loss,
        &mut report.critic_clip_fraction,
        &mut report.policy_grad_norm,
        &mut report.critic_grad_norm,
    ] {
        *mean /= n;
    }
    Ok(report)
}

/// Rows of the first mini-batch of [`update`] with the same seed, for which old log-probabilities need not be computed
/// beforehand.
pub fn first_mini_batch(dialogues: &[u64], objective: &ObjectiveSection, seed: u64) -> Vec<usize> {
    plan(dialogues, objective, seed).into_iter().next().unwrap_or_default()
}

/// Row indices of every mini-batch of every epoch: dialogues are shuffled and never split.
fn plan(dialogues: &[u64], objective: &ObjectiveSection, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Ids are sorted, so that neither the order of the rows nor how they mix dialogues decides who learns together.
    let mut order: Vec<u64> = dialogues.to_vec();
    order.sort_unstable();
    order.dedup();
    let size = if objective.mini_batch == 0 { order.len().max(1) } else { objective.mini_batch };
    let mut plan = Vec::new();
    for _ in 0..objective.ppo_epochs {
        let mut order = order.clone();
        order.shuffle(&mut rng);
        plan.extend(order.chunks(size).map(|chosen| {
            let rows_of = |dialogue| (0..dialogues.len()).filter(move |r| dialogues[*r] == dialogue);
            chosen.iter().flat_map(|dialogue| rows_of(*dialogue)).collect::<Vec<usize>>()
        }));
    }
    plan
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
    fn tokens(&self) -> usize {
        self.rows.iter().map(|r| r.actions.len()).sum()
    }

    /// Per-token values of the micro-batch's rows as `[n]`.
    fn gather(&self, values: impl Fn(usize) -> Vec<f32>, device: &Device) -> Tensor<1> {
        column(self.index.iter().flat_map(|&r| values(r)).collect(), device)
    }

    fn token_weights(&self, device: &Device) -> Tensor<1> {
        let of_row = |(row, w): (&&TrainRow, &f64)| std::iter::repeat_n(*w as f32, row.actions.len());
        column(self.rows.iter().zip(&self.weights).flat_map(of_row).collect(), device)
    }

    /// Where each row's action tokens are among the micro-batch's.
    fn ranges(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut start = 0;
        self.index.iter().zip(&self.rows).map(move |(&r, row)| {
            let range = start..start + row.actions.len();
            start = range.end;
            (r, range)
        })
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

/// One optimizer step on the sum of the micro-batches' losses; the gradient's norm, infinite or NaN when nothing was
/// changed.
fn optimise(
    learner: &mut Learner,
    mini: &[Micro<'_>],
    lr: f64,
    mut loss: impl FnMut(&Qwen2, &Micro<'_>) -> Result<Tensor<1>, Error>,
) -> Result<f64, Error> {
    let tracked = learner.model.tracked();
    let mut gradients = GradientSum::default();
    for micro in mini {
        gradients.add(&tracked, &mut loss(&tracked, micro)?.backward());
    }
    // The optimizer changes in place what nobody else holds.
    drop(tracked);
    Ok(learner.optimizer.update(&mut learner.model, gradients, lr))
}

fn policy_step(
    policy: &mut Learner,
    batch: &UpdateBatch<'_>,
    mini: &[Micro<'_>],
    old_logprobs: &mut [Vec<f32>],
    objective: &ObjectiveSection,
    lr: f64,
    report: &mut UpdateReport,
) -> Result<(), Error> {
    let mut metrics = PolicyMetrics::default();
    let (mut entropy, mut bounded) = (0.0, 0);
    let norm = optimise(policy, mini, lr, |tracked, micro| {
        let (hidden, targets) = action_states(tracked, &micro.rows)?;
        let scored = tracked.logprob(hidden, &targets, batch.temperature, batch.vocabulary)?;
        let rows: Vec<LossRow<'_>> = (micro.index.iter().zip(&micro.weights))
            .map(|(&r, weight)| LossRow {
                old_logprobs: Some(old_logprobs[r].as_slice()).filter(|old| !old.is_empty()),
                rollout_logprobs: &batch.rows[r].rollout_logprobs,
                reference_logprobs: batch.reference_logprobs.map(|reference| reference[r].as_slice()),
                advantages: &batch.targets.advantages[r],
                weight: *weight,
            })
            .collect();
        let term = policy_term(scored.logprob, scored.entropy, &rows, objective, batch.kl_coef)?;
        for (r, range) in micro.ranges() {
            let new = &term.logprobs[range];
            if old_logprobs[r].is_empty() {
                old_logprobs[r] = new.to_vec();
                let gaps = old_logprobs[r].iter().zip(&batch.rows[r].rollout_logprobs).map(|(a, b)| (a - b).abs());
                report.logprob_gap = report.logprob_gap.max(f64::from(gaps.fold(0.0, f32::max)));
            }
            report.ratios[r] = new.iter().zip(&old_logprobs[r]).map(|(new, old)| (new - old).exp()).collect();
        }
        metrics.merge(&term.metrics);
        entropy += term.entropy_sum;
        bounded += term.bounded;
        report.policy_loss += term.value;
        Ok(term.loss)
    })?;
    let tokens = metrics.tokens.max(1) as f64;
    report.clip_fraction += metrics.clip_fraction();
    report.clip_fraction_lower += metrics.clip_fraction_lower();
    report.approx_kl += metrics.approx_kl();
    report.entropy += entropy / tokens;
    report.bounded_fraction += bounded as f64 / tokens;
    report.ratio_max = report.ratio_max.max(metrics.ratio_max);
    note_norm(norm, &mut report.policy_grad_norm, &mut report.skipped);
    Ok(())
}

fn critic_step(
    critic: &mut Learner,
    batch: &UpdateBatch<'_>,
    mini: &[Micro<'_>],
    old_values: &[Vec<f32>],
    objective: &ObjectiveSection,
    lr: f64,
    report: &mut UpdateReport,
) -> Result<(), Error> {
    let clip = (objective.value_clip > 0.0).then_some(objective.value_clip as f32);
    let total: usize = mini.iter().map(Micro::tokens).sum();
    let norm = optimise(critic, mini, lr, |tracked, micro| {
        let device = tracked.device();
        let (hidden, _) = action_states(tracked, &micro.rows)?;
        let out = value_loss(
            tracked.values(hidden)?,
            micro.gather(|r| old_values[r].clone(), &device),
            micro.gather(|r| batch.targets.returns[r].iter().map(|v| *v as f32).collect(), &device),
            micro.token_weights(&device),
            clip,
        )
        .map_err(ModelError::from)?;
        let sums = floats(Tensor::cat(vec![out.loss.clone().inner(), out.clipped.inner()], 0));
        report.critic_loss += f64::from(sums[0]);
        report.critic_clip_fraction += f64::from(sums[1]) / total as f64;
        Ok(out.loss)
    })?;
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
