//! The token truth: which tokens there are, whose they are, and what they say.

use rlver_models::tokenizer::ChatMessage;

use super::emotions::said_before;
use super::{At, AuditError, Check, FileReport};
use crate::dialogue::think::{self, ReplyMode};
use crate::dialogue::{Role, prompt};
use crate::rollout::{EndReason, Segment};

impl Check<'_> {
    /// The rows are prompts and sampled turns by turns; prompts are rendered again, turns decoded again.
    pub(super) fn tokens(&self, at: At<'_>, report: &mut FileReport) -> Result<(), AuditError> {
        let episode = at.episode;
        let rows: Vec<&[Segment]> = episode.rows.iter().map(|row| row.segments.as_slice()).collect();
        let turns = episode.turns.len();
        let expected: Vec<usize> = match (episode.mode, turns) {
            (_, 0) => Vec::new(),
            (ReplyMode::Direct, _) => vec![2 * turns],
            (ReplyMode::Think, _) => vec![2; turns],
        };
        let found: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        at.same(at.last_turn(), "the number of segments a row", &found, &expected)?;
        for turn in 0..turns {
            let (row, first) = match episode.mode {
                ReplyMode::Direct => (rows[0], 2 * turn),
                ReplyMode::Think => (rows[turn], 0),
            };
            self.check_prompt(at, turn, &row[..first], &row[first])?;
            self.check_action(at, turn, &row[..=first], &row[first + 1])?;
            report.tokens += row[first].ids.len() + row[first + 1].ids.len();
        }
        Ok(())
    }

    fn check_prompt(&self, at: At<'_>, turn: usize, before: &[Segment], segment: &Segment) -> Result<(), AuditError> {
        let role = if turn == 0 { Role::System } else { Role::User };
        at.same(turn, "the prompt's role", &segment.role, &role)?;
        at.same(turn, "the prompt's turn", &segment.turn, &turn)?;
        let numbers = [&segment.advantages, &segment.ratios, &segment.old_logprobs, &segment.reference_logprobs];
        if segment.is_action() || segment.filtered > 0 || numbers.iter().any(|n| !n.is_empty()) {
            return at.wrong(turn, "the prompt is marked as sampled");
        }
        let chat = &self.run.policy.chat;
        let derived = match before.last() {
            Some(last) => {
                let end = chat.turn_end();
                let mut ids: Vec<u32> = if last.ids.last() == Some(&end) { Vec::new() } else { vec![end] };
                let user = at.episode.turns[turn - 1].user.as_ref();
                ids.extend(chat.continuation_ids(user.map_or("", |user| user.line.as_str())));
                ids
            }
            None => {
                let said = said_before(at.episode, turn);
                let system = prompt::system(at.episode.mode, at.episode.language);
                let mut messages = vec![ChatMessage::system(system)];
                messages.extend(said.0.iter().map(|u| match u.role {
                    Role::User => ChatMessage::user(&u.content),
                    _ => ChatMessage::assistant(&u.content),
                }));
                chat.prompt_ids(&messages).map_err(crate::Error::from)?
            }
        };
        at.same(turn, "the prompt's tokens", &segment.ids, &derived)
    }

    fn check_action(&self, at: At<'_>, turn: usize, before: &[Segment], segment: &Segment) -> Result<(), AuditError> {
        let (policy, recipe) = (&self.run.policy, &self.run.recipe);
        at.same(turn, "the reply's role", &segment.role, &Role::Assistant)?;
        at.same(turn, "the reply's turn", &segment.turn, &turn)?;
        let n = segment.ids.len();
        if n == 0 || n > recipe.rollout.max_new_tokens {
            return at.wrong(turn, format!("the reply has {n} tokens"));
        }
        at.same(turn, "the number of log-probabilities", &segment.logprobs.len(), &n)?;
        if let Some(bad) = segment.logprobs.iter().find(|l| !(l.is_finite() && **l <= 1e-4)) {
            return at.wrong(turn, format!("{bad} is no log-probability"));
        }
        if let Some(id) = segment.ids.iter().find(|id| **id as usize >= policy.vocabulary()) {
            return at.wrong(turn, format!("the tokenizer has no id {id}"));
        }
        let unfiltered = recipe.rollout.top_k == 0 && recipe.rollout.top_p >= 1.0 && recipe.rollout.min_p == 0.0;
        if segment.filtered > n || unfiltered && segment.filtered > 0 {
            return at.wrong(turn, format!("{} tokens cannot have been filtered", segment.filtered));
        }
        let stop = policy.stop_ids();
        let end = segment.ids.iter().position(|id| stop.contains(id));
        let heard = &at.episode.turns[turn];
        let cut = at.episode.end == EndReason::Truncated && turn == at.last_turn() && heard.user.is_none();
        match end {
            Some(end) if end + 1 < n => return at.wrong(turn, "the reply goes on behind its end"),
            // Without an end it was cut: at its own limit, or at that of the context.
            None if n < recipe.rollout.max_new_tokens && !cut => return at.wrong(turn, "the reply has no end"),
            _ => {}
        }
        if cut && end.is_none() {
            let context: usize = before.iter().map(|s| s.ids.len()).sum::<usize>() + n;
            let most = recipe.rollout.max_context.min(policy.model.config().max_position_embeddings);
            at.same(turn, "the length at which the context was full", &context, &most)?;
        }
        let content = &segment.ids[..end.unwrap_or(n)];
        let reply = think::parse(&policy.tokenizer.decode(content, true), at.episode.mode);
        at.same(turn, "the reply", &heard.reply, &reply.text)?;
        at.same(turn, "the thought", &heard.thought, &reply.thought)?;
        at.same(turn, "whether the format was kept", &heard.well_formed, &reply.well_formed)
    }
}
