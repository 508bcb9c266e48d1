//! The update on rows of given lengths: forward, backward, global-norm clipping and AdamW, with clipped surrogate, k3 and
//! entropy.

use std::time::Instant;

use rlver_models::qwen2::Qwen2;

use super::stage::{Measured, ids};
use super::{BenchError, Sample};
use crate::recipe::{KlUse, ObjectiveSection, OptimizerSection};
use crate::train::{AdamW, Advantages, Learner, Rates, TrainRow, UpdateBatch, score, update};

pub(super) struct Update {
    learner: Learner,
    rows: Vec<TrainRow>,
    logprobs: Vec<Vec<f32>>,
    targets: Advantages,
    objective: ObjectiveSection,
}

impl Update {
    /// Rows of `lengths` tokens; all but the first token of each are actions.
    pub(super) fn new(model: Qwen2, lengths: &[usize]) -> Result<Update, BenchError> {
        let vocabulary = model.config().vocab_size;
        let row = |(index, length): (usize, &usize)| TrainRow {
            episode: index,
            ids: ids(*length, index as u64, vocabulary),
            actions: (1..*length).collect(),
            turn_ends: vec![(length - 2, 0)],
            rollout_logprobs: Vec::new(),
        };
        let rows: Vec<TrainRow> = lengths.iter().enumerate().map(row).collect();
        let objective = ObjectiveSection { kl: KlUse::Loss, ..ObjectiveSection::default() };
        let logprobs = score(&model, &rows, 1.0, vocabulary, objective.micro_batch_tokens)?;
        let advantage = |i: usize| if i.is_multiple_of(2) { 0.5 } else { -0.5 };
        let advantages = rows.iter().map(|r| (0..r.actions.len()).map(advantage).collect()).collect();
        let targets = Advantages { advantages, ..Advantages::default() };
        let optimizer = AdamW::new(&OptimizerSection::default());
        Ok(Update { learner: Learner { model, optimizer }, rows, logprobs, targets, objective })
    }
}

impl Measured for Update {
    fn once(&mut self) -> Result<Sample, BenchError> {
        let dialogues: Vec<u64> = (0..self.rows.len() as u64).collect();
        let batch = UpdateBatch {
            rows: &self.rows,
            dialogues: &dialogues,
            old_logprobs: &self.logprobs,
            reference_logprobs: Some(&self.logprobs),
            kl_coef: 0.001,
            old_values: None,
            targets: &self.targets,
            temperature: 1.0,
            vocabulary: self.learner.model.config().vocab_size,
            norm_length: 1.0,
        };
        let rates = Rates { policy: Some(1e-6), critic: 0.0 };
        let begun = Instant::now();
        let report = update(&mut self.learner, None, &batch, &self.objective, rates, 1)?;
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!((report.steps, report.skipped), (1, 0), "one optimizer step");
        Ok(Sample::new(seconds, self.rows.iter().map(|r| r.ids.len()).sum()))
    }
}
