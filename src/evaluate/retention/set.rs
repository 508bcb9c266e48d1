use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{final_answer, same_answer};
use super::instruction::Instruction;
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
        "{origin}, line {line}: {problem}; expected {{\"problem\", \"answer\"}} as in MATH-500 or {{\"prompt\", \"instruction_id_list\", \"kwargs\"}} as in IFEval"
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
    #[error("{0} holds no task")]
    Empty(String),
}

/// What a response is checked against.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// A final answer.
    Mathematics(String),
    /// Instructions, all of which have to be followed.
    Instructions(Vec<Instruction>),
}

/// One task.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its name.
    pub id: String,
    /// What the policy is asked.
    pub prompt: String,
    /// What the response is checked against.
    pub task: Task,
}

impl Item {
    /// Checks a response: 1 or 0 for the whole task, and for instructions how many of them were followed.
    pub fn check(&self, response: &str) -> Answered {
        let (right, parts) = match &self.task {
            Task::Mathematics(wanted) => {
                let right = final_answer(response).is_some_and(|given| same_answer(&given, wanted));
                (right, vec![right])
            }
            Task::Instructions(all) => {
                let parts: Vec<bool> = all.iter().map(|i| i.followed(response)).collect();
                (parts.iter().all(|p| *p), parts)
            }
        };
        Answered { id: self.id.clone(), response: response.into(), right, parts }
    }
}

/// A checked response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answered {
    /// The task's name.
    pub id: String,
    /// The response.
    pub response: String,
    /// Whether all of the task was met.
    pub right: bool,
    /// Whether each part was.
    pub parts: Vec<bool>,
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
    /// Share of parts met (IFEval's strict instruction-level accuracy).
    pub parts: f64,
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

    /// Reads a JSONL file in the format of MATH-500 or IFEval; which one, each line tells.
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
        let parse = |(index, line): (usize, &str)| {
            item(index, line).map_err(|problem| RetentionError::Line {
                origin: origin.into(),
                line: index + 1,
                problem,
            })
        };
        let items: Vec<Item> = lines.map(parse).collect::<Result<_, _>>()?;
        if items.is_empty() {
            Err(RetentionError::Empty(origin.into()))
        } else {
            Ok(RetentionSet { name: origin.into(), items })
        }
    }

    /// Checks responses, one per task in order; missing ones count as wrong.
    pub fn check(&self, responses: &[String]) -> Vec<Answered> {
        let response = |i: usize| responses.get(i).map_or("", String::as_str);
        self.items.iter().enumerate().map(|(i, item)| item.check(response(i))).collect()
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
            by_instruction: kinds.into_iter().map(|(id, (hits, n))| (id, hits as f64 / n as f64)).collect(),
        }
    }
}

fn embedded(name: &str, text: &str) -> RetentionSet {
    RetentionSet::parse(name, text).expect("the embedded sets are valid; a test reads them")
}

fn item(index: usize, line: &str) -> Result<Item, String> {
    let json: Value = serde_json::from_str(line).map_err(|e| format!("this is no JSON: {e}"))?;
    let text = |key: &str| json.get(key).and_then(Value::as_str).map(String::from);
    let name = ["unique_id", "key", "id"].iter().find_map(|key| json.get(*key)).filter(|v| !v.is_null());
    let id = name.map_or_else(|| (index + 1).to_string(), |v| v.as_str().map_or_else(|| v.to_string(), String::from));
    if let (Some(prompt), Some(answer)) = (text("problem"), text("answer")) {
        return Ok(Item { id, prompt, task: Task::Mathematics(answer) });
    }
    let prompt = text("prompt").ok_or("it has neither `problem` with `answer` nor `prompt`")?;
    let ids = json.get("instruction_id_list").and_then(Value::as_array).ok_or("`instruction_id_list` is missing")?;
    let arguments = json.get("kwargs").and_then(Value::as_array).cloned().unwrap_or_default();
    let empty = Map::new();
    let instructions = ids
        .iter()
        .enumerate()
        .map(|(i, id)| {
            let id = id.as_str().ok_or_else(|| format!("instruction id {id} is no text"))?;
            let arguments = arguments.get(i).and_then(Value::as_object).unwrap_or(&empty);
            Instruction::new(id, arguments).map_err(|e| e.to_string())
        })
        .collect::<Result<Vec<_>, String>>()?;
    if instructions.is_empty() {
        return Err("`instruction_id_list` is empty".into());
    }
    Ok(Item { id, prompt, task: Task::Instructions(instructions) })
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
                Task::Instructions(_) => panic!("{} is no mathematics", item.id),
            })
            .collect();
        assert_eq!(maths.score(&maths.check(&right)).accuracy.mean, 1.0);
        assert_eq!(maths.score(&maths.check(&[])).accuracy.mean, 0.0);
        let instructions = RetentionSet::builtin_instructions();
        let kinds = instructions.score(&instructions.check(&[])).by_instruction;
        assert_eq!(kinds.len(), 25, "every kind occurs: {kinds:?}");
    }

    #[test]
    fn broken_lines_are_named() {
        for (line, part) in [
            ("{", "no JSON"),
            ("{\"problem\": \"1+1\"}", "neither"),
            ("{\"prompt\": \"p\", \"instruction_id_list\": [\"x\"]}", "instruction x"),
            ("{\"prompt\": \"p\", \"instruction_id_list\": []}", "empty"),
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
        let score = set.score(&set.check(&["no comma".into()]));
        assert_eq!((score.accuracy.mean, score.parts), (0.0, 0.5));
    }
}
