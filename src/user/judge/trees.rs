//! Boosted regression trees: a sum of small trees over the measures.

use serde::{Deserialize, Serialize};

/// A tree of fixed depth, every level of which asks one question of each node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Tree {
    /// Measure asked at each inner node, in breadth-first order.
    pub(super) measure: Vec<u16>,
    /// Goes right when the measure is above this.
    pub(super) above: Vec<f32>,
    /// Values of the leaves, left to right.
    pub(super) leaf: Vec<f32>,
}

impl Tree {
    /// The leaf's value.
    pub(super) fn value(&self, measures: &[f32]) -> f32 {
        let mut node = 0;
        while node < self.measure.len() {
            let right = measures[usize::from(self.measure[node])] > self.above[node];
            node = 2 * node + 1 + usize::from(right);
        }
        self.leaf[node - self.measure.len()]
    }
}

/// Sum over trees.
pub(super) fn sum(trees: &[Tree], measures: &[f32]) -> f32 {
    trees.iter().map(|t| t.value(measures)).sum()
}
