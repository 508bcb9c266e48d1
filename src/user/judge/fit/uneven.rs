//! Which n-grams occur unevenly in good and bad replies; they are penalised less.

use super::super::grams::BUCKETS;
use super::{Material, target};

impl Material {
    /// For each place of the n-grams of the reply and of the line, and of the beginnings of both: how much more unevenly it falls on good and bad
    /// replies than chance would have it (a chi-square with a prior, at most 8).
    pub(super) fn unevenness(&self, chosen: &[usize]) -> Vec<f64> {
        let mut counts = vec![(0.0f64, 0.0f64); 4 * BUCKETS];
        let (mut good, mut all) = (0.0, 0.0);
        for row in chosen.iter().filter_map(|i| self.rows.get(*i)) {
            let kinds = [&row.grams, &row.opening, &row.line, &row.line_opening];
            let share = target(row.change);
            let places = kinds.iter().enumerate().flat_map(|(k, g)| g.iter().map(move |g| k * BUCKETS + g.0 as usize));
            places.for_each(|place| {
                counts[place].0 += share;
                counts[place].1 += 1.0;
            });
            good += share;
            all += 1.0;
        }
        let rate = good / all;
        counts
            .iter()
            .map(|(good, all)| {
                let expected = all * rate;
                ((good - expected).powi(2) / (expected * (1.0 - rate) + 5.0)).min(8.0)
            })
            .collect()
    }
}
