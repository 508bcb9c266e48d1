use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{final_answer, same_answer};
use super::code::{Case, CodeError, CodeRunner, cases, program};
use super::instruction::Instruction;

/// What follows the statement of a programming task.
const PROGRAM: &str = "Write a Python program that reads standard input and writes standard output. Put the whole program \
into one fenced code block.";

/// What a response is checked against.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// A final answer.
    Mathematics(String),
    /// Instructions, all of which have to be followed.
    Instructions(Vec<Instruction>),
    /// Inputs and outputs of a program, all of which have to be met.
    Program(Vec<Case>),
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
    /// Checks a response: the whole task, and each of its parts. Programs are run by `runner`; without one they count as
    /// wrong.
    ///
    /// # Errors
    /// When a program cannot be started at all.
    pub fn check(&self, response: &str, runner: Option<&CodeRunner>) -> Result<Answered, CodeError> {
        let (right, parts) = match &self.task {
            Task::Mathematics(wanted) => {
                let right = final_answer(response).is_some_and(|given| same_answer(&given, wanted));
                (right, vec![right])
            }
            Task::Instructions(all) => {
                let parts: Vec<bool> = all.iter().map(|i| i.followed(response)).collect();
                (parts.iter().all(|p| *p), parts)
            }
            Task::Program(cases) => {
                let parts = match (program(response), runner) {
                    (Some(code), Some(runner)) => runner.run(code, cases)?,
                    _ => vec![false; cases.len()],
                };
                (parts.iter().all(|p| *p), parts)
            }
        };
        Ok(Answered { id: self.id.clone(), response: response.into(), right, parts })
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

/// Reads a line of a set; `None` when it is a task that is known and cannot be checked here.
pub(super) fn parse(index: usize, line: &str) -> Result<Option<Item>, String> {
    let json: Value = serde_json::from_str(line).map_err(|e| format!("this is no JSON: {e}"))?;
    let text = |key: &str| json.get(key).and_then(Value::as_str).map(String::from);
    let name = ["unique_id", "key", "question_id", "id"].iter().find_map(|key| json.get(*key)).filter(|v| !v.is_null());
    let id = name.map_or_else(|| (index + 1).to_string(), |v| v.as_str().map_or_else(|| v.to_string(), String::from));
    if let (Some(prompt), Some(answer)) = (text("problem"), text("answer")) {
        return Ok(Some(Item { id, prompt, task: Task::Mathematics(answer) }));
    }
    if let Some(question) = text("question_content") {
        let cases = cases(&json)?;
        let prompt = format!("{}\n\n{PROGRAM}", question.trim());
        return Ok((!cases.is_empty()).then_some(Item { id, prompt, task: Task::Program(cases) }));
    }
    let prompt = text("prompt").ok_or("it has neither `problem` with `answer` nor `question_content` nor `prompt`")?;
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
    Ok(Some(Item { id, prompt, task: Task::Instructions(instructions) }))
}
