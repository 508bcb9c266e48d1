//! What recorded history tells beyond the replies.
//!
//! A judge that is easier or harder to please than the context head believes shows it by *innovations*: recorded change
//! minus the change the score led to expect, and recorded emotion minus the model's own. The head that reads them reads
//! the recorded state and the reply beside. A dialogue that runs on the model's own emotions has nothing recorded and so no history: the rule is
//! the context head alone, and the first sign cannot lock in.

/// Number of inputs of the history head.
pub(super) const INPUTS: usize = 9;

/// Recorded history of a dialogue beside the model's own.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// Recorded change minus expected change, in tens.
    innovations: Vec<f32>,
    /// Recorded minus own sign, the last two.
    signs: [f32; 2],
    /// Recorded minus own emotion, in fifties.
    ahead: f32,
}

impl History {
    /// The head's inputs before the next reply, for the context head's score.
    pub(super) fn inputs(&self, score: f32) -> [f32; INPUTS] {
        let back = |n: usize| self.innovations.len().checked_sub(n).map_or(0.0, |i| self.innovations[i]);
        let sum: f32 = self.innovations.iter().sum();
        let fading = self.innovations.iter().fold(0.0, |f, i| 0.6 * f + i);
        let mean = sum / (self.innovations.len() as f32 + 1.0);
        let root = sum.signum() * sum.abs().sqrt();
        [score, back(1), back(2), mean, fading, root, self.signs[0], self.signs[1], self.ahead]
    }

    /// Remembers what a reply with this score did: as recorded, and as the model has it.
    pub(super) fn happened(&mut self, score: f32, recorded: i32, own: i32, ahead: i32) {
        self.innovations.push(recorded as f32 / 10.0 - expected(score));
        self.signs = [((recorded.signum() - own.signum()) as f32) / 2.0, self.signs[0]];
        self.ahead = ahead as f32 / 50.0;
    }
}

/// The expected change of a score, in tens: recorded changes average 6.5 points on either side.
fn expected(score: f32) -> f32 {
    0.65 * (2.0 / (1.0 + (-score.clamp(-6.0, 6.0)).exp()) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_expected_is_no_news() {
        let mut history = History::default();
        assert_eq!(history.inputs(0.7)[1..], [0.0; INPUTS - 1]);
        history.happened(6.0, 6, 10, 0);
        assert!(history.inputs(0.7)[1].abs() < 0.1);
        history.happened(3.0, -10, 10, -20);
        let inputs = history.inputs(0.0);
        assert!(inputs[1] < -1.5 && inputs[6] == -1.0 && inputs[8] == -0.4, "{inputs:?}");
    }
}
