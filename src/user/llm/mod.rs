//! A simulated user played by a language model: SAGE's two chains, in our wording.
//!
//! After each reply the model is asked twice. First, as the person, to appraise it: what it does, how it fits what is
//! secretly wanted, what goes on inside, how it feels, and a signed change ([`answer::appraisal`]). The emotion moves by
//! that change and by nothing else. Then to speak, out of the band the emotion is now in ([`answer::line`]). An answer
//! that cannot be read is asked for again, a bounded number of times; after that the user has failed, and the
//! dialogue has no score.
//!
//! Which model answers is an [`engine::ChatEngine`]'s business. Everything asked and answered is left for the record
//! ([`ModelCall`]).

pub mod answer;
pub mod engine;
pub mod prompt;
pub mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use self::answer::{APPRAISAL, LINE};
use self::engine::{AnswerShape, ChatEngine, ChatRequest, ChatSampling, Message, Usage, prompt_hash};
use self::prompt::{Variant, View};
use super::record::{Chain, ModelCall, Rejected};
use super::{Appraisal, Band, Emotion, SavedSession, SessionSettings, UserEngine, UserError, UserSession, UserTurn};
use crate::dialogue::{Language, Profile, Role, Transcript};
use crate::seed;

/// What is told back to the model of an unreadable answer, in characters.
const LONGEST_QUOTE: usize = 1000;

/// How a model plays users.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LlmSettings {
    /// How demanding the users are.
    pub variant: Variant,
    /// Sampling temperature.
    pub temperature: f64,
    /// Nucleus; 1 keeps everything.
    pub top_p: f64,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// How often a question is asked before its answer counts as not to be had; at least 1.
    pub asks: usize,
}

impl Default for LlmSettings {
    fn default() -> LlmSettings {
        LlmSettings { variant: Variant::Vanilla, temperature: 0.5, top_p: 1.0, max_tokens: 512, asks: 3 }
    }
}

/// The engine of users played by a language model.
#[derive(Clone)]
pub struct LlmUser {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    engine: Box<dyn ChatEngine>,
    settings: LlmSettings,
    /// First lines by profile and seed: dialogues of one group open alike, and are asked for once.
    openings: Mutex<HashMap<(String, u64), Arc<Opening>>>,
}

/// A first line, once it is there; whoever holds the lock is asking for it.
type Opening = Mutex<Option<String>>;

impl LlmUser {
    /// Users played by `engine`.
    pub fn new(engine: Box<dyn ChatEngine>, settings: LlmSettings) -> LlmUser {
        let name = LlmUser::named(&engine.model(), settings.variant);
        LlmUser { shared: Arc::new(Shared { name, engine, settings, openings: Mutex::default() }) }
    }
}

impl LlmUser {
    /// What records call the users that `model` plays.
    pub fn named(model: &str, variant: Variant) -> String {
        format!("llm/{} {model} {}", prompt::VERSION, variant.name())
    }
}

impl UserEngine for LlmUser {
    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn open(&self, profile: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession> {
        Box::new(Session {
            shared: self.shared.clone(),
            seed: settings.seed,
            emotion: settings.start,
            profile,
            said: Transcript::default(),
            calls: Vec::new(),
        })
    }

    /// Nothing is asked again: another answer might come.
    fn restore(&self, profile: Arc<Profile>, saved: &SavedSession) -> Result<Box<dyn UserSession>, UserError> {
        let name = &self.shared.name;
        saved.fits(name, &profile)?;
        let SessionSettings { start: mut emotion, seed } = saved.settings;
        let mut said = Transcript::default();
        saved.opening.iter().for_each(|line| said.push(Role::User, line.clone()));
        for (number, (reply, turn)) in saved.turns.iter().enumerate() {
            if turn.before != emotion || turn.after != emotion.after(&turn.appraisal) {
                let problem = format!("the saved session was changed: the emotions of reply {} differ", number + 1);
                return Err(UserError { user: name.clone(), problem });
            }
            emotion = turn.after;
            said.push(Role::Assistant, reply.clone());
            said.push(Role::User, turn.line.clone());
        }
        Ok(Box::new(Session { shared: self.shared.clone(), profile, seed, emotion, said, calls: Vec::new() }))
    }

    fn concurrency(&self) -> Option<usize> {
        Some(self.shared.engine.concurrency())
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.shared.engine.usage())
    }
}

struct Session {
    shared: Arc<Shared>,
    profile: Arc<Profile>,
    seed: u64,
    emotion: Emotion,
    said: Transcript,
    calls: Vec<ModelCall>,
}

impl Session {
    fn view(&self, emotion: Emotion) -> View<'_> {
        View { profile: &self.profile, variant: self.shared.settings.variant, emotion, said: &self.said }
    }

    fn language(&self) -> Language {
        self.profile.language()
    }

    /// Asks until the answer can be read, or the asks are used up. What happened is noted either way.
    fn ask<T>(
        &mut self,
        chain: Chain,
        messages: Vec<Message>,
        shape: &AnswerShape,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, UserError> {
        let settings = self.shared.settings;
        let turn = self.said.said_by(Role::Assistant).count() as u64;
        let sampling = ChatSampling {
            temperature: settings.temperature,
            top_p: settings.top_p,
            max_tokens: settings.max_tokens,
            seed: seed::mix(&[self.seed, turn, chain as u64]),
        };
        let mut call = ModelCall {
            chain,
            model: self.shared.engine.model(),
            sampling,
            prompt_sha256: prompt_hash(&messages),
            exchange_sha256: String::new(),
            answer: None,
            rejected: Vec::new(),
            failure: None,
            prompt_tokens: 0,
            completion_tokens: 0,
        };
        let result = self.converse(&mut call, &messages, shape, read);
        let exchange = exchange(&messages, &call.rejected, call.answer.as_deref(), self.language(), shape);
        call.exchange_sha256 = prompt_hash(&exchange);
        if let Err(problem) = &result {
            call.failure = Some(problem.clone());
        }
        self.calls.push(call);
        result.map_err(|problem| UserError { user: self.shared.name.clone(), problem })
    }

    fn converse<T>(
        &self,
        call: &mut ModelCall,
        first: &[Message],
        shape: &AnswerShape,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        let asks = self.shared.settings.asks.max(1);
        for ask in 0..asks {
            let seed = if ask == 0 { call.sampling.seed } else { seed::mix(&[call.sampling.seed, ask as u64]) };
            let messages = asked(first, call.rejected.last(), self.language(), shape);
            let request = ChatRequest { messages: &messages, shape, sampling: ChatSampling { seed, ..call.sampling } };
            let completion = self.shared.engine.complete(&request).map_err(|e| e.to_string())?;
            call.prompt_tokens += completion.prompt_tokens;
            call.completion_tokens += completion.completion_tokens;
            let mut problem = match read(&completion.text) {
                Ok(value) => {
                    call.answer = Some(completion.text);
                    return Ok(value);
                }
                Err(problem) => problem,
            };
            if completion.truncated {
                problem += &format!(" (it was cut off after {} tokens)", call.sampling.max_tokens);
            }
            call.rejected.push(Rejected { answer: completion.text, problem });
        }
        let last = call.rejected.last().map(|r| r.problem.as_str()).unwrap_or_default();
        let what = call.chain.name();
        Err(format!("none of {asks} answers to the question for {what} can be read; the last: {last}"))
    }
}

impl UserSession for Session {
    fn opening(&mut self) -> Result<String, UserError> {
        let fixed = self.profile.first_talk.as_deref().map(str::trim).filter(|line| !line.is_empty());
        if let Some(line) = fixed.map(str::to_owned) {
            self.said.push(Role::User, line.clone());
            return Ok(line);
        }
        let key = (self.profile.id.clone(), self.seed);
        let place = self.shared.openings.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        // Whoever comes second waits for the first one's line.
        let mut line = place.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = match &*line {
            Some(line) => line.clone(),
            None => {
                let messages = prompt::open(&self.view(self.emotion), &LINE);
                let (task, language) = (self.profile.task.clone(), self.language());
                let (said, _) =
                    self.ask(Chain::Opening, messages, &LINE, |text| answer::line(text, &task, language))?;
                line.insert(said).clone()
            }
        };
        self.said.push(Role::User, opening.clone());
        Ok(opening)
    }

    fn respond(&mut self, reply: &str) -> Result<UserTurn, UserError> {
        let before = self.emotion;
        let silent = reply.trim().is_empty();
        let appraisal = if silent {
            silence(self.language())
        } else {
            let messages = prompt::appraise(&self.view(before), reply, &APPRAISAL);
            self.ask(Chain::Appraisal, messages, &APPRAISAL, answer::appraisal)?
        };
        let after = before.after(&appraisal);
        let messages = prompt::speak(&self.view(after), reply, &appraisal, &LINE);
        let (task, language) = (self.profile.task.clone(), self.language());
        let (line, farewell) = self.ask(Chain::Reply, messages, &LINE, |text| answer::line(text, &task, language))?;
        self.emotion = after;
        self.said.push(Role::Assistant, reply);
        self.said.push(Role::User, line.clone());
        let farewell = farewell || matches!(after.band(), Band::S | Band::F);
        Ok(UserTurn { appraisal, before, after, line, farewell, guard: silent.then(|| SILENCE.into()) })
    }

    fn emotion(&self) -> Emotion {
        self.emotion
    }

    fn take_calls(&mut self) -> Vec<ModelCall> {
        std::mem::take(&mut self.calls)
    }
}

/// The conversation a question is asked with: the first one, or, after an answer that could not be read, that one with the
/// answer and what was wrong with it.
fn asked(first: &[Message], rejected: Option<&Rejected>, language: Language, shape: &AnswerShape) -> Vec<Message> {
    let mut messages = first.to_vec();
    if let Some(rejected) = rejected {
        let quote: String = rejected.answer.chars().take(LONGEST_QUOTE).collect();
        messages.push(Message::new(Role::Assistant, quote));
        messages.push(prompt::again(language, &rejected.problem, shape));
    }
    messages
}

/// All that was asked and answered for one question, one after the other.
pub fn exchange(
    first: &[Message],
    rejected: &[Rejected],
    answer: Option<&str>,
    language: Language,
    shape: &AnswerShape,
) -> Vec<Message> {
    let mut all = asked(first, None, language, shape);
    for rejected in rejected {
        all.push(Message::new(Role::Assistant, &*rejected.answer));
        all.extend(asked(first, Some(rejected), language, shape));
    }
    all.extend(answer.map(|answer| Message::new(Role::Assistant, answer)));
    all
}

/// The guard against replies without any text: there is nothing a model could appraise.
pub const SILENCE: &str = "empty";

/// The appraisal of a reply without any text.
pub fn silence(language: Language) -> Appraisal {
    let [content, fit, activity, feeling] = match language {
        Language::Zh => ["对方什么也没说。", "没有碰到任何一点。", "是不是根本没人在听。", "被晾在一边。"],
        Language::En => ["Says nothing at all.", "Meets nothing.", "Is anybody listening?", "Left standing."],
    };
    Appraisal {
        content: content.into(),
        fit: fit.into(),
        activity: activity.into(),
        feeling: feeling.into(),
        change: -(Appraisal::MAX_CHANGE as i8),
    }
}
