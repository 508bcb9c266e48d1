use std::collections::VecDeque;

/// Estimates the time a run still needs from the time its last steps took.
#[derive(Debug, Clone, Default)]
pub struct Eta {
    recent: VecDeque<f64>,
}

impl Eta {
    /// How many steps the estimate looks back.
    pub const WINDOW: usize = 10;

    /// No step seen yet.
    pub fn new() -> Eta {
        Eta::default()
    }

    /// Notes how many seconds a step took. What is no duration (negative, NaN) is passed over.
    pub fn record(&mut self, seconds: f64) {
        if !(seconds >= 0.0 && seconds.is_finite()) {
            return;
        }
        if self.recent.len() == Eta::WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(seconds);
    }

    /// Seconds that `steps_left` more steps will take; `None` before the first step.
    ///
    /// The median of the last steps, so that one slow step (a checkpoint, an evaluation) does not move the estimate.
    pub fn remaining(&self, steps_left: u64) -> Option<f64> {
        let mut sorted = Vec::from(self.recent.clone());
        sorted.sort_by(f64::total_cmp);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = sorted[(sorted.len() - 1) / 2];
        Some((lower + upper) / 2.0 * steps_left as f64)
    }
}

/// A duration in its two largest units, such as `3 min 20 s`; `unknown` for what is no duration.
pub fn human_duration(seconds: f64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    if !(seconds >= 0.0 && seconds.is_finite()) {
        return "unknown".into();
    }
    let total = seconds.round() as u64;
    let first = UNITS.iter().position(|(_, size)| total >= *size).unwrap_or(UNITS.len() - 1);
    let (unit, size) = UNITS[first];
    let large = format!("{} {unit}", total / size);
    match UNITS.get(first + 1) {
        Some((unit, small)) if total % size >= *small => format!("{large} {} {unit}", total % size / small),
        _ => large,
    }
}
