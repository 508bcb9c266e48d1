/// What the dialogues of a file below a run's `episodes/` were held for; in the order in which they come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The evaluation before training.
    Before,
    /// The greedy dialogues a step's rewards are compared with, for ReMax.
    Greedy(usize),
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
                // Steps count from 1.
                let (kind, step) = name.rsplit_once('-')?;
                let step = step.parse().ok().filter(|step| *step > 0)?;
                match kind {
                    "greedy" => Some(Stage::Greedy(step)),
                    "step" => Some(Stage::Step(step)),
                    "eval-step" => Some(Stage::Evaluation(step)),
                    _ => None,
                }
            }
        }
    }

    /// The name of its file of episodes, without the ending.
    pub fn name(self) -> String {
        match self {
            Stage::Before => "eval-before".into(),
            Stage::Greedy(step) => format!("greedy-{step:06}"),
            Stage::Step(step) => format!("step-{step:06}"),
            Stage::Evaluation(step) => format!("eval-step-{step:06}"),
            Stage::After => "eval-after".into(),
        }
    }

    /// In words.
    pub fn label(self) -> String {
        match self {
            Stage::Before => "evaluation before".into(),
            Stage::Greedy(step) => format!("greedy dialogues of step {step}"),
            Stage::Step(step) => format!("step {step}"),
            Stage::Evaluation(step) => format!("evaluation after step {step}"),
            Stage::After => "evaluation after".into(),
        }
    }

    /// Whether these are dialogues with held-out people.
    pub fn is_evaluation(self) -> bool {
        !matches!(self, Stage::Step(_) | Stage::Greedy(_))
    }

    fn time(self) -> (usize, u8) {
        match self {
            Stage::Before => (0, 0),
            Stage::Greedy(step) => (step, 1),
            Stage::Step(step) => (step, 2),
            Stage::Evaluation(step) => (step, 3),
            Stage::After => (usize::MAX, 4),
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
        let (early, late) = ([Stage::Before, Stage::Step(1), Stage::Greedy(9), Stage::Step(9)], Stage::Step(1_000_000));
        let stages = [&early[..], &[Stage::Evaluation(9), late, Stage::After]].concat();
        assert!(stages.is_sorted());
        for stage in stages {
            assert_eq!(Stage::from_name(&stage.name()), Some(stage));
            assert_eq!(stage.is_evaluation(), stage.label().starts_with("evaluation"));
        }
        for other in ["step-x", "step-000001-greedy", "step-", "step--1", "step-000000", "eval-step-0", "notes"] {
            assert_eq!(Stage::from_name(other), None, "{other}");
        }
    }
}
