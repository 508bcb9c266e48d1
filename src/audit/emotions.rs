//! Who was talked with, what they felt, and what that is worth.

use super::{At, AuditError, Check, File, FileReport};
use crate::dialogue::{Role, prompt};
use crate::rollout::{EndReason, Episode};
use crate::user::{Emotion, SessionSettings, UserEngine};

impl Check<'_> {
    /// The dialogues are those that the recipe and its seed call for.
    pub(super) fn identities(&self) -> Result<(), AuditError> {
        let File { name, held, jobs, .. } = self.file;
        let (recorded, wanted) = (held.episodes.len(), jobs.len());
        if recorded != wanted {
            let problem = format!("holds {recorded} dialogues, but the recipe calls for {wanted}");
            return Err(AuditError::Whole { file: name.clone(), problem });
        }
        for (index, job) in jobs.iter().enumerate() {
            let at = self.file.at(index);
            let episode = at.episode;
            at.same(0, "the dialogue's number", &episode.dialogue, &job.dialogue)?;
            at.same(0, "the group", &episode.group, &job.group)?;
            at.same(0, "the profile", &episode.profile, &job.profile.id)?;
            at.same(0, "the user's seed", &episode.user_seed, &job.user_seed)?;
            at.same(0, "the sampling seed", &episode.sampling_seed, &job.sampling_seed)?;
            at.same(0, "the hidden intention", &episode.intention, &job.profile.intention())?;
            at.same(0, "the character type", &episode.character, &job.profile.character())?;
            at.same(0, "the language", &episode.language, &job.profile.language())?;
            at.same(0, "the reply mode", &episode.mode, &self.run.recipe.rollout.mode)?;
            let system = prompt::system(episode.mode, episode.language);
            at.same(0, "the system prompt", &episode.system.as_str(), &system)?;
            if self.file.states_known {
                let start = job.start.map_or_else(|| self.start_emotion(), Emotion::score);
                at.same(0, "the starting emotion", &episode.start_emotion.score(), &start)?;
            }
        }
        Ok(())
    }

    fn start_emotion(&self) -> u8 {
        let recipe = &self.run.recipe;
        if self.file.kind.is_evaluation() { recipe.eval.start_emotion } else { recipe.user.start_emotion }
    }

    fn max_turns(&self) -> usize {
        let recipe = &self.run.recipe;
        if self.file.kind.is_evaluation() { recipe.eval.max_turns } else { recipe.rollout.max_turns }
    }

    /// Each emotion follows from the one before and the appraisal, and the appraisals from the user.
    pub(super) fn emotions(&self, at: At<'_>, report: &mut FileReport) -> Result<(), AuditError> {
        let episode = at.episode;
        let mut emotion = episode.start_emotion;
        for (turn, heard) in episode.turns.iter().enumerate() {
            let Some(user) = &heard.user else {
                if turn + 1 < episode.turns.len() {
                    return at.wrong(turn, "has no answer of the user, but the dialogue goes on");
                }
                break;
            };
            at.same(turn, "the emotion before the reply", &user.before, &emotion)?;
            if !(-10..=10).contains(&user.appraisal.change) {
                return at.wrong(turn, format!("the change {} is beyond ±10", user.appraisal.change));
            }
            emotion = emotion.after(&user.appraisal);
            at.same(turn, "the emotion after the reply", &user.after, &emotion)?;
            report.emotions += 1;
        }
        at.same(at.last_turn(), "the final emotion", &episode.final_emotion, &emotion)?;
        if !self.file.states_known {
            // What people say depends on who they are.
            return Ok(());
        }
        if let Some(user) = self.run.users(self.file.kind) {
            at.same(0, "the user", &episode.user, &user.name())?;
            self.hear_again(at, user)?;
            report.appraisals += episode.turns.iter().filter(|turn| turn.user.is_some()).count();
            return self.answers(at, &mut FileReport::default());
        }
        self.answers(at, report)
    }

    /// Tells the recorded replies to a fresh user.
    fn hear_again(&self, at: At<'_>, user: &dyn UserEngine) -> Result<(), AuditError> {
        let episode = at.episode;
        let settings = SessionSettings { start: episode.start_emotion, seed: episode.user_seed };
        let mut session = user.open(at.person.clone(), settings);
        let failed = |error: crate::user::UserError| format!("the user cannot be heard again: {error}");
        match session.opening() {
            Ok(opening) => at.same(0, "the opening", &episode.opening, &opening)?,
            Err(error) => return at.wrong(0, failed(error)),
        }
        for (turn, heard) in episode.turns.iter().enumerate() {
            let Some(recorded) = &heard.user else { break };
            match session.respond(&heard.reply) {
                Ok(again) => {
                    at.same(turn, "the appraisal", &recorded.appraisal, &again.appraisal)?;
                    at.same(turn, "the user's answer", recorded, &again)?;
                }
                Err(error) => return at.wrong(turn, failed(error)),
            }
        }
        Ok(())
    }

    /// How the dialogue ended and what it earned.
    pub(super) fn reward(&self, at: At<'_>, report: &mut FileReport) -> Result<(), AuditError> {
        let episode = at.episode;
        let (turn, last) = (at.last_turn(), episode.turns.last());
        let heard = last.and_then(|last| last.user.as_ref());
        let malformed = last.is_some_and(|last| !last.well_formed);
        let farewell = heard.is_some_and(|user| user.farewell);
        let full = episode.turns.len() >= self.max_turns();
        let fits = match episode.end {
            EndReason::Farewell => farewell,
            EndReason::TurnLimit => !farewell && heard.is_some() && full,
            EndReason::Malformed => malformed && heard.is_none(),
            EndReason::Truncated => !farewell,
            EndReason::Unscored(_) => heard.is_none(),
        };
        let early = episode.turns.iter().rev().skip(1).any(|t| t.user.as_ref().is_none_or(|u| u.farewell));
        if !fits || early || episode.turns.len() > self.max_turns() {
            return at.wrong(turn, format!("the dialogue cannot have ended as {:?}", episode.end));
        }
        let derived = match episode.end {
            EndReason::Unscored(_) => None,
            EndReason::Malformed => Some(0.0),
            _ => Some(Emotion::reward(episode.final_emotion)),
        };
        at.same(turn, "the reward", &episode.reward, &derived)?;
        report.rewards += usize::from(derived.is_some());
        Ok(())
    }
}

/// The lines before a turn, as the user remembers them: its own and the replies.
pub(super) fn said_before(episode: &Episode, turn: usize) -> crate::dialogue::Transcript {
    let mut said = crate::dialogue::Transcript::default();
    said.push(Role::User, episode.opening.clone());
    for heard in &episode.turns[..turn] {
        said.push(Role::Assistant, heard.reply.clone());
        if let Some(user) = &heard.user {
            said.push(Role::User, user.line.clone());
        }
    }
    said
}
