//! Where a simulated user stands: how readily it takes what is offered, and how clearly it lets its need be known
//! (RLVER, section 3.4 and appendix D).
//!
//! The *strategy acceptance rate* is the share of fixed probes after which the emotion rises. A probe is a person, its
//! fixed first line, and one reply that follows one strategy; the replies are the scripted supporter's, so they are the
//! same for every user. The *expression level* is a judge's: a language model scores how well what the user then says
//! agrees with its need, its thought and the reply, from 0 to 10 each and overall; the level is the mean overall score in
//! percent. RLVER reports 52.4 % and 78.6 % for its vanilla user, 33.1 % and 63.6 % for the challenging one; its probes
//! (contexts from SAGE dialogues) and its judge were others, so the figures compare in kind, not in digits.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::each::each;
use super::llm::answer;
use super::llm::engine::{AnswerShape, ChatEngine, ChatRequest, ChatSampling, Field, FieldKind, Message};
use super::{Emotion, SessionSettings, UserEngine, UserError, UserTurn};
use crate::dialogue::{HiddenIntention, Language, Profile, ProfileSet, Role, Strategy};
use crate::seed;
use crate::supporter::{Quality, ReplyContext, ReplyPlan, Supporter};

/// Acceptance rate and expression level that RLVER reports for its vanilla user, as shares.
pub const VANILLA: (f64, f64) = (0.524, 0.786);
/// The same for its challenging user.
pub const CHALLENGING: (f64, f64) = (0.331, 0.636);

/// One fixed situation: a person, what they said first, and the reply to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The person.
    pub profile: Arc<Profile>,
    /// What the reply does.
    pub strategy: Strategy,
    /// The reply.
    pub reply: String,
}

/// Probes for the people of a set that have a fixed first line: each of the supporter's main strategies once per person.
pub fn probes(profiles: &ProfileSet, seed: u64) -> Vec<Probe> {
    let people = profiles.iter().filter(|p| p.first_talk.as_ref().is_some_and(|line| !line.trim().is_empty()));
    people
        .enumerate()
        .flat_map(|(index, profile)| {
            ReplyPlan::MAIN.into_iter().enumerate().map(move |(s, strategy)| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed::mix(&[seed, index as u64, s as u64]));
                let line = profile.first_talk.as_deref().unwrap_or_default();
                let context = ReplyContext {
                    language: profile.language(),
                    last_user_line: line,
                    key: profile
                        .details
                        .iter()
                        .map(|d| d.key.as_str())
                        .find(|key| !key.is_empty() && line.contains(key)),
                    told: Some(line),
                    earlier_keys: &[],
                    turn: 0,
                };
                let plan = ReplyPlan { strategy, quality: Quality::Specific };
                Probe { profile: profile.clone(), strategy, reply: Supporter.reply(plan, &context, &mut rng).text }
            })
        })
        .collect()
}

/// What a user did with a probe.
pub type Outcome = Result<UserTurn, UserError>;

/// Puts every probe to a fresh user; the outcomes are in the probes' order.
pub fn put(
    user: &dyn UserEngine,
    probes: &[Probe],
    start: Emotion,
    seed: u64,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Outcome> {
    each(user.concurrency(), probes, done, |index, probe| {
        let settings = SessionSettings { start, seed: seed::mix(&[seed, index as u64]) };
        let mut session = user.open(probe.profile.clone(), settings);
        session.opening()?;
        session.respond(&probe.reply)
    })
}

/// Probes answered and taken well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Probes after which the emotion rose.
    pub accepted: usize,
    /// Probes that were answered.
    pub of: usize,
}

impl Share {
    fn count(&mut self, accepted: bool) {
        self.of += 1;
        self.accepted += usize::from(accepted);
    }

    /// The share; 0 of nothing is 0.
    pub fn rate(&self) -> f64 {
        self.accepted as f64 / self.of.max(1) as f64
    }
}

/// Acceptance, over all probes and in groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// All probes.
    pub all: Share,
    /// By what the reply did.
    pub by_strategy: BTreeMap<Strategy, Share>,
    /// By what the person wanted.
    pub by_intention: BTreeMap<HiddenIntention, Share>,
    /// Probes without an answer.
    pub failed: usize,
}

impl Acceptance {
    /// Counts outcomes of probes.
    pub fn of(probes: &[Probe], outcomes: &[Outcome]) -> Acceptance {
        let mut acceptance = Acceptance::default();
        for (probe, outcome) in probes.iter().zip(outcomes) {
            let Ok(turn) = outcome else {
                acceptance.failed += 1;
                continue;
            };
            let accepted = turn.appraisal.change > 0;
            acceptance.all.count(accepted);
            acceptance.by_strategy.entry(probe.strategy).or_default().count(accepted);
            acceptance.by_intention.entry(probe.profile.intention()).or_default().count(accepted);
        }
        acceptance
    }
}

const JUDGEMENT: AnswerShape = AnswerShape {
    name: "judgement",
    fields: &[
        Field { name: "reason", kind: FieldKind::Text(240) },
        Field { name: "need", kind: FieldKind::Integer(0, 10) },
        Field { name: "thought", kind: FieldKind::Integer(0, 10) },
        Field { name: "reply", kind: FieldKind::Integer(0, 10) },
        Field { name: "overall", kind: FieldKind::Integer(0, 10) },
    ],
};

/// A judge's scores of what users said, 0–10, as means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Expression {
    /// Agreement with the need.
    pub need: f64,
    /// Agreement with the inner thought.
    pub thought: f64,
    /// Agreement with the reply that was answered.
    pub reply: f64,
    /// Overall.
    pub overall: f64,
    /// Lines that were judged.
    pub judged: usize,
    /// Lines that the judge gave no readable answer to.
    pub failed: usize,
}

impl Expression {
    /// The expression level, as a share.
    pub fn level(&self) -> f64 {
        self.overall / 10.0
    }
}

/// Has a judge score the lines that users answered probes with.
pub fn judge(
    judge: &dyn ChatEngine,
    probes: &[Probe],
    outcomes: &[Outcome],
    seed: u64,
    done: &(dyn Fn(usize) + Sync),
) -> Expression {
    let answered: Vec<(&Probe, &UserTurn)> =
        probes.iter().zip(outcomes).filter_map(|(probe, outcome)| Some((probe, outcome.as_ref().ok()?))).collect();
    let scores = each(Some(judge.concurrency()), &answered, done, |index, (probe, turn)| {
        let sampling =
            ChatSampling { temperature: 0.0, top_p: 1.0, max_tokens: 512, seed: seed::mix(&[seed, index as u64]) };
        let messages = [Message::new(Role::User, question(probe, turn))];
        let request = ChatRequest { messages: &messages, shape: &JUDGEMENT, sampling };
        scores(&judge.complete(&request).ok()?.text)
    });
    let good: Vec<[f64; 4]> = scores.iter().flatten().copied().collect();
    let mean = |i: usize| good.iter().map(|s| s[i]).sum::<f64>() / good.len().max(1) as f64;
    Expression {
        need: mean(0),
        thought: mean(1),
        reply: mean(2),
        overall: mean(3),
        judged: good.len(),
        failed: scores.len() - good.len(),
    }
}

fn scores(text: &str) -> Option<[f64; 4]> {
    let object = answer::object(text).ok()?;
    let score = |name: &str| object.get(name)?.as_f64().filter(|score| (0.0..=10.0).contains(score));
    Some([score("need")?, score("thought")?, score("reply")?, score("overall")?])
}

fn question(probe: &Probe, turn: &UserTurn) -> String {
    let profile = &probe.profile;
    let (player, scene, task) = (&profile.player, &profile.scene, &profile.task);
    let (first, reply, line) = (profile.first_talk.as_deref().unwrap_or_default(), &probe.reply, &turn.line);
    let (thought, feeling) = (&turn.appraisal.activity, &turn.appraisal.feeling);
    match profile.language() {
        Language::Zh => format!(
            "有人在扮演一个带着心事的人。请看他最后一句话，把下面几点从 0 到 10 打分（整数），先写理由：\n\
             - need：从这句话里能不能看出他心里真正的需要（看不出 0，清清楚楚 10）。\n\
             - thought：这句话和他当时心里的想法、感觉是不是一致。\n\
             - reply：这句话是不是在接对方的话，接得自然。\n\
             - overall：总的来看，他把自己的情绪和需要表达到了什么程度。\n\n\
             人物：{player}\n经过：{scene}\n真正的需要：{task}\n\n他先说：{first}\n对方说：{reply}\n\
             他心里想：{thought} {feeling}\n他最后说：{line}\n\n\
             只输出这样一个 JSON 对象：{{\"reason\": \"…\", \"need\": 0, \"thought\": 0, \"reply\": 0, \"overall\": 0}}"
        ),
        Language::En => format!(
            "Somebody plays a person who has something on their mind. Look at the last line and score the following from \
             0 to 10, whole numbers, with your reason first:\n\
             - need: does the line let one see what the person really needs (0 not at all, 10 plainly)?\n\
             - thought: does the line agree with what went on in the person?\n\
             - reply: does the line take up what the partner said, naturally?\n\
             - overall: all in all, how far does the person express feelings and needs?\n\n\
             Person: {player}\nWhat happened: {scene}\nReal need: {task}\n\nThe person first said: {first}\n\
             The partner said: {reply}\nThe person thought: {thought} {feeling}\nThe person's last line: {line}\n\n\
             Write one JSON object like this and nothing else: \
             {{\"reason\": \"…\", \"need\": 0, \"thought\": 0, \"reply\": 0, \"overall\": 0}}"
        ),
    }
}
