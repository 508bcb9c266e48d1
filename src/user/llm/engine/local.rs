//! A checkpoint in this process as a chat engine.
//!
//! One thread owns a generation engine and serves all conversations side by side, as a rollout does. The punctuation
//! of the JSON object is ours: the model only fills the fields, one after the other. A text ends with a closing quote;
//! of numbers and flags only the tokens are offered that lead to one that is allowed. So even a small checkpoint answers in
//! the right form; whether its words make sense is the caller's to judge.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rlver_models::generate::{Engine, Finish, RowId, Sampler, SamplingSettings};
use rlver_models::tokenizer::ChatMessage;

use super::usage::Counter;
use super::{AnswerShape, ChatEngine, ChatRequest, Completion, EngineError, FieldKind, Prices, Usage};
use crate::rollout::Policy;
use crate::seed;

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
    /// Tokens of its value so far.
    value: Vec<u32>,
    /// For a field of few values, those that may still come out: the words and their tokens.
    choices: Vec<(String, Vec<u32>)>,
    sampled: u64,
}

impl Server {
    fn new(policy: Policy, rows: usize, capacity: usize) -> Server {
        let engine = Engine::new(&policy.model, policy.vocabulary(), rows, capacity);
        let holds = |id: &u32| policy.tokenizer.token_bytes(*id).iter().any(|b| b"\"\n".contains(b));
        let mut ends_text: Vec<u32> = (0..policy.vocabulary() as u32).filter(holds).collect();
        ends_text.extend(policy.stop_ids());
        Server { policy, engine, ends_text, answering: HashMap::new() }
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
            while let Ok(question) = asked.try_recv() {
                waiting.push_back(question);
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
        if question.shape.is_words() {
            return self.end(row, &question, Err("in this process it fills forms and does not talk freely".into()));
        }
        let messages: Vec<ChatMessage<'_>> =
            question.messages.iter().map(|m| ChatMessage { role: m.role.name(), content: &m.content }).collect();
        match self.policy.chat.prompt_ids(&messages) {
            Ok(prompt) => {
                let answer = Answer {
                    question,
                    prompt,
                    text: "{".into(),
                    field: 0,
                    value: Vec::new(),
                    choices: Vec::new(),
                    sampled: 0,
                };
                self.ask_field(row, answer);
            }
            Err(error) => self.end(row, &question, Err(error.to_string())),
        }
    }

    /// Begins the answer's next field.
    fn ask_field(&mut self, row: RowId, mut answer: Answer) {
        let field = answer.question.shape.fields[answer.field];
        let comma = if answer.field > 0 { ", " } else { "" };
        answer.text += &format!("{comma}\"{}\":", field.name);
        let words: Vec<String> = match field.kind {
            FieldKind::Text(_) => {
                answer.text += " \"";
                Vec::new()
            }
            FieldKind::Integer(least, most) => (least..=most).map(|n| format!(" {n}")).collect(),
            FieldKind::Flag => [" true", " false"].map(String::from).to_vec(),
        };
        // With the separator behind it no value is the beginning of another.
        let tokens = |word: &String| self.policy.tokenizer.encode_plain(&format!("{word},"));
        answer.choices = words.iter().map(|word| (word.clone(), tokens(word))).collect();
        self.ask_token(row, answer);
    }

    /// Starts sampling: a whole text, or one token of a choice.
    fn ask_token(&mut self, row: RowId, mut answer: Answer) {
        let sampling = answer.question.sampling;
        let settings = SamplingSettings {
            temperature: sampling.temperature as f32,
            top_p: sampling.top_p as f32,
            ..SamplingSettings::GREEDY
        };
        // What can only come out one way is not sampled.
        while let Some(id) = only_next(&answer.choices, answer.value.len()) {
            answer.value.push(id);
        }
        if let [(word, _)] = &answer.choices[..] {
            answer.text += word;
            return self.end_field(row, answer);
        }
        let step = answer.value.len();
        let seed = seed::mix(&[sampling.seed, answer.field as u64, step as u64]);
        let sampler = Sampler::new(settings, seed);
        let (sampler, most, stop) = if answer.choices.is_empty() {
            let most = (sampling.max_tokens / answer.question.shape.fields.len()).max(8);
            (sampler, most, self.ends_text.clone())
        } else {
            let next = answer.choices.iter().filter_map(|(_, ids)| ids.get(step).copied());
            (sampler.among(next.collect()), 1, Vec::new())
        };
        let mut ids = answer.prompt.clone();
        ids.extend(self.policy.tokenizer.encode_plain(&answer.text));
        ids.extend(&answer.value);
        let (needed, capacity) = (ids.len() + most, self.engine.capacity());
        if needed > capacity {
            let problem = format!(
                "the conversation needs {needed} tokens and llm.max_context (or the model) allows {capacity}; raise \
                 it, or lower llm.max_tokens or the number of turns"
            );
            return self.end(row, &answer.question, Err(problem));
        }
        self.engine.set_prompt(row, ids);
        self.engine.start_turn(row, sampler, most, &stop);
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

    /// Takes what was sampled: a text into the object, a token of a choice to the next one.
    fn fill(&mut self, row: RowId, mut answer: Answer, stopped: bool) {
        if !answer.choices.is_empty() {
            let step = answer.value.len() - 1;
            let sampled = answer.value[step];
            answer.choices.retain(|(_, ids)| ids.get(step) == Some(&sampled));
            if answer.choices.is_empty() {
                return self.end(row, &answer.question, Err("it sampled what it was not offered".into()));
            }
            return self.ask_token(row, answer);
        }
        let text = self.policy.tokenizer.decode(&answer.value, true);
        let value = if stopped { text.split(['"', '\n']).next().unwrap_or_default() } else { &text };
        let value = value.trim_end_matches(['\\', '\u{fffd}']).trim();
        // Escaped as JSON wants it; the opening quote is there already.
        answer.text += &serde_json::Value::from(value).to_string()[1..];
        self.end_field(row, answer);
    }

    /// Goes on to the next field, or answers.
    fn end_field(&mut self, row: RowId, mut answer: Answer) {
        answer.value.clear();
        answer.field += 1;
        if answer.field < answer.question.shape.fields.len() {
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

/// The token that all choices have at `step`, when there is more than one choice and nothing to choose.
fn only_next(choices: &[(String, Vec<u32>)], step: usize) -> Option<u32> {
    let (_, first) = choices.first().filter(|_| choices.len() > 1)?;
    let next = *first.get(step)?;
    choices.iter().all(|(_, ids)| ids.get(step) == Some(&next)).then_some(next)
}
