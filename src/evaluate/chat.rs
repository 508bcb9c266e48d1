//! Language models that answer through a [`ChatEngine`] (a server's, or a checkpoint in this process) as policies and judges
//! of an evaluation.

use serde_json::{Map, Value, json};

use super::capability::ChatModel;
use super::text_policy::TextPolicy;
use crate::dialogue::{Role, Transcript};
use crate::user::llm::engine::{AnswerShape, ChatEngine, ChatRequest, ChatSampling, Message, Usage};

/// A model behind an endpoint as the policy: it gets the system prompt and the dialogue, and answers with words.
pub struct ChatPolicy {
    engine: Box<dyn ChatEngine>,
    temperature: f64,
    max_tokens: usize,
}

impl ChatPolicy {
    /// A policy whose replies are sampled at `temperature`, each of at most `max_tokens` tokens.
    pub fn new(engine: Box<dyn ChatEngine>, temperature: f64, max_tokens: usize) -> ChatPolicy {
        ChatPolicy { engine, temperature, max_tokens }
    }

    /// How many replies it can work on at once.
    pub fn concurrency(&self) -> usize {
        self.engine.concurrency()
    }

    /// What was used so far.
    pub fn usage(&self) -> Usage {
        self.engine.usage()
    }
}

impl TextPolicy for ChatPolicy {
    fn name(&self) -> String {
        self.engine.model()
    }

    fn reply(&self, system: &str, dialogue: &Transcript, seed: u64) -> Result<String, String> {
        let said = dialogue.0.iter().map(|u| Message::new(u.role, &*u.content));
        let messages: Vec<Message> = std::iter::once(Message::new(Role::System, system)).chain(said).collect();
        let sampling = ChatSampling { temperature: self.temperature, top_p: 1.0, max_tokens: self.max_tokens, seed };
        let request = ChatRequest { messages: &messages, shape: &AnswerShape::WORDS, sampling };
        self.engine.complete(&request).map(|answer| answer.text).map_err(|e| e.to_string())
    }
}

/// A model as a judge.
pub struct ChatJudge<'a> {
    engine: &'a dyn ChatEngine,
    /// How its answers are sampled; the seed is each question's own.
    sampling: ChatSampling,
}

impl<'a> ChatJudge<'a> {
    /// A judge whose answers are sampled as `sampling` says, but for the seed.
    pub fn new(engine: &'a dyn ChatEngine, sampling: ChatSampling) -> ChatJudge<'a> {
        ChatJudge { engine, sampling }
    }

    /// What a judgement depends on, for result files.
    pub fn settings(&self) -> Map<String, Value> {
        let ChatSampling { temperature, top_p, max_tokens, .. } = self.sampling;
        let all = json!({
            "model": self.engine.model(), "temperature": temperature, "top_p": top_p, "max_tokens": max_tokens,
        });
        all.as_object().cloned().unwrap_or_default()
    }
}

impl ChatModel for ChatJudge<'_> {
    fn name(&self) -> String {
        self.engine.model()
    }

    fn complete(&self, system: &str, question: &str, shape: &AnswerShape, seed: u64) -> Result<String, String> {
        let messages = [Message::new(Role::System, system), Message::new(Role::User, question)];
        let request = ChatRequest { messages: &messages, shape, sampling: ChatSampling { seed, ..self.sampling } };
        let answer = self.engine.complete(&request).map_err(|e| e.to_string())?;
        if answer.truncated {
            return Err(format!("its answer was cut off after {} tokens; raise max_tokens", self.sampling.max_tokens));
        }
        Ok(answer.text)
    }
}
