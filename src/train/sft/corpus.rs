use std::sync::Arc;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use rlver_models::tokenizer::ChatMessage;

use crate::Error;
use crate::dialogue::think::{self, ReplyMode};
use crate::dialogue::{Language, Profile, ProfileSet, is_han, prompt};
use crate::recipe::Recipe;
use crate::rollout::Policy;
use crate::seed::{self, Purpose};
use crate::supporter::{ReplyContext, Supporter, random_plan};
use crate::user::builtin::BuiltinUser;
use crate::user::{Emotion, SessionSettings, UserEngine};

/// Replies per scripted dialogue at most.
const MAX_TURNS: usize = 8;

/// Share of dialogues in which the things people talk about are exchanged for random ones, so that a policy must learn
/// to take them from what was said instead of remembering the stories.
const EXCHANGED_SHARE: f64 = 0.6;

/// Share of the turns of a think-mode dialogue that become rows: each repeats the whole history.
const THINK_TURN_SHARE: f64 = 0.35;

/// Weight in the loss of the tokens that take up what the person talks about.
const SUBJECT_WEIGHT: f32 = 3.0;

/// Made-up things in an echo exercise at most.
const MAX_ECHO: usize = 24;

/// Scripted dialogues: a supporter of mixed strategies and mixed quality with the built-in users.
#[derive(Debug)]
pub struct Corpus {
    dialogues: Vec<Scripted>,
    words: WordPool,
}

#[derive(Debug)]
struct Scripted {
    mode: ReplyMode,
    profile: Arc<Profile>,
    opening: String,
    turns: Vec<ScriptedTurn>,
}

#[derive(Debug)]
struct ScriptedTurn {
    /// Whether the turn becomes a row in think mode.
    kept: bool,
    thought: String,
    reply: String,
    /// What the person had just talked about.
    subject: Option<String>,
    answer: String,
    farewell: bool,
}

/// A token sequence with the weight of every token in the loss.
#[derive(Debug, Clone, PartialEq)]
pub struct SftRow {
    /// Token ids.
    pub ids: Vec<u32>,
    /// One weight per token; 0 leaves it out.
    pub weights: Vec<f32>,
}

impl Corpus {
    /// Writes `count` dialogues with the people of `profiles`; `part` keeps corpora apart.
    pub fn write(profiles: &ProfileSet, recipe: &Recipe, count: usize, part: u64) -> Corpus {
        let users = BuiltinUser::new();
        let words = WordPool::of(profiles);
        let dialogues = (0..count)
            .into_par_iter()
            .map(|i| {
                let seed = seed::mix(&[recipe.run.seed, Purpose::Corpus as u64, part, i as u64]);
                let profile = profiles.get(i % profiles.len()).clone();
                Scripted::write(&users, profile, &words, seed, recipe.sft.think_share)
            })
            .collect();
        Corpus { dialogues, words }
    }

    /// Everything said or thought, and the system prompts, for the tokenizer.
    ///
    /// Chinese characters come one by one, so that no token spans two: the same words are then the same tokens wherever
    /// they stand, which makes them easy to take up.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let whole = self.dialogues.iter().flat_map(|d| {
            let system = prompt::system(d.mode, d.profile.language());
            let turns = d.turns.iter().flat_map(|t| [t.thought.as_str(), &t.reply, &t.answer]);
            [system, d.opening.as_str(), think::OPEN, think::CLOSE].into_iter().chain(turns)
        });
        whole.flat_map(single_characters)
    }

    /// The dialogues as token rows: one a dialogue in direct mode, one a turn in think mode.
    ///
    /// # Errors
    /// When the chat template cannot render them.
    pub fn rows(&self, policy: &Policy, user_weight: f32) -> Result<Vec<SftRow>, Error> {
        let rows: Result<Vec<Vec<SftRow>>, Error> =
            self.dialogues.par_iter().map(|d| d.rows(policy, user_weight)).collect();
        Ok(rows?.into_iter().flatten().collect())
    }

    /// Echo exercises of about `tokens` tokens in all: lists of made-up things to be said back. They teach a small
    /// network to take up what was said, which the dialogues alone do not.
    ///
    /// # Errors
    /// When the chat template cannot render them.
    pub fn echo_rows(&self, policy: &Policy, tokens: usize, seed: u64) -> Result<Vec<SftRow>, Error> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut rows, mut total) = (Vec::new(), 0);
        while total < tokens {
            let language = Language::ALL[rng.random_range(0..2)];
            let count = rng.random_range(2..=MAX_ECHO);
            let things: Vec<String> = (0..count).map(|_| self.words.draw(language, &mut rng)).collect();
            let echo = things.join(if language == Language::Zh { "，" } else { ", " });
            let mut row = SftRow::context(policy.chat.prompt_ids(&[ChatMessage::user(&echo)])?);
            row.push(policy.tokenizer.encode_plain(&echo), 1.0);
            row.push(vec![policy.chat.turn_end()], 1.0);
            total += row.ids.len();
            rows.push(row);
        }
        Ok(rows)
    }
}

/// Cuts a text at its Chinese characters: each is a piece of its own, what lies between stays together.
fn single_characters(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(is_han).flat_map(|piece| {
        let split = piece.char_indices().next_back().filter(|(_, c)| is_han(*c)).map_or(piece.len(), |(at, _)| at);
        let (before, character) = piece.split_at(split);
        [before, character].into_iter().filter(|part| !part.is_empty())
    })
}

impl Scripted {
    fn write(users: &BuiltinUser, profile: Arc<Profile>, words: &WordPool, seed: u64, think_share: f64) -> Scripted {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let profile = if rng.random_bool(EXCHANGED_SHARE) { words.exchange(&profile, &mut rng) } else { profile };
        let mode = if rng.random_bool(think_share) { ReplyMode::Think } else { ReplyMode::Direct };
        // Any mood to begin with, so that the policy meets users in every band however the scripted replies fare.
        let start = Emotion::new(rng.random_range(20..=85)).expect("within the scale");
        let mut session = users.open(profile.clone(), SessionSettings { start, seed: rng.next_u64() });
        let opening = session.opening().expect("the built-in user never fails");
        let mut dialogue = Scripted { mode, profile, opening, turns: Vec::new() };
        let mut keys: Vec<&str> = Vec::new();
        let profile = dialogue.profile.clone();
        for turn in 0..MAX_TURNS {
            let line = dialogue.turns.last().map_or(dialogue.opening.as_str(), |t: &ScriptedTurn| &t.answer);
            let key = profile.details.iter().find(|d| line.contains(&d.say)).map(|d| d.key.as_str());
            let context =
                ReplyContext { language: profile.language(), last_user_line: line, key, earlier_keys: &keys, turn };
            let reply = Supporter.reply(random_plan(&mut rng), &context, &mut rng);
            keys.extend(key);
            let answer = session.respond(&reply.text).expect("the built-in user never fails");
            let farewell = answer.farewell;
            dialogue.turns.push(ScriptedTurn {
                kept: turn == 0 || rng.random_bool(THINK_TURN_SHARE),
                thought: reply.thought,
                reply: reply.text,
                subject: key.map(str::to_string),
                answer: answer.line,
                farewell,
            });
            if farewell {
                break;
            }
        }
        dialogue
    }

    fn rows(&self, policy: &Policy, user_weight: f32) -> Result<Vec<SftRow>, Error> {
        let system = prompt::system(self.mode, self.profile.language());
        let mut messages = vec![ChatMessage::system(system), ChatMessage::user(&self.opening)];
        let mut rows = Vec::new();
        let mut row = SftRow::context(policy.chat.prompt_ids(&messages)?);
        for turn in &self.turns {
            match self.mode {
                ReplyMode::Direct => {
                    row.push_reply(policy, &turn.reply, turn.subject.as_deref());
                    if !turn.farewell {
                        row.push_user(policy, &turn.answer, user_weight);
                    }
                }
                ReplyMode::Think => {
                    let text = think::format(&turn.thought, &turn.reply);
                    row.push_reply(policy, &text, turn.subject.as_deref());
                    messages.push(ChatMessage::assistant(&turn.reply));
                    messages.push(ChatMessage::user(&turn.answer));
                    let next = SftRow::context(policy.chat.prompt_ids(&messages)?);
                    let finished = std::mem::replace(&mut row, next);
                    rows.extend(turn.kept.then_some(finished));
                }
            }
        }
        if self.mode == ReplyMode::Direct {
            rows.push(row);
        }
        Ok(rows)
    }
}

/// What the people of a set of profiles talk about, per language: characters of Chinese, words of English.
#[derive(Debug)]
struct WordPool {
    zh: Vec<String>,
    en: Vec<String>,
}

impl WordPool {
    fn of(profiles: &ProfileSet) -> WordPool {
        let mut pool = WordPool { zh: Vec::new(), en: Vec::new() };
        for profile in profiles.iter() {
            for detail in &profile.details {
                match profile.language() {
                    Language::Zh => pool.zh.extend(detail.say.chars().filter(|c| is_han(*c)).map(String::from)),
                    Language::En => pool.en.extend(
                        detail
                            .say
                            .split(|c: char| !c.is_ascii_alphabetic())
                            .filter(|w| w.len() > 3)
                            .map(str::to_lowercase),
                    ),
                }
            }
        }
        pool
    }

    /// A made-up thing to talk about.
    fn draw(&self, language: Language, rng: &mut ChaCha8Rng) -> String {
        let (pool, joint, most) = match language {
            Language::Zh => (&self.zh, "", 4),
            Language::En => (&self.en, " ", 2),
        };
        let length = rng.random_range(most / 2..=most);
        let parts: Vec<&str> = (0..length).filter_map(|_| pool.choose(rng).map(String::as_str)).collect();
        parts.join(joint)
    }

    /// The profile with every detail's subject exchanged for a made-up one.
    fn exchange(&self, profile: &Arc<Profile>, rng: &mut ChaCha8Rng) -> Arc<Profile> {
        let mut changed = Profile::clone(profile);
        for detail in &mut changed.details {
            let subject = self.draw(profile.language(), rng);
            if !subject.is_empty() {
                detail.say = detail.say.replacen(&detail.key, &subject, 1);
                detail.key = subject;
            }
        }
        Arc::new(changed)
    }
}

impl SftRow {
    fn context(ids: Vec<u32>) -> SftRow {
        SftRow { weights: vec![0.0; ids.len()], ids }
    }

    fn push(&mut self, ids: Vec<u32>, weight: f32) {
        self.weights.extend(std::iter::repeat_n(weight, ids.len()));
        self.ids.extend(ids);
    }

    /// A reply and the token that ends it; the tokens of `subject` weigh more.
    fn push_reply(&mut self, policy: &Policy, text: &str, subject: Option<&str>) {
        let ids = policy.tokenizer.encode_plain(text);
        let subjects: Vec<std::ops::Range<usize>> = subject
            .into_iter()
            .flat_map(|subject| text.match_indices(subject).map(|(at, found)| at..at + found.len()))
            .collect();
        let mut at = 0;
        for id in &ids {
            let end = at + policy.tokenizer.token_bytes(*id).len();
            let inside = subjects.iter().any(|s| at < s.end && s.start < end);
            self.weights.push(if inside { SUBJECT_WEIGHT } else { 1.0 });
            at = end;
        }
        self.ids.extend(ids);
        self.push(vec![policy.chat.turn_end()], 1.0);
    }

    /// The tokens from a closed assistant turn to the next one: the words weigh `weight`, the headers around them 0.
    fn push_user(&mut self, policy: &Policy, line: &str, weight: f32) {
        let ids = policy.chat.continuation_ids(line);
        let words = policy.tokenizer.encode_plain(line).len();
        let before = policy.chat.turn_suffix().len() + policy.chat.user_header().len();
        let end = (before + words).min(ids.len());
        let mut weights = vec![0.0; ids.len()];
        weights[before.min(end)..end].fill(weight);
        self.ids.extend(ids);
        self.weights.extend(weights);
    }
}
