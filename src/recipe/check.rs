use std::fmt::Display;

use crate::user::UserChoice;
use crate::user::llm::engine::check_address;

use super::{Algorithm, EmotionModelChoice, Environment, Recipe, RecipeError};

pub(super) fn refuse<T>(key: &'static str, value: impl Display, problem: impl Into<String>) -> Result<T, RecipeError> {
    Err(RecipeError::Impossible { key, value: value.to_string(), problem: problem.into() })
}

pub(super) fn at_least(key: &'static str, value: usize, least: usize) -> Result<(), RecipeError> {
    if value < least { refuse(key, value, format!("must be at least {least}")) } else { Ok(()) }
}

/// Sizes that no machine holds are refused here, where the key can still be named, and not by the allocator.
fn between(key: &'static str, value: usize, least: usize, most: usize) -> Result<(), RecipeError> {
    at_least(key, value, least)?;
    if value > most { refuse(key, value, format!("must be at most {most}")) } else { Ok(()) }
}

pub(super) fn within(key: &'static str, value: f64, low: f64, high: f64) -> Result<(), RecipeError> {
    if !(value >= low && value <= high) {
        return refuse(key, value, format!("must lie between {low} and {high}"));
    }
    Ok(())
}

impl Recipe {
    /// Refuses values out of range and combinations that cannot work, before anything is loaded.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        self.check_device()?;
        at_least("run.steps", self.run.steps, 1)?;
        self.check_optimizer()?;
        if self.run.algorithm == Algorithm::Sft {
            return self.check_sft();
        }
        self.check_rollout()?;
        self.check_curriculum()?;
        self.check_objective()
    }

    fn check_device(&self) -> Result<(), RecipeError> {
        crate::device::DeviceChoice::parse(&self.run.device)
            .map(|_| ())
            .or_else(|problem| refuse("run.device", &self.run.device, problem))
    }

    fn check_optimizer(&self) -> Result<(), RecipeError> {
        let o = &self.optimizer;
        within("optimizer.lr", o.lr, 0.0, 1.0)?;
        within("optimizer.critic_lr", o.critic_lr, 0.0, 1.0)?;
        within("optimizer.betas[0]", o.betas[0], 0.0, 0.999_999)?;
        within("optimizer.betas[1]", o.betas[1], 0.0, 0.999_999_9)?;
        within("optimizer.eps", o.eps, 1e-30, 1.0)?;
        within("optimizer.weight_decay", o.weight_decay, 0.0, 1.0)?;
        within("optimizer.min_lr_ratio", o.min_lr_ratio, 0.0, 1.0)?;
        within("optimizer.max_grad_norm", o.max_grad_norm, 1e-12, f64::MAX)
    }

    fn check_sft(&self) -> Result<(), RecipeError> {
        let s = &self.sft;
        between("sft.vocab_size", s.vocab_size, 512, 1_000_000)?;
        between("sft.layers", s.layers, 1, 1_000)?;
        between("sft.hidden_size", s.hidden_size, 1, 65_536)?;
        between("sft.intermediate_size", s.intermediate_size, 1, 1_000_000)?;
        between("sft.max_positions", s.max_positions, 1, 1_000_000_000)?;
        between("sft.dialogues", s.dialogues, 1, 100_000_000)?;
        at_least("sft.batch_tokens", s.batch_tokens, 256)?;
        at_least("sft.exercise_batch_tokens", s.exercise_batch_tokens, 256)?;
        between("sft.exercise_steps", s.exercise_steps, 0, self.run.steps)?;
        within("sft.think_share", s.think_share, 0.0, 1.0)?;
        within("sft.user_weight", s.user_weight, 0.0, 1.0)?;
        if s.heads == 0 || s.kv_heads == 0 || !s.heads.is_multiple_of(s.kv_heads) {
            return refuse("sft.heads", s.heads, format!("must be a multiple of sft.kv_heads = {}", s.kv_heads));
        }
        if !s.hidden_size.is_multiple_of(2 * s.heads) {
            return refuse("sft.hidden_size", s.hidden_size, "must be an even multiple of sft.heads");
        }
        Ok(())
    }

    fn check_rollout(&self) -> Result<(), RecipeError> {
        let r = &self.rollout;
        at_least("rollout.dialogues", r.dialogues, 1)?;
        between("rollout.n", r.n, 1, 10_000)?;
        at_least("rollout.max_turns", r.max_turns, 1)?;
        at_least("rollout.max_new_tokens", r.max_new_tokens, 1)?;
        at_least("rollout.batch", r.batch, 1)?;
        at_least("rollout.max_context", r.max_context, r.max_new_tokens + 1)?;
        within("rollout.temperature", r.temperature, 1e-3, 100.0)?;
        within("rollout.top_p", r.top_p, 1e-6, 1.0)?;
        within("rollout.min_p", r.min_p, 0.0, 0.999)?;
        within("eval.temperature", self.eval.temperature, 0.0, 100.0)?;
        between("eval.seeds", self.eval.seeds, 1, 10_000)?;
        at_least("eval.max_turns", self.eval.max_turns, 1)?;
        within("user.max_unscored", self.user.max_unscored, 0.0, 1.0)?;
        for (key, value) in
            [("user.start_emotion", self.user.start_emotion), ("eval.start_emotion", self.eval.start_emotion)]
        {
            if !(10..100).contains(&value) {
                return refuse(key, value, "must lie between 10 and 99, or the dialogue is over before it starts");
            }
        }
        match UserChoice::parse(&self.user.engine) {
            Err(problem) => return refuse("user.engine", &self.user.engine, problem),
            Ok(UserChoice::Llm) => self.check_llm()?,
            Ok(_) => {}
        }
        if self.user.environment == Environment::Challenging && self.user.engine != "builtin" {
            let problem = "is a setting of the built-in user; other users have their own";
            return refuse("user.environment", super::to_toml(&self.user.environment), problem);
        }
        if self.user.model != EmotionModelChoice::Rules && self.user.engine != "builtin" {
            return refuse("user.model", super::to_toml(&self.user.model), "is a setting of the built-in user");
        }
        if self.user.languages.is_empty() {
            return refuse("user.languages", "[]", "at least one language is needed: [\"zh\", \"en\"]");
        }
        Ok(())
    }

    fn check_curriculum(&self) -> Result<(), RecipeError> {
        let c = &self.curriculum;
        within("curriculum.exploration", c.exploration, 0.0, 100.0)?;
        within("curriculum.rehearsal", c.rehearsal, 0.0, 1.0)?;
        within("curriculum.sharpness", c.sharpness, 0.0, 1e3)?;
        within("curriculum.memory", c.memory, 0.0, 1.0)?;
        between("curriculum.pass_emotion", c.pass_emotion.into(), 1, 100)
    }

    fn check_llm(&self) -> Result<(), RecipeError> {
        let l = &self.llm;
        if l.model.trim().is_empty() {
            return refuse("llm.model", "\"\"", "name the server's model, or a checkpoint if llm.url is empty");
        }
        if !l.url.is_empty()
            && let Err(error) = check_address(&l.url)
        {
            return refuse("llm.url", "(as given)", error.to_string());
        }
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !l.key_env.chars().all(name) || l.key_env.starts_with(|c: char| c.is_ascii_digit()) {
            // It may be the key itself, by mistake.
            let problem = "must be the name of an environment variable, such as DEEPSEEK_API_KEY, never the key itself";
            return refuse("llm.key_env", "(not shown)", problem);
        }
        within("llm.temperature", l.temperature, 0.0, 100.0)?;
        within("llm.top_p", l.top_p, 1e-6, 1.0)?;
        between("llm.max_tokens", l.max_tokens, 16, 1_000_000)?;
        between("llm.max_context", l.max_context, 64, 1_000_000_000)?;
        between("llm.concurrency", l.concurrency, 1, 1_000)?;
        within("llm.connect_timeout_s", l.connect_timeout_s, 0.001, 86_400.0)?;
        within("llm.timeout_s", l.timeout_s, 0.001, 86_400.0)?;
        between("llm.retries", l.retries, 0, 1_000)?;
        between("llm.asks", l.asks, 1, 100)?;
        within("llm.price_prompt", l.price_prompt, 0.0, 1e9)?;
        within("llm.price_completion", l.price_completion, 0.0, 1e9)
    }
}
