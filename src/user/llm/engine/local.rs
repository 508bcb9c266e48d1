//! A checkpoint in this process as a chat engine.
//!
//! One thread owns a generation engine and serves all conversations side by side, as a rollout does. The punctuation
//! of the JSON object is ours: the model only fills the fields, one after the other, each ended by a closing quote (or,
//! for numbers and flags, a separator). So even a small checkpoint answers in the right form; whether its words make sense
//! is the caller's to judge.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rlver_models::generate::{Engine, Finish, RowId, Sampler, SamplingSettings};
use rlver_models::tokenizer::ChatMessage;

use super::usage::Counter;
use super::{AnswerShape, ChatEngine, ChatRequest, Completion, EngineError, FieldKind, Prices, Usage};
use crate::rollout::Policy;
use crate::seed;

/// Tokens a number or a flag may take.
const SHORT_FIELD: usize = 6;

/// A checkpoint of ours that answers in this process.
#[derive(Debug)]
pub struct LocalEngine {
    name: String,
    rows: usize,
    questions: Mutex<Sender<Question>>,
    counter: Arc<Counter>,
}

#[derive(Debug)]
struct Question {
    messages: Vec<super::Message>,
    shape: AnswerShape,
    sampling: super::ChatSampling,
    answer: Sender<Result<Completion, String>>,
}

impl LocalEngine {
    /// Starts the engine's thread: up to `rows` conversations at once, each of up to `capacity` tokens (or what the model
    /// can hold).
    pub fn new(name: &str, policy: Policy, rows: usize, capacity: usize) -> LocalEngine {
        let (questions, asked) = channel();
        let capacity = capacity.min(policy.model.config().max_position_embeddings);
        let rows = rows.max(1);
        std::thread::spawn(move || Server::new(policy, rows, capacity).serve(&asked));
        LocalEngine { name: name.into(), rows, questions: Mutex::new(questions), counter: Arc::default() }
    }

    fn ask(&self, request: &ChatRequest<'_>) -> Result<Completion, EngineError> {
        let fail = |problem: String| EngineError::Local { model: self.name.clone(), problem };
        let (answer, answered) = channel();
        let question =
            Question { messages: request.messages.to_vec(), shape: *request.shape, sampling: request.sampling, answer };
        let gone = || fail("its thread has ended".into());
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).send(question).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?.map_err(fail)
    }
}

impl ChatEngine for LocalEngine {
    fn model(&self) -> String {
        self.name.clone()
    }

    fn complete(&self, request: &ChatRequest<'_>) -> Result<Completion, EngineError> {
        let begun = Instant::now();
        let result = self.ask(request);
        if let Ok(completion) = &result {
            self.counter.tokens(completion.prompt_tokens, completion.completion_tokens);
        }
        self.counter.request(begun.elapsed(), result.is_ok());
        result
    }

    fn concurrency(&self) -> usize {
        self.rows
    }

    fn usage(&self) -> Usage {
        self.counter.read(Prices::default())
    }
}

/// What the thread holds.
struct Server {
    policy: Policy,
    engine: Engine,
    /// Ids that hold a quote: they end a text.
    ends_text: Vec<u32>,
    /// Ids that hold anything that ends a number or a flag.
    ends_short: Vec<u32>,
    answering: HashMap<RowId, Answer>,
}

/// An answer in the making.
struct Answer {
    question: Question,
    /// The conversation's tokens.
    prompt: Vec<u32>,
    /// The object so far, up to where the next field's value goes.
    text: String,
    /// The field being filled.
    field: usize,
    /// Tokens of its value.
    value: Vec<u32>,
    sampled: u64,
}

impl Server {
    fn new(policy: Policy, rows: usize, capacity: usize) -> Server {
        let engine = Engine::new(&policy.model, policy.vocabulary(), rows, capacity);
        let stop = policy.stop_ids();
        let holding = |marks: &[u8]| {
            let holds = |id: &u32| policy.tokenizer.token_bytes(*id).iter().any(|b| marks.contains(b));
            let mut ids: Vec<u32> = (0..policy.vocabulary() as u32).filter(holds).collect();
            ids.extend(&stop);
            ids
        };
        let (ends_text, ends_short) = (holding(b"\"\n"), holding(b"\",}\n"));
        Server { policy, engine, ends_text, ends_short, answering: HashMap::new() }
    }

    /// Answers until nobody can ask any more.
    fn serve(&mut self, asked: &Receiver<Question>) {
        let mut waiting = std::collections::VecDeque::new();
        loop {
            if self.answering.is_empty() && waiting.is_empty() {
                match asked.recv() {
                    Ok(question) => waiting.push_back(question),
                    Err(_) => return,
                }
            }
            loop {
                match asked.try_recv() {
                    Ok(question) => waiting.push_back(question),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            while !waiting.is_empty()
                && let Some(row) = self.engine.open()
            {
                let question = waiting.pop_front().expect("checked above");
                self.begin(row, question);
            }
            self.step();
        }
    }

    fn begin(&mut self, row: RowId, question: Question) {
        let messages: Vec<ChatMessage<'_>> =
            question.messages.iter().map(|m| ChatMessage { role: m.role.name(), content: &m.content }).collect();
        match self.policy.chat.prompt_ids(&messages) {
            Ok(prompt) => {
                let answer = Answer { question, prompt, text: "{".into(), field: 0, value: Vec::new(), sampled: 0 };
                self.ask_field(row, answer);
            }
            Err(error) => self.end(row, &question, Err(error.to_string())),
        }
    }

    /// Starts sampling the value of the answer's next field.
    fn ask_field(&mut self, row: RowId, mut answer: Answer) {
        let sampling = answer.question.sampling;
        let fields = answer.question.shape.fields;
        let field = fields[answer.field];
        let comma = if answer.field > 0 { ", " } else { "" };
        answer.text += &format!("{comma}\"{}\":", field.name);
        let (stop, most) = match field.kind {
            FieldKind::Text(_) => {
                answer.text += " \"";
                (&self.ends_text, (sampling.max_tokens / fields.len()).max(8))
            }
            _ => (&self.ends_short, SHORT_FIELD),
        };
        let mut ids = answer.prompt.clone();
        ids.extend(self.policy.tokenizer.encode_plain(&answer.text));
        let (needed, capacity) = (ids.len() + most, self.engine.capacity());
        if needed > capacity {
            let problem = format!(
                "the conversation needs {needed} tokens and llm.max_context (or the model) allows {capacity}; raise \
                 it, or lower llm.max_tokens or the number of turns"
            );
            return self.end(row, &answer.question, Err(problem));
        }
        let settings = SamplingSettings {
            temperature: sampling.temperature as f32,
            top_p: sampling.top_p as f32,
            ..SamplingSettings::GREEDY
        };
        let sampler = Sampler::new(settings, seed::mix(&[sampling.seed, answer.field as u64]));
        self.engine.set_prompt(row, ids);
        self.engine.start_turn(row, sampler, most, stop);
        self.answering.insert(row, answer);
    }

    fn step(&mut self) {
        let sampled = match self.engine.step() {
            Ok(sampled) => sampled,
            Err(error) => {
                let rows: Vec<RowId> = self.answering.keys().copied().collect();
                for row in rows {
                    let answer = self.answering.remove(&row).expect("just listed");
                    self.end(row, &answer.question, Err(error.to_string()));
                }
                return;
            }
        };
        for token in sampled {
            let Some(answer) = self.answering.get_mut(&token.row) else { continue };
            answer.value.push(token.id);
            answer.sampled += 1;
            if token.finish.is_some() {
                let answer = self.answering.remove(&token.row).expect("looked up above");
                self.fill(token.row, answer, token.finish == Some(Finish::Stop));
            }
        }
    }

    /// Writes a sampled value into the object and goes on to the next field, or answers.
    fn fill(&mut self, row: RowId, mut answer: Answer, stopped: bool) {
        let fields = answer.question.shape.fields;
        let value = std::mem::take(&mut answer.value);
        let text = self.policy.tokenizer.decode(&value, true);
        let cut = |marks: &[char]| if stopped { text.split(marks).next().unwrap_or_default() } else { &text };
        match fields[answer.field].kind {
            FieldKind::Text(_) => {
                let value = cut(&['"', '\n']).trim_end_matches(['\\', '\u{fffd}']).trim();
                // Escaped as JSON wants it; the opening quote is there already.
                answer.text += &serde_json::Value::from(value).to_string()[1..];
            }
            _ => answer.text += cut(&['"', ',', '}', '\n']).trim_end(),
        }
        answer.field += 1;
        if answer.field < fields.len() {
            return self.ask_field(row, answer);
        }
        let completion = Completion {
            text: format!("{}}}", answer.text),
            truncated: false,
            prompt_tokens: answer.prompt.len() as u64,
            completion_tokens: answer.sampled,
        };
        self.end(row, &answer.question, Ok(completion));
    }

    fn end(&mut self, row: RowId, question: &Question, result: Result<Completion, String>) {
        self.engine.close(row);
        // Whoever asked may have gone.
        let _ = question.answer.send(result);
    }
}
