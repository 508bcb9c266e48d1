//! What the recorded judge wrote about a reply, as a teacher.
//!
//! A recorded change has one of a few values and is noisy; the appraisal written before it tells more finely how the reply
//! was taken. A reader learns what appraisals say about changes and reads those of people it has not learned from, or it would
//! tell the person by the words and repeat how that person mostly felt; the heads are fitted to what it reads. No head and no
//! figure ever sees an appraisal of the dialogue it judges.

use super::super::grams::BUCKETS;
use super::Material;
use super::folds::PROFILES;
use super::logistic::{self, Rows, log_odds};

/// Scale of an appraisal's n-grams, for a penalty of one.
const SCALE: f32 = 4.0;
/// Newton-like steps of a reader.
const STEPS: usize = 15;
/// How far a row's target follows what was read.
const TRUST: f64 = 0.75;

impl Material {
    /// The targets of all rows and examples, by readers fitted on what `keep` keeps.
    pub(super) fn targets(&self, keep: &dyn Fn(usize) -> bool) -> Vec<f64> {
        let mut targets = self.target.clone();
        for fold in 0..PROFILES {
            let known = |i: usize| keep(i) && !self.rows[i].appraisal.is_empty();
            let of_fold = |i: &usize| self.cells[*i].0 == fold;
            let (read, learned): (Vec<usize>, Vec<usize>) =
                (0..self.rows.len()).filter(|i| known(*i)).partition(of_fold);
            if read.is_empty() || learned.is_empty() {
                continue;
            }
            let weight = vec![1.0; self.target.len()];
            let reader = logistic::fit(&self.appraisals, &learned, &self.target, &weight, &|_| 1.0, STEPS);
            for i in read {
                let rise = 1.0 / (1.0 + (-log_odds(&self.appraisals, i, &reader)).exp());
                targets[i] = (1.0 - TRUST) * self.target[i] + TRUST * rise;
            }
        }
        targets
    }

    /// The appraisals of the recorded replies, as rows.
    pub(super) fn appraisal_rows(&self) -> Rows {
        let mut rows = Rows::new(BUCKETS);
        self.rows.iter().for_each(|r| rows.push(r.appraisal.iter().map(|(place, v)| (*place, v * SCALE))));
        rows
    }
}
