//! Turns what happened in a step into metrics; the keys are documented in [`crate::metrics::KEYS`].

use super::advantages::Advantages;
use super::sample::Sample;
use super::update::{Rates, UpdateReport};
use crate::evaluate::Summary;
use crate::metrics::Metrics;
use crate::recipe::Recipe;
use crate::rollout::{EndReason, Episode};
use crate::user::llm::engine::Usage;

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (n, sum) = values.fold((0usize, 0.0), |(n, sum), v| (n + 1, sum + v));
    if n == 0 { 0.0 } else { sum / n as f64 }
}

pub(crate) fn rollout(metrics: &mut Metrics, episodes: &[Episode]) {
    let scored: Vec<&Episode> = episodes.iter().filter(|e| e.reward.is_some()).collect();
    let rate = |of: &dyn Fn(&Episode) -> bool| mean(episodes.iter().map(|e| f64::from(u8::from(of(e)))));
    let finals: Vec<f64> = episodes.iter().filter_map(Episode::counted_emotion).map(f64::from).collect();
    let rewards: Vec<f64> = scored.iter().filter_map(|e| e.reward).collect();
    let reward_mean = mean(rewards.iter().copied());
    let tokens: usize = episodes.iter().map(Episode::action_tokens).sum();
    let turns: usize = episodes.iter().map(|e| e.turns.len()).sum();
    let guarded: usize = episodes.iter().map(Episode::guarded_turns).sum();
    // Without a score nothing was measured: no value is not the same as 0.
    if !scored.is_empty() {
        metrics.insert("emotion/mean", mean(finals.iter().copied()));
        metrics.insert("emotion/success_rate", mean(finals.iter().map(|f| f64::from(u8::from(*f >= 100.0)))));
        metrics.insert("emotion/failure_rate", mean(finals.iter().map(|f| f64::from(u8::from(*f < 10.0)))));
        metrics.insert("reward/mean", reward_mean);
        metrics.insert("reward/std", mean(rewards.iter().map(|r| (r - reward_mean).powi(2))).sqrt());
    }
    metrics.insert("emotion/guard_rate", guarded as f64 / turns.max(1) as f64);
    metrics.insert("rollout/dialogues", episodes.len() as f64);
    metrics.insert("rollout/tokens", tokens as f64);
    metrics.insert("rollout/tokens_per_turn", tokens as f64 / turns.max(1) as f64);
    metrics.insert("rollout/turns_per_dialogue", turns as f64 / episodes.len().max(1) as f64);
    metrics.insert("rollout/unscored", (episodes.len() - scored.len()) as f64);
    metrics.insert("rollout/malformed", rate(&|e| e.end == EndReason::Malformed));
    metrics.insert("rollout/truncated", rate(&|e| e.end == EndReason::Truncated));
}

pub(crate) fn sampling(metrics: &mut Metrics, sample: &Sample, recipe: &Recipe) {
    if recipe.objective.dynamic_sampling {
        metrics.insert("rollout/rounds", sample.rounds as f64);
    }
    if let Some(rewards) = &sample.greedy_rewards {
        // Summed in the order of the groups: the map's own order is another one every time.
        let ordered: std::collections::BTreeMap<_, _> = rewards.iter().collect();
        metrics.insert("reward/greedy_mean", mean(ordered.into_values().copied()));
    }
}

/// What the model behind the users used in a step.
pub(super) fn user(metrics: &mut Metrics, used: &Usage) {
    metrics.insert("user/requests", used.requests as f64);
    metrics.insert("user/retries", used.retries as f64);
    metrics.insert("user/failures", used.failures as f64);
    metrics.insert("user/prompt_tokens", used.prompt_tokens as f64);
    metrics.insert("user/completion_tokens", used.completion_tokens as f64);
    metrics.insert("user/request_s", used.seconds / used.requests.max(1) as f64);
    metrics.insert("user/cost", used.cost);
}

pub(super) fn update(metrics: &mut Metrics, report: &UpdateReport, rates: Rates, critic: bool) {
    if let Some(lr) = rates.policy {
        metrics.insert("policy/loss", report.policy_loss);
        metrics.insert("policy/clip_fraction", report.clip_fraction);
        metrics.insert("policy/clip_fraction_lower", report.clip_fraction_lower);
        metrics.insert("policy/approx_kl", report.approx_kl);
        metrics.insert("policy/entropy", report.entropy);
        metrics.insert("policy/ratio_max", report.ratio_max);
        metrics.insert("policy/lr", lr);
        metrics.insert("grad_norm/policy", report.policy_grad_norm);
    }
    if critic {
        metrics.insert("critic/loss", report.critic_loss);
        metrics.insert("critic/clip_fraction", report.critic_clip_fraction);
        metrics.insert("critic/lr", rates.critic);
        metrics.insert("grad_norm/critic", report.critic_grad_norm);
    }
}

pub(super) fn targets(metrics: &mut Metrics, targets: &Advantages, values: Option<&[Vec<f32>]>) {
    let average = mean(targets.advantages.iter().flatten().copied());
    let spread = mean(targets.advantages.iter().flatten().map(|a| (a - average).powi(2))).sqrt();
    metrics.insert("advantage/mean", average);
    metrics.insert("advantage/std", spread);
    match values {
        Some(values) => {
            let returns: Vec<f64> = targets.returns.iter().flatten().copied().collect();
            let residuals: Vec<f64> =
                returns.iter().zip(values.iter().flatten()).map(|(r, v)| r - f64::from(*v)).collect();
            let variance = |x: &[f64]| {
                let m = mean(x.iter().copied());
                mean(x.iter().map(|v| (v - m).powi(2)))
            };
            let total = variance(&returns);
            let explained = if total > 1e-12 { 1.0 - variance(&residuals) / total } else { 0.0 };
            metrics.insert("critic/explained_variance", explained);
        }
        None => {
            metrics.insert("group/zero_variance", targets.uninformative_groups as f64);
            metrics.insert("group/singletons", targets.singletons as f64);
        }
    }
}

pub(super) fn evaluation(metrics: &mut Metrics, summary: &Summary) {
    metrics.insert("eval/emotion_mean", summary.overall.mean_final_emotion.mean);
    metrics.insert("eval/success_rate", summary.overall.success_rate.mean);
    metrics.insert("eval/failure_rate", summary.overall.failure_rate.mean);
}
