//! Fitting the gate that tells honest replies from edited ones.

use super::super::trees;
use super::super::weights::Gate;
use super::Material;
use super::attacks::Attack;
use super::boost::{self, Binned, Boosting};
use super::coach::ROUNDS;
use super::folds::{MODELS, PROFILES};

/// Share of honest replies of unseen people and reply models that the gate may refuse.
const FALSE_ALARMS: f64 = 0.016;
const GATE: Boosting = Boosting { trees: 60, depth: 4, rate: 0.2, shrink: 5.0, least: 3.0 };

/// Measures, target, weight and cell of a reply.
type Sample<'a> = (&'a [f32], f64, f64, (usize, usize));

impl Material {
    /// Fits the gate on honest replies and their edits, without those of `left_out`. The threshold comes from replies
    /// whose profile and reply model the trees have not seen.
    pub(super) fn gate(&self, keep: &dyn Fn(usize) -> bool, left_out: Option<Attack>) -> Gate {
        let mut samples: Vec<Sample<'_>> = Vec::new();
        let recorded = self
            .rows
            .iter()
            .enumerate()
            .filter(|(i, _)| keep(*i))
            .map(|(i, r)| (&r.gate, &r.edits, self.cells[i], [1.0, 1.0]));
        let written = self
            .examples
            .iter()
            .enumerate()
            .map(|(i, e)| (&e.gate, &e.edits, (i % PROFILES, MODELS), [1.5, 1.0].map(|w| w / ROUNDS as f64)));
        for (gate, edits, cell, [honest, cheating]) in recorded.chain(written) {
            samples.push((gate, 0.0, honest, cell));
            let kept = edits.iter().filter(|(attack, _)| Some(*attack) != left_out);
            samples.extend(kept.map(|(_, edited)| (&edited[..], 1.0, cheating, cell)));
        }
        let measures: Vec<&[f32]> = samples.iter().map(|s| s.0).collect();
        let binned = Binned::of(&measures, measures[0].len());
        let target: Vec<f64> = samples.iter().map(|s| s.1).collect();
        let weight: Vec<f64> = samples.iter().map(|s| s.2).collect();
        let fit = |chosen: &[usize]| boost::fit(&binned, chosen, &target, &weight, &|_| 0.0, GATE);
        let mut honest: Vec<f32> = Vec::new();
        for (profiles, models) in (0..MODELS).map(|m| (m, m)) {
            let chosen: Vec<usize> =
                (0..samples.len()).filter(|i| samples[*i].3.0 != profiles && samples[*i].3.1 != models).collect();
            let trees = fit(&chosen);
            let unseen = samples.iter().filter(|s| s.3 == (profiles, models) && s.1 == 0.0);
            honest.extend(unseen.map(|s| trees::sum(&trees, s.0)));
        }
        honest.sort_unstable_by(f32::total_cmp);
        let at = ((1.0 - FALSE_ALARMS) * honest.len() as f64) as usize;
        let threshold = honest.get(at).or(honest.last()).copied().unwrap_or(0.0);
        let all: Vec<usize> = (0..samples.len()).collect();
        let mut trees = fit(&all);
        for value in trees.iter_mut().flat_map(|t| &mut t.leaf) {
            *value = (*value * 1e4).round() / 1e4;
        }
        Gate { trees, threshold }
    }
}
