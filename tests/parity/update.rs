//! Three full PPO updates of policy and critic on the tiny untied model against the same computation in `f64`, which
//! shares no code with the library (`double.rs` is its network): losses, gradient norms and every parameter.

use std::path::Path;

use rlver::objective::{Aggregation, KlClamp, KlEstimator};
use rlver::recipe::{KlUse, ObjectiveSection, OptimizerSection, Recipe, RewardPlacement};
use rlver::rollout::Episode;
use rlver::train::{
    AdamW, AdvantageInputs, Learner, Rates, TrainRow, UpdateBatch, UpdateReport, compute_advantages, critic_values,
    score, update,
};
use rlver_models::qwen2::{HeadKind, Qwen2};
use rlver_models::weights;

use crate::tiny::test_device;

use super::double::{Matrix, Parameters, Sizes, Tape};

const VOCABULARY: usize = 512;
const TEMPERATURE: f64 = 0.9;
const LR: f64 = 2e-4;
const CRITIC_LR: f64 = 4e-4;
const SIZES: Sizes = Sizes { layers: 2, heads: 4, kv_heads: 2, eps: 1e-6, theta: 1_000_000.0 };

/// Numbers that look random and are the same everywhere.
fn draw(seed: u64, n: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f64) / f64::from(1u32 << 31)
    };
    (0..n).map(|_| next()).collect()
}

fn parameters(model: &Qwen2) -> Parameters {
    let matrix = |shape: &[usize], values: Vec<f32>| Matrix {
        rows: if shape.len() == 2 { shape[0] } else { 1 },
        columns: *shape.last().unwrap(),
        values: values.into_iter().map(f64::from).collect(),
    };
    model.parameters().iter().map(|(name, p)| (name.clone(), matrix(&p.shape(), p.values()))).collect()
}

/// Three dialogues of two, one and three turns, with user tokens between and none, some or many before.
fn rows() -> Vec<TrainRow> {
    let turns: [&[(usize, usize)]; 3] = [&[(4, 5), (3, 6)], &[(7, 9)], &[(2, 3), (6, 1), (5, 8)]];
    turns
        .iter()
        .enumerate()
        .map(|(r, turns)| {
            let (mut actions, mut turn_ends, mut length) = (Vec::new(), Vec::new(), 0);
            for (turn, (said, sampled)) in turns.iter().enumerate() {
                actions.extend(length + said..length + said + sampled);
                turn_ends.push((actions.len() - 1, turn));
                length += said + sampled;
            }
            let ids = draw(40 + r as u64, length).iter().map(|u| (u * 500.0) as u32).collect();
            let rollout_logprobs = vec![0.0; actions.len()];
            TrainRow { episode: r, ids, actions, turn_ends, rollout_logprobs }
        })
        .collect()
}

const REWARDS: [f64; 3] = [0.85, 0.1, 0.5];

/// Log-softmax of a row of logits at the temperature.
fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let scaled: Vec<f64> = logits.iter().map(|z| z / TEMPERATURE).collect();
    let top = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = top + scaled.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
    scaled.iter().map(|z| z - lse).collect()
}

fn logits<'a>(parameters: &'a Parameters, row: &TrainRow, head: &str) -> (Tape<'a>, usize) {
    let mut tape = Tape::new(parameters, SIZES);
    let states = tape.states(&row.ids);
    let chosen = tape.rows(states, row.actions.iter().map(|a| a - 1).collect());
    let out = tape.project(chosen, head);
    (tape, out)
}

/// Log-probability of every action.
fn logprobs(parameters: &Parameters, row: &TrainRow) -> Vec<f64> {
    let (tape, out) = logits(parameters, row, "lm_head");
    let of = |(i, at): (usize, &usize)| log_softmax(tape.value(out).row(i))[row.ids[*at] as usize];
    row.actions.iter().enumerate().map(of).collect()
}

fn values(parameters: &Parameters, row: &TrainRow) -> Vec<f64> {
    let (tape, out) = logits(parameters, row, "score");
    tape.value(out).values.clone()
}

/// What an update is told.
struct Given {
    old: Vec<Vec<f64>>,
    reference: Vec<Vec<f64>>,
    old_values: Vec<Vec<f64>>,
    advantages: Vec<Vec<f64>>,
    returns: Vec<Vec<f64>>,
}

/// Whitened advantages and returns by the textbook recursion, reward on the last action.
fn advantages(old_values: &[Vec<f64>], o: &ObjectiveSection) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let (mut advantages, mut returns) = (Vec::new(), Vec::new());
    for (values, reward) in old_values.iter().zip(REWARDS) {
        let n = values.len();
        let (mut own, mut carried) = (vec![0.0; n], 0.0);
        for t in (0..n).rev() {
            let next = if t + 1 < n { o.gamma * values[t + 1] } else { reward };
            carried = next - values[t] + o.gamma * o.lambda * carried;
            own[t] = carried;
        }
        returns.push(own.iter().zip(values).map(|(a, v)| a + v).collect());
        advantages.push(own);
    }
    let all: Vec<f64> = advantages.concat();
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let variance = all.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (n - 1.0);
    for value in advantages.iter_mut().flatten() {
        *value = (*value - mean) / (variance + 1e-8).sqrt();
    }
    (advantages, returns)
}

/// Loss and gradients of the policy, every action of the batch weighing the same.
fn policy_loss(parameters: &Parameters, rows: &[TrainRow], given: &Given, o: &ObjectiveSection) -> (f64, Parameters) {
    let n: usize = rows.iter().map(|r| r.actions.len()).sum();
    let (mut loss, mut gradients) = (0.0, Parameters::new());
    for (r, row) in rows.iter().enumerate() {
        let (tape, out) = logits(parameters, row, "lm_head");
        let mut gradient = tape.value(out).clone();
        for (t, at) in row.actions.iter().enumerate() {
            let log_p = log_softmax(tape.value(out).row(t));
            let label = row.ids[*at] as usize;
            let (l, old, reference, a) = (log_p[label], given.old[r][t], given.reference[r][t], given.advantages[r][t]);
            let ratio = (l - old).exp();
            let clipped = ratio.clamp(1.0 - o.clip_low, 1.0 + o.clip_high);
            let (mut surrogate, mut slope) = (-a * ratio, -a * ratio);
            if -a * clipped > surrogate {
                (surrogate, slope) = (-a * clipped, 0.0);
            }
            if a < 0.0 && surrogate > -o.dual_clip * a {
                (surrogate, slope) = (-o.dual_clip * a, 0.0);
            }
            let gap = reference - l;
            let entropy: f64 = -log_p.iter().map(|l| l.exp() * l).sum::<f64>();
            loss += (surrogate - o.entropy_coef * entropy + o.kl_coef * (gap.exp() - gap - 1.0)) / n as f64;
            slope += o.kl_coef * (1.0 - gap.exp());
            for (j, z) in gradient.values[t * VOCABULARY..][..VOCABULARY].iter_mut().enumerate() {
                let p = log_p[j].exp();
                let d_logprob = f64::from(u8::from(j == label)) - p;
                let d_entropy = -p * (log_p[j] + entropy);
                *z = (slope * d_logprob - o.entropy_coef * d_entropy) / TEMPERATURE / n as f64;
            }
        }
        tape.backward(out, gradient, &mut gradients);
    }
    (loss, gradients)
}

fn critic_loss(parameters: &Parameters, rows: &[TrainRow], given: &Given, o: &ObjectiveSection) -> (f64, Parameters) {
    let n: usize = rows.iter().map(|r| r.actions.len()).sum();
    let (mut loss, mut gradients) = (0.0, Parameters::new());
    for (r, row) in rows.iter().enumerate() {
        let (tape, out) = logits(parameters, row, "score");
        let mut gradient = tape.value(out).clone();
        for (t, slot) in gradient.values.iter_mut().enumerate() {
            let (v, old, target) = (*slot, given.old_values[r][t], given.returns[r][t]);
            let held = v.clamp(old - o.value_clip, old + o.value_clip);
            let (free, moved) = ((v - target).powi(2), (held - target).powi(2));
            loss += 0.5 * free.max(moved) / n as f64;
            *slot = if moved > free { 0.0 } else { (v - target) / n as f64 };
        }
        tape.backward(out, gradient, &mut gradients);
    }
    (loss, gradients)
}

/// AdamW as torch has it, with clipping by the global norm; returns the norm before.
struct Double {
    parameters: Parameters,
    moments: std::collections::BTreeMap<String, (Vec<f64>, Vec<f64>)>,
    steps: i32,
}

impl Double {
    fn step(&mut self, gradients: &Parameters, lr: f64, s: &OptimizerSection) -> f64 {
        let norm = gradients.values().flat_map(|g| &g.values).map(|g| g * g).sum::<f64>().sqrt();
        let scale = (s.max_grad_norm / (norm + 1e-6)).min(1.0);
        self.steps += 1;
        for (name, parameter) in &mut self.parameters {
            let Some(gradient) = gradients.get(name) else { continue };
            let zeros = || (vec![0.0; gradient.values.len()], vec![0.0; gradient.values.len()]);
            let (m, v) = self.moments.entry(name.clone()).or_insert_with(zeros);
            for (i, p) in parameter.values.iter_mut().enumerate() {
                let g = gradient.values[i] * scale;
                m[i] = s.betas[0] * m[i] + (1.0 - s.betas[0]) * g;
                v[i] = s.betas[1] * v[i] + (1.0 - s.betas[1]) * g * g;
                let m_hat = m[i] / (1.0 - s.betas[0].powi(self.steps));
                let v_hat = v[i] / (1.0 - s.betas[1].powi(self.steps));
                *p = *p * (1.0 - lr * s.weight_decay) - lr * m_hat / (v_hat.sqrt() + s.eps);
            }
        }
        norm
    }
}

fn worst(a: impl IntoIterator<Item = f64>, b: impl IntoIterator<Item = f64>) -> f64 {
    let (mut worst, mut n, mut b) = (0.0f64, 0, b.into_iter());
    for a in a {
        worst = worst.max((a - b.next().expect("as many")).abs());
        n += 1;
    }
    assert!(n > 0 && b.next().is_none());
    worst
}

fn narrow(lists: &[Vec<f64>]) -> Vec<Vec<f32>> {
    lists.iter().map(|list| list.iter().map(|v| *v as f32).collect()).collect()
}

fn widen(lists: &[Vec<f32>]) -> Vec<Vec<f64>> {
    lists.iter().map(|list| list.iter().map(|v| f64::from(*v)).collect()).collect()
}

/// Policy and critic on the device; the critic's head is not zero, or its trunk would get no gradient.
fn networks() -> (Qwen2, Qwen2) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tests/fixtures/qwen2_tiny_untied");
    let device = test_device();
    let policy = weights::load(&folder, HeadKind::Vocabulary, &device).unwrap();
    let mut critic = policy.to_critic();
    critic.visit(&mut |name, shape, mut slot| {
        if name == "score.weight" {
            slot.set(draw(7, 64).iter().map(|u| (0.2 * u - 0.1) as f32).collect(), shape, &device);
        }
    });
    (policy, critic)
}

fn objective(kl_clamp: KlClamp) -> ObjectiveSection {
    ObjectiveSection {
        gamma: 0.98,
        lambda: 0.9,
        clip_low: 0.1,
        clip_high: 0.15,
        dual_clip: 1.2,
        value_clip: 0.05,
        aggregation: Aggregation::TokenMean,
        entropy_coef: 0.02,
        kl: KlUse::Loss,
        kl_estimator: KlEstimator::K3,
        kl_clamp,
        kl_coef: 0.3,
        reward: RewardPlacement::Terminal,
        micro_batch_tokens: 20,
        ..Recipe::default().objective
    }
}

fn episodes() -> Vec<Episode> {
    (0..3).map(|r| crate::rules::advantages::episode(r as u64, r as u64, Some(REWARDS[r]), vec![])).collect()
}

#[test]
fn three_updates_equal_an_independent_computation() {
    // The first clamp runs through the definition's gradient, the second through the kernel.
    for kl_clamp in [KlClamp::Verl, KlClamp::None] {
        let o = objective(kl_clamp);
        let settings =
            OptimizerSection { eps: 1e-5, weight_decay: 0.1, max_grad_norm: 0.5, ..Recipe::default().optimizer };
        let rows = rows();
        let (policy, critic) = networks();
        let new = |parameters| Double { parameters, moments: Default::default(), steps: 0 };
        let (mut policy_double, mut critic_double) = (new(parameters(&policy)), new(parameters(&critic)));

        // Old and reference log-probabilities differ from the policy's, so that the clip ranges have something to do.
        let start: Vec<Vec<f64>> = rows.iter().map(|r| logprobs(&policy_double.parameters, r)).collect();
        let shifted = |seed: u64, by: f64| -> Vec<Vec<f64>> {
            let one = |(r, l): (usize, &Vec<f64>)| {
                l.iter()
                    .zip(draw(seed + r as u64, l.len()))
                    .map(|(l, u)| f64::from((l + by * (u - 0.5)) as f32))
                    .collect()
            };
            start.iter().enumerate().map(one).collect()
        };
        let (old, reference) = (shifted(11, 0.8), shifted(21, 0.6));
        let old_values: Vec<Vec<f64>> = rows.iter().map(|r| values(&critic_double.parameters, r)).collect();
        let scored = score(&policy, &rows, TEMPERATURE as f32, VOCABULARY, 20).unwrap();
        assert!(worst(scored.concat().into_iter().map(f64::from), start.concat()) < 1e-5);
        let device_values = critic_values(&critic, &rows, 20).unwrap();
        assert!(worst(device_values.concat().into_iter().map(f64::from), old_values.concat()) < 1e-5);
        let (advantages, returns) = advantages(&old_values, &o);

        let old_f32 = narrow(&old);
        let reference_f32 = narrow(&reference);
        let targets = compute_advantages(
            &AdvantageInputs {
                episodes: &episodes(),
                rows: &rows,
                old_logprobs: &old_f32,
                values: Some(&device_values),
                ..AdvantageInputs::default()
            },
            &o,
        )
        .unwrap();
        assert!(worst(targets.advantages.concat(), advantages.concat()) < 1e-5);
        assert!(worst(targets.returns.concat(), returns.concat()) < 1e-5);

        let given = Given { old: widen(&old_f32), reference: widen(&reference_f32), old_values, advantages, returns };
        let learner = |model| Learner { model, optimizer: AdamW::new(&settings) };
        let (mut policy, mut critic) = (learner(policy), learner(critic));
        let before = parameters(&policy.model);
        for step in 0..3 {
            let dialogues = [0, 1, 2];
            let batch = UpdateBatch {
                rows: &rows,
                dialogues: &dialogues,
                old_logprobs: &old_f32,
                reference_logprobs: Some(&reference_f32),
                kl_coef: o.kl_coef,
                old_values: Some(&device_values),
                targets: &targets,
                temperature: TEMPERATURE as f32,
                vocabulary: VOCABULARY,
                norm_length: 1.0,
            };
            let rates = Rates { policy: Some(LR), critic: CRITIC_LR };
            let ours: UpdateReport = update(&mut policy, Some(&mut critic), &batch, &o, rates, step).unwrap();
            let (policy_loss, gradients) = policy_loss(&policy_double.parameters, &rows, &given, &o);
            let policy_norm = policy_double.step(&gradients, LR, &settings);
            let (critic_loss, gradients) = critic_loss(&critic_double.parameters, &rows, &given, &o);
            let critic_norm = critic_double.step(&gradients, CRITIC_LR, &settings);
            for (what, ours, theirs) in [
                ("policy loss", ours.policy_loss, policy_loss),
                ("policy gradient norm", ours.policy_grad_norm, policy_norm),
                ("critic loss", ours.critic_loss, critic_loss),
                ("critic gradient norm", ours.critic_grad_norm, critic_norm),
            ] {
                let error = (ours - theirs).abs() / theirs.abs().max(1.0);
                assert!(error < 1e-5, "step {step}, {what}: {ours} {theirs}");
            }
            assert!(
                ours.clip_fraction > 0.05 && ours.clip_fraction_lower > 0.0 && ours.critic_clip_fraction > 0.0
                    || step == 0
            );
            for (name, model, double) in
                [("policy", &policy.model, &policy_double), ("critic", &critic.model, &critic_double)]
            {
                for (parameter, theirs) in &double.parameters {
                    let ours = &parameters(model)[parameter];
                    let error = worst(ours.values.iter().copied(), theirs.values.iter().copied());
                    assert!(error < 1e-5, "step {step}, {name} {parameter}: {error:e}");
                }
            }
        }
        let moved = worst(
            parameters(&policy.model).into_values().flat_map(|m| m.values),
            before.into_values().flat_map(|m| m.values),
        );
        assert!(moved > 4e-4, "the updates moved the policy by {moved}, far beyond the tolerance");
    }
}

/// The network of the tests is right for itself: its gradient equals differences of its own loss.
#[test]
fn the_double_network_differentiates_itself() {
    let (policy, _) = networks();
    let rows = rows();
    let mut parameters = parameters(&policy);
    let nll = |parameters: &Parameters| -logprobs(parameters, &rows[2]).iter().sum::<f64>();
    let (tape, out) = logits(&parameters, &rows[2], "lm_head");
    let mut gradient = tape.value(out).clone();
    for (t, at) in rows[2].actions.iter().enumerate() {
        let log_p = log_softmax(tape.value(out).row(t));
        for (j, z) in gradient.values[t * VOCABULARY..][..VOCABULARY].iter_mut().enumerate() {
            *z = -(f64::from(u8::from(j == rows[2].ids[*at] as usize)) - log_p[j].exp()) / TEMPERATURE;
        }
    }
    let mut gradients = Parameters::new();
    tape.backward(out, gradient, &mut gradients);
    drop(tape);
    let names: Vec<String> = gradients.keys().cloned().collect();
    assert_eq!(names.len(), parameters.len());
    for name in names {
        // The largest entry of each parameter's gradient.
        let flat = &gradients[&name].values;
        let at = (0..flat.len()).max_by(|a, b| flat[*a].abs().total_cmp(&flat[*b].abs())).unwrap();
        let mut around = |by: f64| {
            parameters.get_mut(&name).unwrap().values[at] += by;
            let value = nll(&parameters);
            parameters.get_mut(&name).unwrap().values[at] -= by;
            value
        };
        let difference = (around(1e-5) - around(-1e-5)) / 2e-5;
        let error = (difference - flat[at]).abs() / flat[at].abs();
        assert!(error < 1e-5, "{name}: {difference} {}", flat[at]);
    }
}
