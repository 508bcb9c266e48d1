/// What the dialogues of a file below a run's `episodes/` were held for; in the order in which they come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The evaluation before training.
    Before,
    /// The training dialogues of a step.
    Step(usize),
    /// An evaluation after a step.
    Evaluation(usize),
    /// The evaluation after training.
    After,
}

impl Stage {
    /// Reads the name of a file of episodes, without its ending; `None` when it is none of ours.
    pub fn from_name(name: &str) -> Option<Stage> {
        match name {
            "eval-before" => Some(Stage::Before),
            "eval-after" => Some(Stage::After),
            _ => {
                let (step, stage): (&str, fn(usize) -> Stage) = match name.strip_prefix("eval-step-") {
                    Some(step) => (step, Stage::Evaluation),
                    None => (name.strip_prefix("step-")?, Stage::Step),
                };
                // Steps count from 1.
                step.parse().ok().filter(|step| *step > 0).map(stage)
            }
        }
    }

    /// The name of its file of episodes, without the ending.
    pub fn name(self) -> String {
        match self {
            Stage::Before => "eval-before".into(),
            Stage::Step(step) => format!("step-{step:06}"),
            Stage::Evaluation(step) => format!("eval-step-{step:06}"),
            Stage::After => "eval-after".into(),
        }
    }

    /// In words.
    pub fn label(self) -> String {
        match self {
            Stage::Before => "evaluation before".into(),
            Stage::Step(step) => format!("step {step}"),
            Stage::Evaluation(step) => format!("evaluation after step {step}"),
            Stage::After => "evaluation after".into(),
        }
    }

    /// Whether these are dialogues with held-out people.
    pub fn is_evaluation(self) -> bool {
        !matches!(self, Stage::Step(_))
    }

    fn time(self) -> (usize, u8) {
        match self {
            Stage::Before => (0, 0),
            Stage::Step(step) => (step, 1),
            Stage::Evaluation(step) => (step, 2),
            Stage::After => (usize::MAX, 3),
        }
    }
}

impl Ord for Stage {
    fn cmp(&self, other: &Stage) -> std::cmp::Ordering {
        self.time().cmp(&other.time())
    }
}

impl PartialOrd for Stage {
    fn partial_cmp(&self, other: &Stage) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_sort_by_time() {
        let stages =
            [Stage::Before, Stage::Step(1), Stage::Step(9), Stage::Evaluation(9), Stage::Step(1_000_000), Stage::After];
        assert!(stages.is_sorted());
        for stage in stages {
            assert_eq!(Stage::from_name(&stage.name()), Some(stage));
        }
        for other in ["step-x", "step-000001-greedy", "step-000000", "eval-step-0", "notes"] {
            assert_eq!(Stage::from_name(other), None, "{other}");
        }
    }
}
