//! Advantages, metrics and log-probabilities.

use std::collections::{HashMap, HashSet};

use super::{At, AuditError, Check, File, FileReport, Kind};
use crate::metrics::Metrics;
use crate::objective::AdvantageEstimator;
use crate::recipe::KlUse;
use crate::rollout::{Segment, TokenRow};
use crate::train::{
    AdvantageInputs, TrainRow, compute_advantages, critic_values, describe_rollout, evaluate_response, score,
};

/// How far a recomputed log-probability or value may lie from the recorded one: far more than the kernels differ with the
/// shape of a batch, far less than any edit that could matter.
const TOLERANCE: f32 = 1e-3;

impl Check<'_> {
    /// Advantages follow from rewards and recorded values, over the whole step.
    pub(super) fn advantages(&self, report: &mut FileReport) -> Result<(), AuditError> {
        let File { name, rows, episodes, .. } = self.file;
        let recipe = &self.run.recipe;
        let (critic, reference) = (recipe.has_critic(), recipe.objective.kl == KlUse::Reward);
        let whole = recipe.objective.advantage == AdvantageEstimator::GaeRlver;
        let learnt: HashSet<usize> = rows.iter().map(|row| row.episode).collect();
        for (index, episode) in episodes.iter().enumerate() {
            let (at, learnt) = (At { file: name, episode }, learnt.contains(&index));
            for row in &episode.rows {
                let mut begun = false;
                for segment in &row.segments {
                    let (turn, action) = (segment.turn, segment.is_action());
                    begun |= action;
                    let n = |expected: bool| if expected && learnt { segment.ids.len() } else { 0 };
                    at.same(turn, "the number of advantages", &segment.advantages.len(), &n(action))?;
                    let valued = critic && if whole { begun } else { action };
                    at.same(turn, "the number of values", &segment.values.len(), &n(valued))?;
                    let logprobs = [segment.old_logprobs.len(), segment.reference_logprobs.len()];
                    at.same(
                        turn,
                        "the number of reference log-probabilities",
                        &logprobs,
                        &[n(action && reference); 2],
                    )?;
                }
            }
        }
        let Kind::Step(step) = self.file.kind else { return Ok(()) };
        if rows.is_empty() {
            return Ok(());
        }
        let recorded = |of: &dyn Fn(&Segment) -> &Vec<f32>| self.per_row(of, true);
        let values = critic.then(|| recorded(&|s| &s.values));
        let response_values = (critic && whole).then(|| self.per_row(&|s| &s.values, false));
        let references = reference.then(|| recorded(&|s| &s.reference_logprobs));
        let old = if reference { recorded(&|s| &s.old_logprobs) } else { recorded(&|s| &s.logprobs) };
        let metrics = self.run.metrics.iter().find(|m| m.step() == step as u64);
        let derived = compute_advantages(
            &AdvantageInputs {
                episodes,
                rows,
                old_logprobs: &old,
                reference_logprobs: references.as_deref(),
                values: values.as_deref(),
                response_values: response_values.as_deref(),
                greedy_rewards: self.file.greedy_rewards.as_ref(),
                // A controller may have moved it since the recipe.
                kl_coef: metrics.and_then(|m| m.get("policy/kl_coef")).unwrap_or(recipe.objective.kl_coef),
                reply_limit: recipe.rollout.max_new_tokens,
            },
            &recipe.objective,
        )
        .map_err(AuditError::Error)?;
        let found = recorded(&|s| &s.advantages);
        for ((row, found), derived) in rows.iter().zip(&found).zip(&derived.advantages) {
            let at = At { file: name, episode: &episodes[row.episode] };
            for (index, (found, derived)) in found.iter().zip(derived).enumerate() {
                if (f64::from(*found) - derived).abs() > 1e-6 * derived.abs().max(1.0) {
                    let turn = turn_of(row, index);
                    return at.wrong(turn, format!("an advantage is recorded as {found}, but {derived} follows"));
                }
            }
            report.advantages += derived.len();
        }
        Ok(())
    }

    /// A recorded number per action of every row that was learnt from; or, of all tokens from the first action on.
    fn per_row(&self, of: &dyn Fn(&Segment) -> &Vec<f32>, actions_only: bool) -> Vec<Vec<f32>> {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        let mut out = Vec::with_capacity(self.file.rows.len());
        for row in &self.file.rows {
            let nth = seen.entry(row.episode).or_default();
            let acted = |row: &&TokenRow| row.segments.iter().any(Segment::is_action);
            let recorded = self.file.episodes[row.episode].rows.iter().filter(acted).nth(*nth);
            *nth += 1;
            let segments = recorded.into_iter().flat_map(|row| &row.segments).skip_while(|s| !s.is_action());
            let wanted = segments.filter(|s| !actions_only || s.is_action());
            out.push(wanted.flat_map(|s| of(s).iter().copied()).collect());
        }
        out
    }

    /// The step's metrics follow from its dialogues.
    pub(super) fn metrics(&self, report: &mut FileReport) -> Result<(), AuditError> {
        let Kind::Step(step) = self.file.kind else { return Ok(()) };
        let wrong = |problem: String| Err(AuditError::Whole { file: format!("metrics.jsonl, step {step}"), problem });
        let Some(recorded) = self.run.metrics.iter().find(|m| m.step() == step as u64) else {
            return wrong("is missing, but its dialogues are recorded".into());
        };
        let mut derived = Metrics::new(step as u64);
        describe_rollout(&mut derived, &self.file.episodes);
        for (key, derived) in derived.iter() {
            match recorded.get(key) {
                Some(found) if (found - derived).abs() <= 1e-9 * derived.abs().max(1.0) => report.metrics += 1,
                found => {
                    return wrong(format!("{key} is recorded as {found:?}, but {derived} follows from the dialogues"));
                }
            }
        }
        Ok(())
    }

    /// Log-probabilities and values as the kept networks compute them.
    pub(super) fn logprobs(&self, report: &mut FileReport, note: &mut dyn FnMut(String)) -> Result<(), AuditError> {
        let File { name, episodes, rows, kind, .. } = self.file;
        let recipe = &self.run.recipe;
        let most = recipe.objective.micro_batch_tokens;
        // Unscored dialogues were sampled like the others.
        let mut all = episodes.to_vec();
        all.iter_mut().for_each(|episode| episode.reward = episode.reward.or(Some(0.0)));
        let sampled = TrainRow::from_episodes(&all);
        match self.run.sampled_by(*kind)? {
            Some(model) if !sampled.is_empty() => {
                let temperature = match kind {
                    Kind::Step(_) => recipe.rollout.temperature,
                    Kind::Greedy(_) => 1.0,
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
        let Kind::Step(step) = *kind else { return Ok(()) };
        if !recipe.has_critic() || rows.is_empty() {
            return Ok(());
        }
        if let Some(critic) = self.run.critic_of(step)? {
            let whole = recipe.objective.advantage == AdvantageEstimator::GaeRlver;
            let derived = match whole {
                true => evaluate_response(&critic, rows, most)?,
                false => critic_values(&critic, rows, most)?,
            };
            for ((row, recorded), derived) in rows.iter().zip(self.per_row(&|s| &s.values, !whole)).zip(&derived) {
                self.compare(row, &recorded, derived, "a value")?;
                report.values += derived.len();
            }
        }
        Ok(())
    }

    fn compare(&self, row: &TrainRow, recorded: &[f32], derived: &[f32], what: &str) -> Result<(), AuditError> {
        let at = At { file: &self.file.name, episode: &self.file.episodes[row.episode] };
        if recorded.len() != derived.len() {
            return at.wrong(0, format!("{} of {} are recorded of {what}", recorded.len(), derived.len()));
        }
        for (index, (found, derived)) in recorded.iter().zip(derived).enumerate() {
            // Also refuses what is no number.
            let close = (found - derived).abs() <= TOLERANCE * derived.abs().max(1.0);
            if !close {
                let turn = turn_of(row, index);
                return at.wrong(turn, format!("{what} is recorded as {found}, but the kept weights give {derived}"));
            }
        }
        Ok(())
    }
}

/// The turn an action belongs to.
fn turn_of(row: &TrainRow, action: usize) -> usize {
    row.turn_ends.iter().find(|(end, _)| action <= *end).map_or(0, |(_, turn)| *turn)
}
