//! What recorded history tells beyond the replies.
//!
//! A judge that is easier or harder to please than the context head believes shows it by *innovations*: recorded change
//! minus the change the head expected. Where a dialogue runs on the model's own emotions there are none, and the rule is
//! the context head alone: the first sign cannot lock in.

/// Number of inputs of the history head.
pub(super) const INPUTS: usize = 6;

/// Recorded history of a dialogue.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    innovations: Vec<f32>,
}

impl History {
    /// The head's inputs before the next reply, for the context head's score.
    pub(super) fn inputs(&self, score: f32) -> [f32; INPUTS] {
        let back = |n: usize| self.innovations.len().checked_sub(n).map_or(0.0, |i| self.innovations[i]);
        let sum: f32 = self.innovations.iter().sum();
        let fading = self.innovations.iter().fold(0.0, |f, i| 0.6 * f + i);
        let mean = sum / (self.innovations.len() as f32 + 1.0);
        [score, back(1), back(2), mean, fading, sum.signum() * sum.abs().sqrt()]
    }

    /// Remembers what a reply with this score did.
    pub(super) fn happened(&mut self, score: f32, change: i32) {
        self.innovations.push(change as f32 / 10.0 - expected(score));
    }
}

/// The expected change of a score, in tens: recorded changes average 6.5 points on either side.
fn expected(score: f32) -> f32 {
    0.65 * (2.0 / (1.0 + (-score).exp()) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_expected_is_no_news() {
        let mut history = History::default();
        assert_eq!(history.inputs(0.7)[1..], [0.0; INPUTS - 1]);
        history.happened(50.0, 6);
        assert!(history.inputs(0.0)[1].abs() < 0.06);
        history.happened(50.0, -10);
        assert!(history.inputs(0.0)[1] < -1.5);
    }
}
