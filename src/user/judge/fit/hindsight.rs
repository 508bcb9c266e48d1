//! What the recorded judge wrote about a reply, as a teacher.
//!
//! A recorded change has one of a few values and is noisy; the appraisal written before it tells more finely how the reply
//! was taken. A reader learns from one half of the dialogues what appraisals say about changes and reads those of the other
//! half; the heads are fitted to what it reads. No head and no figure ever sees an appraisal of the dialogue it judges.

use super::super::grams::BUCKETS;
use super::Material;
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
        for half in 0..2 {
            let known = |i: usize| keep(i) && !self.rows[i].appraisal.is_empty();
            let of_half = |i: &usize| self.rows[*i].dialogue % 2 == half;
            let (read, learned): (Vec<usize>, Vec<usize>) =
                (0..self.rows.len()).filter(|i| known(*i)).partition(of_half);
            if learned.is_empty() {
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
