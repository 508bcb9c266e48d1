//! Advantages, metrics and log-probabilities.

use super::{At, AuditError, File, FileReport, Kind};
use crate::metrics::Metrics;
use crate::recipe::KlUse;
use crate::rollout::{Episode, Segment};
use crate::train::{AdvantageInputs, TrainRow, compute_advantages, critic_values, describe_rollout, score};

/// How far a recomputed log-probability or value may lie from the recorded one: far more than the kernels differ with the
/// shape of a batch, far less than any edit that could matter.
const TOLERANCE: f32 = 1e-3;

impl File<'_> {
    /// Advantages follow from rewards and recorded values, over the whole step.
    pub(super) fn check_advantages(&self, episodes: &[Episode], report: &mut FileReport) -> Result<(), AuditError> {
        let rows = TrainRow::from_episodes(episodes);
        let recipe = &self.run.recipe;
        let learning = matches!(self.kind, Kind::Step(_));
        let reference = recipe.objective.kl == KlUse::Reward;
        for episode in episodes {
            let (at, scored) = (At { file: self.name, episode }, learning && episode.reward.is_some());
            for segment in episode.rows.iter().flat_map(|row| &row.segments).filter(|s| s.is_action()) {
                let n = |expected: bool| if expected { segment.ids.len() } else { 0 };
                let turn = segment.turn;
                at.same(turn, "the number of advantages", &segment.advantages.len(), &n(scored))?;
                at.same(turn, "the number of values", &segment.values.len(), &n(scored && recipe.has_critic()))?;
                let logprobs = [segment.old_logprobs.len(), segment.reference_logprobs.len()];
                at.same(turn, "the number of reference log-probabilities", &logprobs, &[n(scored && reference); 2])?;
            }
        }
        if !learning || rows.is_empty() {
            return Ok(());
        }
        let recorded = |of: &dyn Fn(&Segment) -> &Vec<f32>| -> Vec<Vec<f32>> { per_row(episodes, of) };
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
                kl_coef: recipe.objective.kl_coef,
            },
            &recipe.objective,
        )
        .map_err(AuditError::Error)?;
        let found = recorded(&|s| &s.advantages);
        for ((row, found), derived) in rows.iter().zip(&found).zip(&derived.advantages) {
            let at = At { file: self.name, episode: &episodes[row.episode] };
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

    /// The step's metrics follow from its dialogues.
    pub(super) fn check_metrics(&self, episodes: &[Episode], report: &mut FileReport) -> Result<(), AuditError> {
        let Kind::Step(step) = self.kind else { return Ok(()) };
        let wrong = |problem: String| Err(AuditError::Whole { file: format!("metrics.jsonl, step {step}"), problem });
        let Some(recorded) = self.run.metrics.iter().find(|m| m.step() == step as u64) else {
            return wrong("is missing, but its dialogues are recorded".into());
        };
        let mut derived = Metrics::new(step as u64);
        describe_rollout(&mut derived, episodes);
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
    pub(super) fn check_logprobs(
        &self,
        episodes: &[Episode],
        report: &mut FileReport,
        note: &mut dyn FnMut(String),
    ) -> Result<(), AuditError> {
        let recipe = &self.run.recipe;
        let most = recipe.objective.micro_batch_tokens;
        // Unscored dialogues were sampled like the others.
        let mut all = episodes.to_vec();
        all.iter_mut().for_each(|episode| episode.reward = episode.reward.or(Some(0.0)));
        let rows = TrainRow::from_episodes(&all);
        match self.run.sampled_by(self.kind)? {
            Some(model) if !rows.is_empty() => {
                let temperature = match self.kind {
                    Kind::Step(_) => recipe.rollout.temperature,
                    _ if recipe.eval.temperature == 0.0 => 1.0,
                    _ => recipe.eval.temperature,
                };
                let derived = score(&model, &rows, temperature as f32, self.run.policy.vocabulary(), most)?;
                let recorded: Vec<Vec<f32>> = rows.iter().map(|row| row.rollout_logprobs.clone()).collect();
                self.compare(episodes, &rows, &recorded, &derived, "a log-probability")?;
                report.logprobs += derived.iter().map(Vec::len).sum::<usize>();
            }
            Some(_) => {}
            None => note(format!("{}: log-probabilities not checked, the policy of that step is not kept", self.name)),
        }
        let Kind::Step(step) = self.kind else { return Ok(()) };
        let rows = TrainRow::from_episodes(episodes);
        if !recipe.has_critic() || rows.is_empty() {
            return Ok(());
        }
        if let Some(critic) = self.run.critic_of(step)? {
            let derived = critic_values(&critic, &rows, most)?;
            self.compare(episodes, &rows, &per_row(episodes, &|s| &s.values), &derived, "a value")?;
            report.values += derived.iter().map(Vec::len).sum::<usize>();
        }
        Ok(())
    }

    fn compare(
        &self,
        episodes: &[Episode],
        rows: &[TrainRow],
        recorded: &[Vec<f32>],
        derived: &[Vec<f32>],
        what: &str,
    ) -> Result<(), AuditError> {
        for ((row, recorded), derived) in rows.iter().zip(recorded).zip(derived) {
            for (index, (found, derived)) in recorded.iter().zip(derived).enumerate() {
                if !((found - derived).abs() <= TOLERANCE * derived.abs().max(1.0)) {
                    let at = At { file: self.name, episode: &episodes[row.episode] };
                    let turn = turn_of(row, index);
                    return at
                        .wrong(turn, format!("{what} is recorded as {found}, but the kept weights give {derived}"));
                }
            }
        }
        Ok(())
    }
}

/// The turn an action belongs to.
fn turn_of(row: &TrainRow, action: usize) -> usize {
    row.turn_ends.iter().find(|(end, _)| action <= *end).map_or(0, |(_, turn)| *turn)
}

/// A recorded number per action of every row that is trained on.
fn per_row(episodes: &[Episode], of: &dyn Fn(&Segment) -> &Vec<f32>) -> Vec<Vec<f32>> {
    let scored = episodes.iter().filter(|episode| episode.reward.is_some());
    let rows = scored.flat_map(|episode| &episode.rows).filter(|row| row.segments.iter().any(Segment::is_action));
    rows.map(|row| row.segments.iter().filter(|s| s.is_action()).flat_map(|s| of(s).iter().copied()).collect())
        .collect()
}
