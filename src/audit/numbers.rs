//! Advantages, metrics and log-probabilities.

use std::collections::HashSet;

use super::{AuditError, Check, File, FileReport};
use crate::metrics::Metrics;
use crate::objective::AdvantageEstimator;
use crate::recipe::{KlControl, KlUse};
use crate::rollout::Segment;
use crate::train::{
    AdvantageInputs, Stage, Tokens, TrainRow, compute_advantages, critic_values, describe_rollout, describe_sampling,
    evaluate_response, noted, score,
};

/// How far a recomputed log-probability or value may lie from the recorded one: far more than the kernels differ with the
/// shape of a batch, far less than any edit that could matter.
const TOLERANCE: f64 = 1e-3;

impl Check<'_> {
    /// Advantages follow from rewards and recorded values, over the whole step.
    pub(super) fn advantages(&self, report: &mut FileReport) -> Result<(), AuditError> {
        self.how_many()?;
        let File { rows, held, .. } = self.file;
        if rows.is_empty() {
            return Ok(());
        }
        let (recipe, reference) = (&self.run.recipe, self.has_reference());
        let recorded = |tokens: Tokens, of: &dyn Fn(&Segment) -> &Vec<f32>| noted(&held.episodes, rows, tokens, of);
        let of_actions = |of: &dyn Fn(&Segment) -> &Vec<f32>| recorded(Tokens::Actions, of);
        let values = recipe.has_critic().then(|| of_actions(&|s| &s.values));
        let response_values = (self.valued() == Tokens::Response).then(|| recorded(Tokens::Response, &|s| &s.values));
        let references = reference.then(|| of_actions(&|s| &s.reference_logprobs));
        let old = if reference { of_actions(&|s| &s.old_logprobs) } else { of_actions(&|s| &s.logprobs) };
        let derived = compute_advantages(
            &AdvantageInputs {
                episodes: &held.episodes,
                rows,
                old_logprobs: &old,
                reference_logprobs: references.as_deref(),
                values: values.as_deref(),
                response_values: response_values.as_deref(),
                greedy_rewards: held.greedy_rewards.as_ref(),
                kl_coef: self.kl_coef()?,
                reply_limit: recipe.rollout.max_new_tokens,
            },
            &recipe.objective,
        )
        .map_err(AuditError::Error)?;
        let found = of_actions(&|s| &s.advantages);
        for ((row, found), derived) in rows.iter().zip(&found).zip(&derived.advantages) {
            for (index, (found, derived)) in found.iter().zip(derived).enumerate() {
                if !near(f64::from(*found), *derived, 1e-6) {
                    let problem = format!("an advantage is recorded as {found}, but {derived} follows");
                    return self.file.at(row.episode).wrong(turn_of(row, index), problem);
                }
            }
            report.advantages += derived.len();
        }
        Ok(())
    }

    /// Every token that was learnt from has its numbers, and no other.
    fn how_many(&self) -> Result<(), AuditError> {
        let learnt: HashSet<usize> = self.file.rows.iter().map(|row| row.episode).collect();
        let (critic, reference) = (self.run.recipe.has_critic(), self.has_reference());
        for (index, episode) in self.file.held.episodes.iter().enumerate() {
            let (at, learnt) = (self.file.at(index), learnt.contains(&index));
            for row in &episode.rows {
                let mut begun = false;
                for segment in &row.segments {
                    let (turn, action) = (segment.turn, segment.is_action());
                    begun |= action;
                    let n = |expected: bool| if expected && learnt { segment.ids.len() } else { 0 };
                    at.same(turn, "the number of advantages", &segment.advantages.len(), &n(action))?;
                    let valued = critic && self.valued().includes(segment, begun);
                    at.same(turn, "the number of values", &segment.values.len(), &n(valued))?;
                    let logprobs = [segment.old_logprobs.len(), segment.reference_logprobs.len()];
                    let expected = [n(action && reference); 2];
                    at.same(turn, "the number of reference log-probabilities", &logprobs, &expected)?;
                    // While the critic warms up, no update reads the policy's tokens.
                    let ratios = n(action && !segment.ratios.is_empty());
                    at.same(turn, "the number of ratios", &segment.ratios.len(), &ratios)?;
                }
            }
        }
        Ok(())
    }

    /// Whether advantages depend on log-probabilities.
    fn has_reference(&self) -> bool {
        self.run.recipe.objective.kl == KlUse::Reward
    }

    /// The tokens that a critic's values are recorded of.
    fn valued(&self) -> Tokens {
        match self.run.recipe.objective.advantage {
            AdvantageEstimator::GaeRlver => Tokens::Response,
            _ => Tokens::Actions,
        }
    }

    /// The step's coefficient of a KL penalty: the recipe's, or where it adapts what the metrics say.
    fn kl_coef(&self) -> Result<f64, AuditError> {
        let objective = &self.run.recipe.objective;
        if !self.has_reference() || objective.kl_control == KlControl::Fixed {
            return Ok(objective.kl_coef);
        }
        self.recorded_metrics()?.and_then(|metrics| metrics.get("policy/kl_coef")).ok_or_else(|| AuditError::Whole {
            file: self.file.name.clone(),
            problem: "policy/kl_coef is not among the step's metrics".into(),
        })
    }

    /// The metrics of the file's step; `None` where it is none.
    fn recorded_metrics(&self) -> Result<Option<&Metrics>, AuditError> {
        let Stage::Step(step) = self.file.kind else { return Ok(None) };
        let found = self.run.metrics.iter().find(|m| m.step() == step as u64);
        found.map(Some).ok_or_else(|| AuditError::Whole {
            file: format!("metrics.jsonl, step {step}"),
            problem: "is missing, but its dialogues are recorded".into(),
        })
    }

    /// The step's metrics follow from its dialogues.
    pub(super) fn metrics(&self, report: &mut FileReport) -> Result<(), AuditError> {
        let Some(recorded) = self.recorded_metrics()? else { return Ok(()) };
        let mut derived = Metrics::new(recorded.step());
        describe_rollout(&mut derived, &self.file.held.episodes);
        describe_sampling(&mut derived, &self.file.held, &self.run.recipe);
        for (key, derived) in derived.iter() {
            match recorded.get(key) {
                Some(found) if near(found, derived, 1e-9) => report.metrics += 1,
                found => {
                    let problem = format!("{key} is recorded as {found:?}, but {derived} follows from the dialogues");
                    let file = format!("metrics.jsonl, step {}", recorded.step());
                    return Err(AuditError::Whole { file, problem });
                }
            }
        }
        Ok(())
    }

    /// Log-probabilities and values as the kept networks compute them.
    pub(super) fn logprobs(&self, report: &mut FileReport, note: &mut dyn FnMut(String)) -> Result<(), AuditError> {
        let File { name, held, rows, kind, .. } = self.file;
        let recipe = &self.run.recipe;
        let most = recipe.objective.micro_batch_tokens;
        // Unscored dialogues were sampled like the others.
        let mut all = held.episodes.clone();
        all.iter_mut().for_each(|episode| episode.reward = episode.reward.or(Some(0.0)));
        let sampled = TrainRow::from_episodes(&all);
        match self.run.sampled_by(*kind)? {
            Some(model) if !sampled.is_empty() => {
                let temperature = match kind {
                    Stage::Step(_) => recipe.rollout.temperature,
                    Stage::Greedy(_) => 1.0,
                    _ if recipe.eval.temperature == 0.0 => 1.0,
                    _ => recipe.eval.temperature,
                };
                let derived = score(&model, &sampled, temperature as f32, self.run.policy.vocabulary(), most)?;
                for (row, derived) in sampled.iter().zip(&derived) {
                    self.compare(row, &row.rollout_logprobs, derived, "a log-probability")?;
                    report.logprobs += derived.len();
                }
            }
            Some(_) => {}
            None => note(format!("{name}: log-probabilities not checked, the policy of that step is not kept")),
        }
        let Stage::Step(step) = *kind else { return Ok(()) };
        if !recipe.has_critic() || rows.is_empty() {
            return Ok(());
        }
        if let Some(critic) = self.run.critic_of(step)? {
            let derived = match self.valued() {
                Tokens::Response => evaluate_response(&critic, rows, most)?,
                Tokens::Actions => critic_values(&critic, rows, most)?,
            };
            let recorded = noted(&held.episodes, rows, self.valued(), |s| &s.values);
            for ((row, recorded), derived) in rows.iter().zip(&recorded).zip(&derived) {
                self.compare(row, recorded, derived, "a value")?;
                report.values += derived.len();
            }
        }
        Ok(())
    }

    fn compare(&self, row: &TrainRow, recorded: &[f32], derived: &[f32], what: &str) -> Result<(), AuditError> {
        let at = self.file.at(row.episode);
        if recorded.len() != derived.len() {
            return at.wrong(0, format!("{} of {} are recorded of {what}", recorded.len(), derived.len()));
        }
        for (index, (found, derived)) in recorded.iter().zip(derived).enumerate() {
            if !near(f64::from(*found), f64::from(*derived), TOLERANCE) {
                let turn = turn_of(row, index);
                return at.wrong(turn, format!("{what} is recorded as {found}, but the kept weights give {derived}"));
            }
        }
        Ok(())
    }
}

/// Whether a recorded number is the derived one, as far as rounding goes; nothing is near what is no number.
fn near(recorded: f64, derived: f64, tolerance: f64) -> bool {
    (recorded - derived).abs() <= tolerance * derived.abs().max(1.0)
}

/// The turn an action belongs to.
fn turn_of(row: &TrainRow, action: usize) -> usize {
    row.turn_ends.iter().find(|(end, _)| action <= *end).map_or(0, |(_, turn)| *turn)
}
