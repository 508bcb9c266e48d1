//! Users played by a language model: their recorded answers are read again, and the questions hashed again.

use super::emotions::said_before;
use super::{At, AuditError, Check, FileReport};
use crate::dialogue::Profile;
use crate::rollout::EndReason;
use crate::user::llm::answer::{self, APPRAISAL, LINE};
use crate::user::llm::engine::{Message, prompt_hash};
use crate::user::llm::prompt::{self, Variant, View};
use crate::user::llm::{LlmUser, SILENCE, exchange, silence};
use crate::user::record::{Chain, ModelCall};
use crate::user::{Band, Emotion, UserTurn};

impl Check<'_> {
    /// Appraisals and lines follow from what the model answered, and its questions from who was asked after what.
    pub(super) fn answers(&self, at: At<'_>, report: &mut FileReport) -> Result<(), AuditError> {
        let episode = at.episode;
        let profile = at.person;
        // A replay plays whatever user was recorded: without calls it was none with a model.
        let calls = episode.turns.iter().any(|turn| !turn.calls.is_empty()) || !episode.opening_calls.is_empty();
        if !calls && !episode.user.contains("llm/") {
            return Ok(());
        }
        let recipe = &self.run.recipe;
        if recipe.user.engine == "llm" {
            let name = LlmUser::named(&recipe.llm.model, recipe.llm.variant);
            at.same(0, "the user", &episode.user, &name)?;
        }
        self.check_opening(at, profile)?;
        let mut emotion = episode.start_emotion;
        for (turn, heard) in episode.turns.iter().enumerate() {
            for call in &heard.calls {
                self.check_call(at, turn, call, &profile.task)?;
            }
            let Some(user) = &heard.user else { continue };
            self.check_turn(at, turn, profile, emotion, user)?;
            emotion = user.after;
            report.appraisals += 1;
        }
        Ok(())
    }

    fn check_opening(&self, at: At<'_>, profile: &Profile) -> Result<(), AuditError> {
        let episode = at.episode;
        let fixed = profile.first_talk.as_deref().map(str::trim).filter(|line| !line.is_empty());
        if let Some(line) = fixed {
            return at.same(0, "the opening", &episode.opening.as_str(), &line);
        }
        for call in &episode.opening_calls {
            self.check_call(at, 0, call, &profile.task)?;
            if let Some(text) = &call.answer {
                let (line, _) = self.read(at, 0, answer::line(text, &profile.task, profile.language()))?;
                at.same(0, "the opening", &episode.opening, &line)?;
            }
            let said = crate::dialogue::Transcript::default();
            let asked =
                |variant| prompt::open(&View { profile, variant, emotion: episode.start_emotion, said: &said }, &LINE);
            self.check_hash(at, 0, call, asked)?;
        }
        Ok(())
    }

    fn check_turn(
        &self,
        at: At<'_>,
        turn: usize,
        profile: &Profile,
        before: Emotion,
        user: &UserTurn,
    ) -> Result<(), AuditError> {
        let heard = &at.episode.turns[turn];
        let find = |chain: Chain| heard.calls.iter().find(|call| call.chain == chain);
        let said = said_before(at.episode, turn);
        let view = |variant, emotion| View { profile, variant, emotion, said: &said };
        let silent = heard.reply.trim().is_empty();
        at.same(turn, "the guard", &user.guard.as_deref(), &silent.then_some(SILENCE))?;
        if silent {
            at.same(turn, "the appraisal", &user.appraisal, &silence(profile.language()))?;
        } else {
            let Some(call) = find(Chain::Appraisal) else { return at.wrong(turn, "no appraisal was asked for") };
            let text = call.answer.as_deref().unwrap_or_default();
            let read = self.read(at, turn, answer::appraisal(text))?;
            at.same(turn, "the appraisal", &user.appraisal, &read)?;
            let asked = |variant| prompt::appraise(&view(variant, before), &heard.reply, &APPRAISAL);
            self.check_hash(at, turn, call, asked)?;
        }
        let Some(call) = find(Chain::Reply) else { return at.wrong(turn, "no line was asked for") };
        let text = call.answer.as_deref().unwrap_or_default();
        let (line, flag) = self.read(at, turn, answer::line(text, &profile.task, profile.language()))?;
        at.same(turn, "the user's line", &user.line, &line)?;
        let farewell = flag || matches!(user.after.band(), Band::S | Band::F);
        at.same(turn, "the farewell", &user.farewell, &farewell)?;
        let asked = |variant| prompt::speak(&view(variant, user.after), &heard.reply, &user.appraisal, &LINE);
        self.check_hash(at, turn, call, asked)
    }

    fn read<T>(&self, at: At<'_>, turn: usize, read: Result<T, String>) -> Result<T, AuditError> {
        read.or_else(|problem| at.wrong(turn, format!("the recorded answer cannot be read: {problem}")))
    }

    /// Rejected answers were rightly rejected, and the model is the recipe's.
    fn check_call(&self, at: At<'_>, turn: usize, call: &ModelCall, task: &str) -> Result<(), AuditError> {
        for rejected in &call.rejected {
            let problem = match call.chain {
                Chain::Appraisal => answer::appraisal(&rejected.answer).err(),
                _ => answer::line(&rejected.answer, task, at.episode.language).err(),
            };
            match problem {
                None => return at.wrong(turn, "an answer that can be read is recorded as rejected"),
                // What follows the problem says that the answer was cut off.
                Some(problem) if rejected.problem.starts_with(&problem) => {}
                Some(problem) => at.same(turn, "what is wrong with an answer", &rejected.problem, &problem)?,
            }
        }
        if let (Some(failure), EndReason::Unscored(end)) = (&call.failure, &at.episode.end)
            && !end.ends_with(failure.as_str())
        {
            return at.wrong(turn, format!("the model failed with {failure:?}, but the dialogue ended with {end:?}"));
        }
        let llm = &self.run.recipe.llm;
        if self.run.recipe.user.engine == "llm" {
            at.same(turn, "the user's model", &call.model, &llm.model)?;
            at.same(turn, "the model's temperature", &call.sampling.temperature, &llm.temperature)?;
            at.same(turn, "the model's top_p", &call.sampling.top_p, &llm.top_p)?;
            at.same(turn, "the model's max_tokens", &call.sampling.max_tokens, &llm.max_tokens)?;
        }
        let answered = match call.chain {
            Chain::Opening => 0,
            _ => turn as u64,
        };
        let seed = crate::seed::mix(&[at.episode.user_seed, answered, call.chain as u64]);
        at.same(turn, "the model's seed", &call.sampling.seed, &seed)
    }

    /// The recorded hash is that of the question as it must have been, for one of the variants; the recipe's, if it has one.
    fn check_hash(
        &self,
        at: At<'_>,
        turn: usize,
        call: &ModelCall,
        asked: impl Fn(Variant) -> Vec<Message>,
    ) -> Result<(), AuditError> {
        let recipe = &self.run.recipe;
        let variants = match recipe.user.engine.as_str() {
            "llm" => vec![recipe.llm.variant],
            _ => vec![Variant::Vanilla, Variant::Challenging],
        };
        let shape = if call.chain == Chain::Appraisal { &APPRAISAL } else { &LINE };
        let hashes = |first: Vec<Message>| {
            let all = exchange(&first, &call.rejected, call.answer.as_deref(), at.episode.language, shape);
            (prompt_hash(&first), prompt_hash(&all))
        };
        let derived: Vec<(String, String)> = variants.into_iter().map(|variant| hashes(asked(variant))).collect();
        let recorded = (call.prompt_sha256.clone(), call.exchange_sha256.clone());
        if derived.contains(&recorded) {
            return Ok(());
        }
        let name = call.chain.name();
        at.same(turn, &format!("the hash of the question for {name}"), &recorded.0, &derived[0].0)?;
        at.same(turn, &format!("the hash of the exchange for {name}"), &recorded.1, &derived[0].1)
    }
}
