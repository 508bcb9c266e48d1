use rlver_models::qwen2::Qwen2;

use super::{MAX_SKIPPED, Trainer};
use crate::Error;
use crate::metrics::Metrics;
use crate::objective::{AdvantageEstimator, LrSchedule};
use crate::recipe::{KlUse, LogprobSource, RolloutIs};
use crate::seed::{self, Purpose};
use crate::train::advantages::{self, AdvantageInputs};
use crate::train::batch::{self, TrainRow};
use crate::train::note::{Tokens, note};
use crate::train::sample::Sample;
use crate::train::update::{Rates, UpdateBatch, first_mini_batch, update};
use crate::train::{Event, describe};

impl Trainer<'_> {
    /// Advantages and the update of policy and critic.
    pub(super) fn learn(
        &mut self,
        step: usize,
        sample: &mut Sample,
        rows: &[TrainRow],
        metrics: &mut Metrics,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        // What the engine holds would have to be copied before it is changed.
        self.engine.release_model();
        let objective = &self.recipe.objective;
        let (temperature, vocabulary) = (self.recipe.rollout.temperature as f32, self.policy.vocabulary());
        let max_tokens = objective.micro_batch_tokens;
        let episodes = &mut sample.episodes;
        let dialogues: Vec<u64> = rows.iter().map(|r| episodes[r.episode].dialogue).collect();
        let shuffle = seed::mix(&[self.recipe.run.seed, Purpose::Shuffle as u64, step as u64]);
        let rates = self.rates(step)?;
        let (old_logprobs, gap) = self.old_logprobs(rows, &dialogues, rates, shuffle)?;
        let score_reference = |model: &Qwen2| batch::score(model, rows, temperature, vocabulary, max_tokens);
        let reference_logprobs = self.reference.as_ref().map(score_reference).transpose()?;
        let (values, response_values) = match &self.critic {
            None => (None, None),
            Some(critic) if objective.advantage == AdvantageEstimator::GaeRlver => {
                let response = batch::evaluate_response(&critic.model, rows, max_tokens)?;
                let of_actions = |(row, values): (&TrainRow, &Vec<f32>)| {
                    row.actions.iter().map(|at| values[at - row.response().start]).collect()
                };
                (Some(rows.iter().zip(&response).map(of_actions).collect()), Some(response))
            }
            Some(critic) => (Some(batch::evaluate(&critic.model, rows, max_tokens)?), None),
        };
        let values: Option<Vec<Vec<f32>>> = values;
        let targets = advantages::compute(
            &AdvantageInputs {
                episodes,
                rows,
                old_logprobs: &old_logprobs,
                reference_logprobs: reference_logprobs.as_deref(),
                values: values.as_deref(),
                response_values: response_values.as_deref(),
                greedy_rewards: sample.greedy_rewards.as_ref(),
                kl_coef: self.kl.coef(),
                reply_limit: self.recipe.rollout.max_new_tokens,
            },
            objective,
        )?;
        if targets.advantages.iter().flatten().all(|a| *a == 0.0) {
            report(Event::Note(format!("step {step}: all rewards are equal; they teach the policy nothing")));
        }
        let update_batch = UpdateBatch {
            rows,
            dialogues: &dialogues,
            old_logprobs: &old_logprobs,
            reference_logprobs: reference_logprobs.as_deref(),
            kl_coef: self.kl.coef(),
            old_values: values.as_deref(),
            targets: &targets,
            temperature,
            vocabulary,
            norm_length: self.recipe.rollout.max_context as f64,
        };
        let result = update(&mut self.learner, self.critic.as_mut(), &update_batch, objective, rates, shuffle)?;
        self.skipped_in_a_row = if result.skipped > 0 { self.skipped_in_a_row + 1 } else { 0 };
        if self.skipped_in_a_row >= MAX_SKIPPED {
            return Err(Error::Diverged(self.skipped_in_a_row));
        }
        describe::update(metrics, &result, rates, self.critic.is_some());
        describe::targets(metrics, &targets, values.as_deref());
        if objective.old_logprobs == LogprobSource::Recompute && rates.policy.is_some() {
            metrics.insert("rollout/logprob_gap", gap.max(result.logprob_gap));
        }
        if objective.rollout_is != RolloutIs::None {
            metrics.insert("rollout/is_bounded", result.bounded_fraction);
        }
        if let Some(mean_kl) = targets.mean_kl {
            metrics.insert("policy/kl_reference", mean_kl);
            metrics.insert("policy/kl_coef", self.kl.coef());
            self.kl.update(mean_kl, rows.len());
        }
        let advantages: Vec<Vec<f32>> =
            targets.advantages.iter().map(|row| row.iter().map(|a| *a as f32).collect()).collect();
        note(episodes, rows, Tokens::Actions, &advantages, |segment| &mut segment.advantages);
        note(episodes, rows, Tokens::Actions, &result.ratios, |segment| &mut segment.ratios);
        if let Some(response) = &response_values {
            note(episodes, rows, Tokens::Response, response, |segment| &mut segment.values);
        } else if let Some(values) = &values {
            note(episodes, rows, Tokens::Actions, values, |segment| &mut segment.values);
        }
        if objective.kl == KlUse::Reward
            && let Some(reference) = &reference_logprobs
        {
            note(episodes, rows, Tokens::Actions, &old_logprobs, |segment| &mut segment.old_logprobs);
            note(episodes, rows, Tokens::Actions, reference, |segment| &mut segment.reference_logprobs);
        }
        Ok(())
    }

    /// Log-probabilities before the update, and how far the trainer's are from the sampled ones at most. Rows whose old
    /// log-probabilities the update computes anyway get an empty list.
    fn old_logprobs(
        &self,
        rows: &[TrainRow],
        dialogues: &[u64],
        rates: Rates,
        shuffle: u64,
    ) -> Result<(Vec<Vec<f32>>, f64), Error> {
        let objective = &self.recipe.objective;
        if objective.old_logprobs == LogprobSource::Rollout {
            return Ok((rows.iter().map(|r| r.rollout_logprobs.clone()).collect(), 0.0));
        }
        let mut wanted = vec![true; rows.len()];
        if self.reference.is_none() {
            match rates.policy {
                Some(_) => first_mini_batch(dialogues, objective, shuffle).iter().for_each(|r| wanted[*r] = false),
                // Only the critic learns: nobody asks for them.
                None => wanted.fill(false),
            }
        }
        let chosen: Vec<usize> = (0..rows.len()).filter(|r| wanted[*r]).collect();
        let chosen_rows: Vec<&TrainRow> = chosen.iter().map(|r| &rows[*r]).collect();
        let scored = batch::score_some(
            &self.learner.model,
            &chosen_rows,
            self.recipe.rollout.temperature as f32,
            self.policy.vocabulary(),
            objective.micro_batch_tokens,
        )?;
        let (mut old, mut gap) = (vec![Vec::new(); rows.len()], 0.0f32);
        for (r, logprobs) in chosen.into_iter().zip(scored) {
            let gaps = logprobs.iter().zip(&rows[r].rollout_logprobs).map(|(a, b)| (a - b).abs());
            gap = gaps.fold(gap, f32::max);
            old[r] = logprobs;
        }
        Ok((old, f64::from(gap)))
    }

    fn rates(&self, step: usize) -> Result<Rates, Error> {
        let o = &self.recipe.optimizer;
        let factor = |warmup_steps| {
            LrSchedule {
                decay: o.decay,
                warmup_steps,
                total_steps: self.recipe.run.steps as u64,
                min_lr_ratio: o.min_lr_ratio,
            }
            .factor(step as u64 - 1)
        };
        let frozen = self.critic.is_some() && step <= self.recipe.objective.critic_warmup;
        Ok(Rates {
            policy: if frozen { None } else { Some(o.lr * factor(o.warmup_steps)?) },
            critic: o.critic_lr * factor(o.critic_warmup_steps)?,
        })
    }
}
