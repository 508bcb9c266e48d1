use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::code::{CodeError, CodeRunner};
use super::item::{self, Answered, Item, Task};
use crate::evaluate::{Interval, bootstrap_mean};

/// Why a retention set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// The file cannot be read.
    #[error("cannot read {path}: {problem}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        problem: String,
    },
    /// A line that is no task.
    #[error(
        "{origin}, line {line}: {problem}; expected {{\"problem\", \"answer\"}} as in MATH-500, {{\"prompt\", \"instruction_id_list\", \"kwargs\"}} as in IFEval or {{\"question_content\", \"public_test_cases\"}} as in LiveCodeBench"
    )]
    Line {
        /// The file or built-in set.
        origin: String,
        /// 1-based line.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// No task at all.
    #[error("{0} holds no task that can be checked")]
    Empty(String),
}

/// The score of a set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetentionScore {
    /// The set.
    pub set: String,
    /// Tasks.
    pub n: usize,
    /// Share of tasks met as a whole (accuracy; IFEval's strict prompt-level accuracy), with a 95 % interval.
    pub accuracy: Interval,
    /// Share of parts met (IFEval's strict instruction-level accuracy; test cases of programs).
    pub parts: f64,
    /// Tasks of the file that cannot be checked here and were not asked.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: usize,
    /// Share met per kind of instruction.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_instruction: BTreeMap<String, f64>,
}

/// An ordered set of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct RetentionSet {
    /// What results call it.
    pub name: String,
    /// The tasks.
    pub items: Vec<Item>,
    /// Tasks of the file that cannot be checked here: programs that are called as functions.
    pub skipped: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl RetentionSet {
    /// The small set of mathematics that ships with the binary.
    pub fn builtin_mathematics() -> RetentionSet {
        embedded(
            "built-in mathematics",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/retention/mathematics.jsonl")),
        )
    }

    /// The small set of instructions that ships with the binary.
    pub fn builtin_instructions() -> RetentionSet {
        embedded(
            "built-in instructions",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/retention/instructions.jsonl")),
        )
    }

    /// The small set of programs that ships with the binary.
    pub fn builtin_programs() -> RetentionSet {
        embedded(
            "built-in programs",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/retention/programs.jsonl")),
        )
    }

    /// Reads a JSONL file in the format of MATH-500, IFEval or LiveCodeBench; which one, each line tells.
    ///
    /// # Errors
    /// Names the file, the line and what is wrong; refuses an empty set.
    pub fn load(path: &Path) -> Result<RetentionSet, RetentionError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| RetentionError::Read { path: name.clone(), problem: e.to_string() })?;
        RetentionSet::parse(&name, &text)
    }

    /// Reads JSONL text; `origin` is what errors call it.
    ///
    /// # Errors
    /// As [`RetentionSet::load`].
    pub fn parse(origin: &str, text: &str) -> Result<RetentionSet, RetentionError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (mut items, mut skipped) = (Vec::new(), 0);
        for (index, line) in lines {
            let fail = |problem| RetentionError::Line { origin: origin.into(), line: index + 1, problem };
            match item::parse(index, line).map_err(fail)? {
                Some(item) => items.push(item),
                None => skipped += 1,
            }
        }
        if items.is_empty() {
            Err(RetentionError::Empty(origin.into()))
        } else {
            Ok(RetentionSet { name: origin.into(), items, skipped })
        }
    }

    /// Whether checking it runs programs.
    pub fn runs_code(&self) -> bool {
        self.items.iter().any(|item| matches!(item.task, Task::Program(_)))
    }

    /// Checks responses, one per task in order; missing ones count as wrong, and so do programs without a `runner`.
    ///
    /// # Errors
    /// When programs cannot be started.
    pub fn check(&self, responses: &[String], runner: Option<&CodeRunner>) -> Result<Vec<Answered>, CodeError> {
        let response = |i: usize| responses.get(i).map_or("", String::as_str);
        self.items.iter().enumerate().map(|(i, item)| item.check(response(i), runner)).collect()
    }

    /// Sums checked responses up.
    pub fn score(&self, answered: &[Answered]) -> RetentionScore {
        let right: Vec<f64> = answered.iter().map(|a| f64::from(u8::from(a.right))).collect();
        let nothing = Interval { mean: 0.0, low: 0.0, high: 0.0 };
        let (mut met, mut all) = (0, 0);
        let mut kinds: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for (item, answered) in self.items.iter().zip(answered) {
            met += answered.parts.iter().filter(|p| **p).count();
            all += answered.parts.len();
            if let Task::Instructions(instructions) = &item.task {
                for (instruction, followed) in instructions.iter().zip(&answered.parts) {
                    let (hits, n) = kinds.entry(instruction.id().to_string()).or_default();
                    *hits += usize::from(*followed);
                    *n += 1;
                }
            }
        }
        RetentionScore {
            set: self.name.clone(),
            n: answered.len(),
            accuracy: bootstrap_mean(&right, None, 1).unwrap_or(nothing),
            parts: met as f64 / all.max(1) as f64,
            skipped: self.skipped,
            by_instruction: kinds.into_iter().map(|(id, (hits, n))| (id, hits as f64 / n as f64)).collect(),
        }
    }
}

fn embedded(name: &str, text: &str) -> RetentionSet {
    RetentionSet::parse(name, text).expect("the embedded sets are valid; a test reads them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_sets_are_read_and_scored() {
        let maths = RetentionSet::builtin_mathematics();
        let right: Vec<String> = maths
            .items
            .iter()
            .map(|item| match &item.task {
                Task::Mathematics(answer) => format!("Let us see.\nSo the result is $\\boxed{{{answer}}}$."),
                _ => panic!("{} is no mathematics", item.id),
            })
            .collect();
        assert_eq!(maths.score(&maths.check(&right, None).unwrap()).accuracy.mean, 1.0);
        assert_eq!(maths.score(&maths.check(&[], None).unwrap()).accuracy.mean, 0.0);
        let instructions = RetentionSet::builtin_instructions();
        let kinds = instructions.score(&instructions.check(&[], None).unwrap()).by_instruction;
        assert_eq!(kinds.len(), 25, "every kind occurs: {kinds:?}");
    }

    #[test]
    fn broken_lines_are_named() {
        for (line, part) in [
            ("{", "no JSON"),
            ("{\"problem\": \"1+1\"}", "neither"),
            ("{\"prompt\": \"p\", \"instruction_id_list\": [\"x\"]}", "instruction x"),
            ("{\"prompt\": \"p\", \"instruction_id_list\": []}", "empty"),
            ("{\"question_content\": \"q\"}", "public_test_cases"),
            ("{\"question_content\": \"q\", \"public_test_cases\": \"?\"}", "public_test_cases"),
        ] {
            let good = "{\"problem\": \"1+1\", \"answer\": \"2\"}";
            let error = RetentionSet::parse("set.jsonl", &format!("{good}\n{line}")).unwrap_err().to_string();
            assert!(error.starts_with("set.jsonl, line 2") && error.contains(part), "{error}");
        }
        assert!(matches!(RetentionSet::parse("x", "\n"), Err(RetentionError::Empty(_))));
    }

    #[test]
    fn parts_count_on_their_own() {
        let line = r#"{"key": 1, "prompt": "p", "instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, {}]}"#;
        let set = RetentionSet::parse("x", line).unwrap();
        let score = set.score(&set.check(&["no comma".into()], None).unwrap());
        assert_eq!((score.accuracy.mean, score.parts), (0.0, 0.5));
    }
}
