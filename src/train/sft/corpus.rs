use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use rlver_models::tokenizer::ChatMessage;

use super::exercises::{WordPool, generator};
use crate::Error;
use crate::dialogue::think::{self, ReplyMode};
use crate::dialogue::{HiddenIntention, Profile, ProfileSet, Strategy, prompt};
use crate::recipe::Recipe;
use crate::rollout::Policy;
use crate::seed::{self, Purpose};
use crate::supporter::{Quality, ReplyContext, Supporter, random_plan};
use crate::user::builtin::BuiltinUser;
use crate::user::{Emotion, SessionSettings, UserEngine};

/// Replies per scripted dialogue at most.
const MAX_TURNS: usize = 8;

/// Share of good replies that do what the person's hidden intention asks for; the others are drawn without regard to it.
/// It stands for what a pretrained model knows: that "what should I do?" may be answered with advice.
const FITTING_SHARE: f64 = 0.35;

/// Share of dialogues whose people tell random words.
const EXCHANGED_SHARE: f64 = 0.5;

/// What the exercises consist of. A network this small learns something rare among other things slowly or never, so they
/// come one after another: lists, hints answered by one sentence, by whole replies too, and then all of it together, which
/// goes on beside the dialogues, for what is not exercised is forgotten.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Exercises {
    /// Share of dialogues in which the supporter only gives back what it is told.
    quoting: f64,
    /// Share of rows of hints.
    hints: f64,
    /// Share of rows of hints that are answered by whole replies.
    whole: f64,
}

impl Exercises {
    /// After `progress` (0–1) of the steps that only exercise.
    fn after(progress: f64) -> Exercises {
        let (quoting, hints, whole) = match progress {
            ..0.19 => (0.0, 0.0, 0.0),
            ..0.35 => (0.0, 1.0, 0.0),
            ..0.55 => (0.0, 1.0, 0.5),
            _ => (0.3, 0.5, 0.8),
        };
        Exercises { quoting, hints, whole }
    }
}

/// Share of the turns of a think-mode dialogue that become rows: each repeats the whole history.
const THINK_TURN_SHARE: f64 = 0.35;

/// Scripted dialogues: a supporter of mixed strategies and mixed quality with the built-in users.
#[derive(Debug)]
pub struct Corpus {
    dialogues: Vec<Scripted>,
    words: WordPool,
}

/// What the people of a scripted dialogue tell, and what the supporter makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Their story; replies of mixed quality.
    Story,
    /// Random words; replies of mixed quality.
    Exchanged,
    /// Random words, and nothing but their own words as a reply.
    Quoting,
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
        let words = WordPool::of(profiles.iter().flat_map(|p| p.details.iter().map(|d| d.say.as_str())));
        let dialogues = (0..count)
            .into_par_iter()
            .map(|i| {
                let mut rng = generator(seed::mix(&[recipe.run.seed, Purpose::Corpus as u64, part, i as u64]));
                let kind = if rng.random_bool(EXCHANGED_SHARE) { Kind::Exchanged } else { Kind::Story };
                let mode = if rng.random_bool(recipe.sft.think_share) { ReplyMode::Think } else { ReplyMode::Direct };
                Scripted::write(&users, profiles.get(i % profiles.len()), &words, kind, mode, &mut rng)
            })
            .collect();
        Corpus { dialogues, words }
    }

    /// Everything said or thought, and the system prompts, for the tokenizer.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.dialogues.iter().flat_map(|d| {
            let system = prompt::system(d.mode, d.profile.language());
            let turns = d.turns.iter().flat_map(|t| [t.thought.as_str(), &t.reply, &t.answer]);
            [system, d.opening.as_str(), think::OPEN, think::CLOSE].into_iter().chain(turns)
        })
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

    /// The exercise batch of about `tokens` tokens after `progress` (0–1) of the exercises: lists to be said back, longer
    /// and longer, then also dialogues in which the supporter only gives back the random words it is told, and lines
    /// that hint at one intention after the other, answered by what fits each.
    ///
    /// # Errors
    /// When the chat template cannot render them.
    pub fn exercises(
        &self,
        profiles: &ProfileSet,
        policy: &Policy,
        tokens: usize,
        progress: f64,
        seed: u64,
    ) -> Result<Vec<SftRow>, Error> {
        let mut rng = generator(seed);
        let (users, mixture) = (BuiltinUser::new(), Exercises::after(progress));
        let (mut rows, mut total) = (Vec::new(), 0);
        while total < tokens {
            let whole = rng.random_bool(mixture.whole);
            let draw: f64 = rng.random();
            let new = if draw < mixture.quoting {
                let profile = profiles.get(rng.random_range(0..profiles.len()));
                let kind = Kind::Quoting;
                Scripted::write(&users, profile, &self.words, kind, ReplyMode::Direct, &mut rng).rows(policy, 0.0)?
            } else if draw < mixture.quoting + mixture.hints {
                vec![self.words.hint_row(policy, whole, &mut rng)?]
            } else {
                vec![self.words.list_row(policy, progress, &mut rng)?]
            };
            total += new.iter().map(|r| r.ids.len()).sum::<usize>();
            rows.extend(new);
        }
        Ok(rows)
    }
}

impl Scripted {
    fn write(
        users: &BuiltinUser,
        profile: &Arc<Profile>,
        words: &WordPool,
        kind: Kind,
        mode: ReplyMode,
        rng: &mut ChaCha8Rng,
    ) -> Scripted {
        let profile = if kind == Kind::Story { profile.clone() } else { words.exchange(profile, rng) };
        // Any mood to begin with, so that the policy meets users in every band however the scripted replies fare.
        let start = Emotion::new(rng.random_range(20..=85)).expect("within the scale");
        let mut session = users.open(profile.clone(), SessionSettings { start, seed: rng.next_u64() });
        let opening = session.opening().expect("the built-in user never fails");
        let mut dialogue = Scripted { mode, profile, opening, turns: Vec::new() };
        let profile = dialogue.profile.clone();
        for turn in 0..MAX_TURNS {
            let line = dialogue.turns.last().map_or(dialogue.opening.as_str(), |t: &ScriptedTurn| &t.answer);
            let context = ReplyContext {
                language: profile.language(),
                last_user_line: line,
                key: None,
                told: told(line, &profile),
                earlier_keys: &[],
                turn,
            };
            let mut plan = random_plan(rng);
            if plan.quality != Quality::Poor && rng.random_bool(FITTING_SHARE) {
                plan.strategy = fitting(profile.intention());
            }
            let reply = match (kind, context.told) {
                (Kind::Quoting, Some(told)) => Supporter.quote(told, profile.language(), rng),
                _ => Supporter.reply(plan, &context, rng),
            };
            let answer = session.respond(&reply.text).expect("the built-in user never fails");
            let farewell = answer.farewell;
            dialogue.turns.push(ScriptedTurn {
                kept: turn == 0 || rng.random_bool(THINK_TURN_SHARE),
                thought: reply.thought,
                reply: reply.text,
                answer: answer.line,
                farewell,
            });
            if farewell && kind != Kind::Quoting {
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
                    row.push(policy.tokenizer.encode_plain(&turn.reply), 1.0);
                    row.push(vec![policy.chat.turn_end()], 1.0);
                    if !turn.farewell {
                        row.push_user(policy, &turn.answer, user_weight);
                    }
                }
                ReplyMode::Think => {
                    let text = think::format(&turn.thought, &turn.reply);
                    row.push(policy.tokenizer.encode_plain(&text), 1.0);
                    row.push(vec![policy.chat.turn_end()], 1.0);
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

/// The sentence of the profile's story that `line` tells.
fn told<'a>(line: &str, profile: &'a Profile) -> Option<&'a str> {
    let sentence = |say: &&str| {
        let words = say.trim().trim_end_matches(['.', '?', '!', '。', '？', '！']);
        !words.is_empty() && line.contains(words)
    };
    profile.first_talk.as_deref().into_iter().chain(profile.details.iter().map(|d| d.say.as_str())).find(sentence)
}

/// The main strategy that answers a hidden intention.
pub(super) fn fitting(intention: HiddenIntention) -> Strategy {
    match intention {
        HiddenIntention::Dialectical => Strategy::BothSides,
        HiddenIntention::Advice => Strategy::Advice,
        HiddenIntention::ExplainOthers => Strategy::AnalyseOthers,
        HiddenIntention::SelfReflection => Strategy::GuideReflection,
        HiddenIntention::Praise => Strategy::PraiseActions,
        HiddenIntention::Venting => Strategy::WillingToListen,
        HiddenIntention::DeepEmpathy => Strategy::NameFeeling,
        HiddenIntention::NotMyFault => Strategy::Exonerate,
    }
}

impl SftRow {
    pub(super) fn context(ids: Vec<u32>) -> SftRow {
        SftRow { weights: vec![0.0; ids.len()], ids }
    }

    pub(super) fn push(&mut self, ids: Vec<u32>, weight: f32) {
        self.weights.extend(std::iter::repeat_n(weight, ids.len()));
        self.ids.extend(ids);
    }

    /// The tokens from a closed assistant turn to the next one: the words weigh `weight`, the headers around them 0.
    pub(super) fn push_user(&mut self, policy: &Policy, line: &str, weight: f32) {
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
