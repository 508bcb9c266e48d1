use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use rlver_models::generate::{Finish, RowId, Sampled, SamplingSettings};
use rlver_models::tokenizer::ChatMessage;

use super::thinking::Thinking;
use super::{EndReason, Episode, Policy, RolloutEngine, Segment, TokenRow, Turn, TurnSettings};
use crate::Error;
use crate::dialogue::think::{self, ReplyMode};
use crate::dialogue::{Profile, Role, Transcript, prompt};
use crate::seed;
use crate::user::record::ModelCall;
use crate::user::{Emotion, SessionSettings, UserEngine, UserError, UserSession, UserTurn};

/// One dialogue to hold.
#[derive(Debug, Clone)]
pub struct Job {
    /// Number of the dialogue, unique within a run; users are found by it.
    pub dialogue: u64,
    /// Group for group baselines.
    pub group: u64,
    /// Whom to talk with.
    pub profile: Arc<Profile>,
    /// The emotion this dialogue starts with, where it is not the rollout's.
    pub start: Option<Emotion>,
    /// Seed of the user's choices.
    pub user_seed: u64,
    /// Seed of the sampling.
    pub sampling_seed: u64,
}

/// What all dialogues of a rollout share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RolloutSettings {
    /// How the policy is asked to answer.
    pub mode: ReplyMode,
    /// Most replies per dialogue.
    pub max_turns: usize,
    /// The emotion a dialogue starts with.
    pub start: Emotion,
    /// How tokens are chosen.
    pub sampling: SamplingSettings,
    /// Most tokens per reply.
    pub max_new_tokens: usize,
}

/// How far a rollout is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Finished dialogues.
    pub done: usize,
    /// All dialogues.
    pub total: usize,
    /// Tokens sampled so far.
    pub tokens: usize,
}

/// Holds all dialogues of `jobs` and returns their episodes in the order of the jobs.
///
/// Users that wait for a server or a model of their own think on threads beside, and the policy goes on generating for
/// the others. What is sampled does not depend on who answers when: every turn has a random stream of its own.
///
/// # Errors
/// When the policy cannot be run; a user that fails makes an unscored episode instead.
pub fn run(
    policy: &Policy,
    engine: &mut dyn RolloutEngine,
    users: &dyn UserEngine,
    jobs: Vec<Job>,
    settings: RolloutSettings,
    progress: impl FnMut(Progress),
) -> Result<Vec<Episode>, Error> {
    let hear = |(_, dialogue): &mut (RowId, Dialogue)| dialogue.hear(policy);
    let waiting = Mutex::new(None);
    match users.concurrency() {
        None => hold(policy, engine, users, jobs, settings, Thinking::at_once(&hear), progress),
        Some(most) => std::thread::scope(|scope| {
            let thinking = Thinking::apart(scope, most.min(jobs.len()), &waiting, &hear);
            hold(policy, engine, users, jobs, settings, thinking, progress)
        }),
    }
}

fn hold(
    policy: &Policy,
    engine: &mut dyn RolloutEngine,
    users: &dyn UserEngine,
    jobs: Vec<Job>,
    settings: RolloutSettings,
    mut thinking: Thinking<'_, (RowId, Dialogue)>,
    mut progress: impl FnMut(Progress),
) -> Result<Vec<Episode>, Error> {
    let mut status = Progress { total: jobs.len(), ..Progress::default() };
    let order: HashMap<u64, usize> = jobs.iter().enumerate().map(|(i, j)| (j.dialogue, i)).collect();
    let stop = policy.stop_ids();
    let mut waiting: VecDeque<Job> = jobs.into();
    let mut active: HashMap<RowId, Dialogue> = HashMap::new();
    let mut finished: Vec<Episode> = Vec::with_capacity(status.total);
    while !waiting.is_empty() || !active.is_empty() || thinking.is_pending() {
        while !waiting.is_empty()
            && let Some(row) = engine.open()
        {
            let job = waiting.pop_front().expect("checked above");
            thinking.give((row, Dialogue::open(job, users, settings)));
        }
        if !active.is_empty() {
            for sampled in engine.step()? {
                status.tokens += 1;
                let dialogue = active.get_mut(&sampled.row).expect("every sampling row has a dialogue");
                dialogue.take(sampled);
                if sampled.finish.is_some() {
                    thinking.give((sampled.row, active.remove(&sampled.row).expect("looked up above")));
                }
            }
        }
        // Users think in parallel; nothing here depends on their order. While some row is sampling there is no need to
        // wait for them.
        for (row, mut dialogue) in thinking.take(active.is_empty()) {
            if dialogue.end.is_none() {
                dialogue.prepare(policy, engine, row, &stop)?;
            }
            if dialogue.end.is_some() {
                engine.close(row);
                finished.push(dialogue.into_episode(users.name()));
                status.done += 1;
            } else {
                active.insert(row, dialogue);
            }
        }
        progress(status);
    }
    finished.sort_by_key(|e| order[&e.dialogue]);
    Ok(finished)
}

/// A dialogue in progress.
struct Dialogue {
    job: Job,
    settings: RolloutSettings,
    session: Box<dyn UserSession>,
    system: &'static str,
    opening: String,
    opening_calls: Vec<ModelCall>,
    transcript: Transcript,
    turns: Vec<Turn>,
    rows: Vec<TokenRow>,
    /// Tokens of the turn being sampled.
    current: Segment,
    finish: Option<Finish>,
    end: Option<EndReason>,
}

impl Dialogue {
    fn open(job: Job, users: &dyn UserEngine, settings: RolloutSettings) -> Dialogue {
        let settings = RolloutSettings { start: job.start.unwrap_or(settings.start), ..settings };
        let session = users.open(job.profile.clone(), SessionSettings { start: settings.start, seed: job.user_seed });
        Dialogue {
            system: prompt::system(settings.mode, job.profile.language()),
            job,
            settings,
            session,
            opening: String::new(),
            opening_calls: Vec::new(),
            transcript: Transcript::default(),
            turns: Vec::new(),
            rows: Vec::new(),
            current: empty_segment(0),
            finish: None,
            end: None,
        }
    }

    /// Notes a sampled token.
    fn take(&mut self, sampled: Sampled) {
        self.current.ids.push(sampled.id);
        self.current.logprobs.push(sampled.logprob);
        self.current.filtered += usize::from(sampled.filtered);
        self.finish = sampled.finish;
    }

    /// The user's part: the first line, or an answer to the turn just sampled.
    fn hear(&mut self, policy: &Policy) {
        let Some(finish) = self.finish.take() else {
            match self.session.opening() {
                Ok(line) => {
                    self.transcript.push(Role::User, line.clone());
                    self.opening = line;
                }
                Err(error) => self.fail(&error),
            }
            self.opening_calls = self.session.take_calls();
            return;
        };
        let turn = self.turns.len();
        let segment = std::mem::replace(&mut self.current, empty_segment(turn + 1));
        let stopped = finish == Finish::Stop;
        let content = if stopped { &segment.ids[..segment.ids.len() - 1] } else { &segment.ids[..] };
        let reply = think::parse(&policy.tokenizer.decode(content, true), self.settings.mode);
        self.rows.last_mut().expect("a turn is sampled after a prompt").segments.push(segment);
        self.turns.push(Turn {
            thought: reply.thought,
            reply: reply.text.clone(),
            well_formed: reply.well_formed,
            user: None,
            calls: Vec::new(),
        });
        // A reply that the context cut short says nothing about the policy's format: the dialogue keeps its reward.
        if finish == Finish::Context {
            self.end = Some(EndReason::Truncated);
            return;
        }
        if !reply.well_formed {
            self.end = Some(EndReason::Malformed);
            return;
        }
        let heard = self.session.respond(&reply.text);
        self.turns.last_mut().expect("just pushed").calls = self.session.take_calls();
        match heard {
            Ok(answer) => self.answered(reply.text, answer),
            Err(error) => self.fail(&error),
        }
    }

    fn answered(&mut self, reply: String, answer: UserTurn) {
        self.transcript.push(Role::Assistant, reply);
        self.transcript.push(Role::User, answer.line.clone());
        let farewell = answer.farewell;
        self.turns.last_mut().expect("just pushed").user = Some(answer);
        if farewell {
            self.end = Some(EndReason::Farewell);
        } else if self.turns.len() >= self.settings.max_turns {
            self.end = Some(EndReason::TurnLimit);
        }
    }

    fn fail(&mut self, error: &UserError) {
        self.end = Some(EndReason::Unscored(error.to_string()));
    }

    /// Gives the engine the next prompt and starts the turn, or ends the dialogue when it would not fit.
    fn prepare(
        &mut self,
        policy: &Policy,
        engine: &mut dyn RolloutEngine,
        row: RowId,
        stop: &[u32],
    ) -> Result<(), Error> {
        let turn = self.turns.len();
        let prompt = self.next_prompt(policy)?;
        if prompt.len() >= engine.capacity() {
            self.end = Some(EndReason::Truncated);
            return Ok(());
        }
        match self.rows.last_mut().filter(|_| self.settings.mode == ReplyMode::Direct) {
            Some(last) => {
                let seen = last.ids();
                let new = prompt.strip_prefix(seen.as_slice());
                let ids = new.ok_or(Error::NotAnExtension { dialogue: self.job.dialogue, turn })?.to_vec();
                last.segments.push(Segment { role: Role::User, ids, ..empty_segment(turn) });
            }
            None => {
                let role = if turn == 0 { Role::System } else { Role::User };
                let segment = Segment { role, ids: prompt.clone(), ..empty_segment(turn) };
                self.rows.push(TokenRow { segments: vec![segment] });
            }
        }
        engine.set_prompt(row, prompt);
        let RolloutSettings { sampling, max_new_tokens, .. } = self.settings;
        let seed = seed::mix(&[self.job.sampling_seed, turn as u64]);
        engine.start_turn(row, &TurnSettings { sampling, seed, max_new_tokens, stop });
        Ok(())
    }

    /// The tokens the next reply is sampled after.
    ///
    /// In direct mode they extend the tokens of the turns before, as sampled. In think mode thoughts leave the
    /// history, so the prompt is rendered anew.
    fn next_prompt(&self, policy: &Policy) -> Result<Vec<u32>, Error> {
        if let (ReplyMode::Direct, Some(row)) = (self.settings.mode, self.rows.last()) {
            let mut ids = row.ids();
            let end = policy.chat.turn_end();
            if ids.last() != Some(&end) {
                // The turn was cut at its token limit: close it for the policy, not as its action.
                ids.push(end);
            }
            let line = self.transcript.said_by(Role::User).next_back().expect("the user spoke last");
            ids.extend(policy.chat.continuation_ids(line));
            return Ok(ids);
        }
        let mut messages = vec![ChatMessage::system(self.system)];
        messages.extend(self.transcript.0.iter().map(|u| match u.role {
            Role::User => ChatMessage::user(&u.content),
            _ => ChatMessage::assistant(&u.content),
        }));
        Ok(policy.chat.prompt_ids(&messages)?)
    }

    fn into_episode(self, user: String) -> Episode {
        let end = self.end.expect("only ended dialogues become episodes");
        let final_emotion = self.session.emotion();
        let reward = match end {
            EndReason::Unscored(_) => None,
            EndReason::Malformed => Some(0.0),
            _ => Some(final_emotion.reward()),
        };
        Episode {
            dialogue: self.job.dialogue,
            group: self.job.group,
            profile: self.job.profile.id.clone(),
            intention: self.job.profile.intention(),
            character: self.job.profile.character(),
            language: self.job.profile.language(),
            user,
            user_seed: self.job.user_seed,
            sampling_seed: self.job.sampling_seed,
            mode: self.settings.mode,
            system: self.system.into(),
            opening: self.opening,
            opening_calls: self.opening_calls,
            turns: self.turns,
            start_emotion: self.settings.start,
            final_emotion,
            end,
            reward,
            rows: self.rows,
        }
    }
}

fn empty_segment(turn: usize) -> Segment {
    Segment { turn, ..Segment::default() }
}
