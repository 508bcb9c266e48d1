//! Advantages, metrics and log-probabilities.

use std::collections::HashSet;

use super::{AuditError, File, FileReport};
use crate::metrics::Metrics;
use crate::objective::AdvantageEstimator;
use crate::recipe::{KlControl, KlUse};
use crate::rollout::Segment;
use crate::train::{
    AdvantageInputs, Stage, TrainRow, compute_advantages, critic_values, describe_rollout, describe_sampling, noted,
    score,
};

/// How far a recomputed log-probability or value may lie from the recorded one: far more than the kernels differ with the
/// shape of a batch, far less than any edit that could matter.
const TOLERANCE: f64 = 1e-3;

impl File<'_> {
    /// Advantages follow from rewards and recorded values, over the whole step.
    pub(super) fn check_advantages(
        &self,
        report: &mut FileReport,
        note: &mut dyn FnMut(String),
    ) -> Result<(), AuditError> {
        let (recipe, episodes) = (&self.run.recipe, &self.held.episodes);
        let learning = !self.stage.is_evaluation();
        let rows = if learning { self.held.rows(recipe) } else { Vec::new() };
        let learned: HashSet<usize> = rows.iter().map(|row| row.episode).collect();
        let reference = recipe.objective.kl == KlUse::Reward;
        for (index, episode) in episodes.iter().enumerate() {
            let (at, learned) = (self.at(index), learned.contains(&index));
            for segment in episode.rows.iter().flat_map(|row| &row.segments).filter(|s| s.is_action()) {
                let n = |expected: bool| if expected { segment.ids.len() } else { 0 };
                let turn = segment.turn;
                at.same(turn, "the number of advantages", &segment.advantages.len(), &n(learned))?;
                at.same(turn, "the number of values", &segment.values.len(), &n(learned && recipe.has_critic()))?;
                let logprobs = [segment.old_logprobs.len(), segment.reference_logprobs.len()];
                at.same(turn, "the number of reference log-probabilities", &logprobs, &[n(learned && reference); 2])?;
                // While the critic warms up, no update reads the policy's tokens.
                let ratios = if segment.ratios.is_empty() { 0 } else { n(learned) };
                at.same(turn, "the number of ratios", &segment.ratios.len(), &ratios)?;
            }
        }
        let missing = match recipe.objective.advantage {
            AdvantageEstimator::Remax => Some("the greedy dialogues they are measured by"),
            AdvantageEstimator::GaeRlver => Some("the critic's values of what users said"),
            _ => None,
        };
        if rows.is_empty() {
            return Ok(());
        }
        if let Some(missing) = missing {
            note(format!("{}: advantages are not derived: {missing} are not recorded", self.name));
            return Ok(());
        }
        let recorded = |of: &dyn Fn(&Segment) -> &Vec<f32>| noted(episodes, &rows, of);
        let values = recipe.has_critic().then(|| recorded(&|s| &s.values));
        let references = reference.then(|| recorded(&|s| &s.reference_logprobs));
        let old = if reference { recorded(&|s| &s.old_logprobs) } else { recorded(&|s| &s.logprobs) };
        let derived = compute_advantages(
            &AdvantageInputs {
                episodes,
                rows: &rows,
                old_logprobs: &old,
                reference_logprobs: references.as_deref(),
                values: values.as_deref(),
                kl_coef: self.kl_coef()?,
                reply_limit: recipe.rollout.max_new_tokens,
                ..AdvantageInputs::default()
            },
            &recipe.objective,
        )
        .map_err(AuditError::Error)?;
        let found = recorded(&|s| &s.advantages);
        for ((row, found), derived) in rows.iter().zip(&found).zip(&derived.advantages) {
            for (index, (found, derived)) in found.iter().zip(derived).enumerate() {
                if !near(f64::from(*found), *derived, 1e-6) {
                    let problem = format!("an advantage is recorded as {found}, but {derived} follows");
                    return self.at(row.episode).wrong(turn_of(row, index), problem);
                }
            }
            report.advantages += derived.len();
        }
        Ok(())
    }

    /// The step's coefficient of a KL penalty: the recipe's, or where it adapts what the metrics say.
    fn kl_coef(&self) -> Result<f64, AuditError> {
        let objective = &self.run.recipe.objective;
        if objective.kl != KlUse::Reward || objective.kl_control == KlControl::Fixed {
            return Ok(objective.kl_coef);
        }
        self.recorded_metrics()?.and_then(|metrics| metrics.get("policy/kl_coef")).ok_or_else(|| AuditError::Whole {
            file: self.name.into(),
            problem: "policy/kl_coef is not among the step's metrics".into(),
        })
    }

    /// The metrics of the file's step; `None` for an evaluation.
    fn recorded_metrics(&self) -> Result<Option<&Metrics>, AuditError> {
        let Stage::Step(step) = self.stage else { return Ok(None) };
        let found = self.run.metrics.iter().find(|m| m.step() == step as u64);
        found.map(Some).ok_or_else(|| AuditError::Whole {
            file: format!("metrics.jsonl, step {step}"),
            problem: "is missing, but its dialogues are recorded".into(),
        })
    }

    /// The step's metrics follow from its dialogues.
    pub(super) fn check_metrics(&self, report: &mut FileReport) -> Result<(), AuditError> {
        let Some(recorded) = self.recorded_metrics()? else { return Ok(()) };
        let mut derived = Metrics::new(recorded.step());
        describe_rollout(&mut derived, &self.held.episodes);
        describe_sampling(&mut derived, &self.held, &self.run.recipe);
        for (key, derived) in derived.iter() {
            match recorded.get(key) {
                Some(found) if near(found, derived, 1e-9) => report.metrics += 1,
                found => {
                    let problem = format!("{key} is recorded as {found:?}, but {derived} follows from the dialogues");
                    return Err(AuditError::Whole {
                        file: format!("metrics.jsonl, step {}", recorded.step()),
                        problem,
                    });
                }
            }
        }
        Ok(())
    }

    /// Log-probabilities and values as the kept networks compute them.
    pub(super) fn check_logprobs(
        &self,
        report: &mut FileReport,
        note: &mut dyn FnMut(String),
    ) -> Result<(), AuditError> {
        let (recipe, episodes) = (&self.run.recipe, &self.held.episodes);
        let most = recipe.objective.micro_batch_tokens;
        // Unscored dialogues were sampled like the others.
        let mut all = episodes.clone();
        all.iter_mut().for_each(|episode| episode.reward = episode.reward.or(Some(0.0)));
        let rows = TrainRow::from_episodes(&all);
        match self.run.sampled_by(self.stage)? {
            Some(model) if !rows.is_empty() => {
                let temperature = match self.stage {
                    Stage::Step(_) => recipe.rollout.temperature,
                    _ if recipe.eval.temperature == 0.0 => 1.0,
                    _ => recipe.eval.temperature,
                };
                let derived = score(&model, &rows, temperature as f32, self.run.policy.vocabulary(), most)?;
                let recorded: Vec<Vec<f32>> = rows.iter().map(|row| row.rollout_logprobs.clone()).collect();
                self.compare(&rows, &recorded, &derived, "a log-probability")?;
                report.logprobs += derived.iter().map(Vec::len).sum::<usize>();
            }
            Some(_) => {}
            None => note(format!("{}: log-probabilities not checked, the policy of that step is not kept", self.name)),
        }
        let Stage::Step(step) = self.stage else { return Ok(()) };
        let rows = self.held.rows(recipe);
        if !recipe.has_critic() || rows.is_empty() {
            return Ok(());
        }
        if let Some(critic) = self.run.critic_of(step)? {
            let derived = critic_values(&critic, &rows, most)?;
            self.compare(&rows, &noted(episodes, &rows, |s| &s.values), &derived, "a value")?;
            report.values += derived.iter().map(Vec::len).sum::<usize>();
        }
        Ok(())
    }

    fn compare(
        &self,
        rows: &[TrainRow],
        recorded: &[Vec<f32>],
        derived: &[Vec<f32>],
        what: &str,
    ) -> Result<(), AuditError> {
        for ((row, recorded), derived) in rows.iter().zip(recorded).zip(derived) {
            for (index, (found, derived)) in recorded.iter().zip(derived).enumerate() {
                if !near(f64::from(*found), f64::from(*derived), TOLERANCE) {
                    let problem = format!("{what} is recorded as {found}, but the kept weights give {derived}");
                    return self.at(row.episode).wrong(turn_of(row, index), problem);
                }
            }
        }
        Ok(())
    }
}

/// Whether a recorded number is the derived one, as far as rounding goes; no number is near a NaN.
fn near(recorded: f64, derived: f64, tolerance: f64) -> bool {
    (recorded - derived).abs() <= tolerance * derived.abs().max(1.0)
}

/// The turn an action belongs to.
fn turn_of(row: &TrainRow, action: usize) -> usize {
    row.turn_ends.iter().find(|(end, _)| action <= *end).map_or(0, |(_, turn)| *turn)
}
