//! Who was talked with, what they felt, and what that is worth.

use super::{At, AuditError, File, FileReport, Kind};
use crate::dialogue::{Role, prompt};
use crate::rollout::{EndReason, Episode};
use crate::user::{Emotion, SessionSettings, UserEngine};

impl File<'_> {
    /// The dialogues are those that the recipe and its seed call for.
    pub(super) fn check_identities(&self, episodes: &[Episode]) -> Result<(), AuditError> {
        let jobs = self.run.jobs(self.kind);
        if jobs.len() != episodes.len() {
            let problem = format!("holds {} dialogues, but the recipe calls for {}", episodes.len(), jobs.len());
            return Err(AuditError::Whole { file: self.name.into(), problem });
        }
        for (episode, job) in episodes.iter().zip(&jobs) {
            let at = At { file: self.name, episode };
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
            at.same(0, "the starting emotion", &episode.start_emotion.score(), &self.start_emotion())?;
        }
        Ok(())
    }

    fn start_emotion(&self) -> u8 {
        match self.kind {
            Kind::Step(_) => self.run.recipe.user.start_emotion,
            _ => self.run.recipe.eval.start_emotion,
        }
    }

    fn max_turns(&self) -> usize {
        match self.kind {
            Kind::Step(_) => self.run.recipe.rollout.max_turns,
            _ => self.run.recipe.eval.max_turns,
        }
    }

    /// Each emotion follows from the one before and the appraisal, and the appraisals from the user.
    pub(super) fn check_emotions(&self, at: At<'_>, report: &mut FileReport) -> Result<(), AuditError> {
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
        if let Some(user) = &self.run.user {
            at.same(0, "the user", &episode.user, &user.name())?;
            self.hear_again(at, user.as_ref())?;
            report.appraisals += episode.turns.iter().filter(|turn| turn.user.is_some()).count();
            return self.check_answers(at, &mut FileReport::default());
        }
        self.check_answers(at, report)
    }

    /// Tells the recorded replies to a fresh user.
    fn hear_again(&self, at: At<'_>, user: &dyn UserEngine) -> Result<(), AuditError> {
        let episode = at.episode;
        let Some(profile) = self.run.person(&episode.profile) else {
            return at.wrong(0, format!("nobody knows the profile {}", episode.profile));
        };
        let settings = SessionSettings { start: episode.start_emotion, seed: episode.user_seed };
        let mut session = user.open(profile.clone(), settings);
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
    pub(super) fn check_reward(&self, at: At<'_>, report: &mut FileReport) -> Result<(), AuditError> {
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
