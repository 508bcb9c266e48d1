use std::path::{Path, PathBuf};
use std::time::Duration;

use super::UserEngine;
use super::builtin::BuiltinUser;
use super::llm::engine::{ApiKey, Backoff, ChatEngine, HttpEngine, HttpSettings, LocalEngine, Prices};
use super::llm::{LlmSettings, LlmUser};
use super::record::ReplayUser;
use crate::Error;
use crate::device::DeviceChoice;
use crate::recipe::{EmotionModelChoice, Environment, LlmSection, Recipe, RecipeError};
use crate::train::curriculum::challenging;
use crate::train::load_policy;

/// What `user.engine` may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChoice {
    /// The built-in user.
    Builtin,
    /// A language model, as `[llm]` describes it.
    Llm,
    /// The users of a recorded run, by its folder.
    Replay(PathBuf),
}

impl UserChoice {
    /// Reads a recipe's `user.engine`.
    ///
    /// # Errors
    /// What there is to choose from.
    pub fn parse(engine: &str) -> Result<UserChoice, String> {
        match (engine, engine.strip_prefix("replay:")) {
            ("builtin", _) => Ok(UserChoice::Builtin),
            ("llm", _) => Ok(UserChoice::Llm),
            (_, Some(run)) if !run.is_empty() => Ok(UserChoice::Replay(run.into())),
            _ => Err("unknown simulated user; available: builtin, llm, replay:RUN".into()),
        }
    }

    /// The recipe that a user given on a command line stands for: `builtin`, `builtin:calibrated`, `replay:RUN`,
    /// `llm:KEY=VALUE,KEY=VALUE…` with keys of `[llm]`, or a recipe file, whose `[user]` and `[llm]` count.
    ///
    /// # Errors
    /// As for recipes.
    pub fn recipe(spec: &str) -> Result<Recipe, RecipeError> {
        if spec.ends_with(".toml") {
            return Recipe::load(Path::new(spec), &[]);
        }
        let (engine, keys) = match spec.strip_prefix("llm:") {
            Some(keys) => ("llm", keys),
            None => (spec, ""),
        };
        if spec == "builtin:calibrated" {
            return Recipe::parse("user builtin:calibrated", "", &["user.model=\"calibrated\"".to_string()]);
        }
        let mut set = vec![format!("user.engine={}", toml::Value::from(engine))];
        set.extend(keys.split(',').map(str::trim).filter(|pair| !pair.is_empty()).map(|pair| format!("llm.{pair}")));
        Recipe::parse(&format!("user {spec}"), "", &set)
    }
}

impl Recipe {
    /// The simulated users it describes.
    ///
    /// # Errors
    /// When a key, a model or a recorded run cannot be had.
    pub fn open_users(&self) -> Result<Box<dyn UserEngine>, Error> {
        Ok(match UserChoice::parse(&self.user.engine).expect("checked with the recipe") {
            UserChoice::Builtin => Box::new(match self.user.environment {
                Environment::Vanilla => self.builtin_user(),
                Environment::Challenging => challenging(&self.builtin_user()),
            }),
            UserChoice::Replay(run) => Box::new(ReplayUser::load(&run)?),
            UserChoice::Llm => Box::new(LlmUser::new(self.open_llm()?, self.llm.settings())),
        })
    }

    /// The simulated users it is evaluated with, where they are not those of training.
    ///
    /// # Errors
    /// As [`Recipe::open_users`].
    pub fn open_evaluation_users(&self) -> Result<Option<Box<dyn UserEngine>>, Error> {
        Ok(match self.user.environment {
            Environment::Vanilla => None,
            Environment::Challenging => Some(Box::new(self.builtin_user())),
        })
    }

    fn builtin_user(&self) -> BuiltinUser {
        match self.user.model {
            EmotionModelChoice::Rules => BuiltinUser::new(),
            EmotionModelChoice::Calibrated => BuiltinUser::calibrated(),
        }
    }

    /// The language model that `[llm]` describes: a server's, or one in this process, on `run.device`.
    ///
    /// # Errors
    /// When the key or the model cannot be had.
    pub fn open_llm(&self) -> Result<Box<dyn ChatEngine>, Error> {
        let llm = &self.llm;
        if llm.url.is_empty() {
            let device = DeviceChoice::parse(&self.run.device).expect("checked with the recipe").open();
            let policy = load_policy(&llm.model, "", &device)?;
            return Ok(Box::new(LocalEngine::new(&llm.model, policy, llm.concurrency, llm.max_context)));
        }
        let key = (!llm.key_env.is_empty()).then(|| ApiKey::from_env(&llm.key_env)).transpose()?;
        Ok(Box::new(HttpEngine::new(HttpSettings {
            url: llm.url.clone(),
            model: llm.model.clone(),
            key,
            concurrency: llm.concurrency,
            connect_timeout: Duration::from_secs_f64(llm.connect_timeout_s),
            timeout: Duration::from_secs_f64(llm.timeout_s),
            retries: llm.retries,
            backoff: Backoff::default(),
            format: llm.response_format,
            prices: Prices { prompt: llm.price_prompt, completion: llm.price_completion },
        })?))
    }
}

impl LlmSection {
    /// How the model plays users.
    pub fn settings(&self) -> LlmSettings {
        LlmSettings {
            variant: self.variant,
            temperature: self.temperature,
            top_p: self.top_p,
            max_tokens: self.max_tokens,
            asks: self.asks,
        }
    }
}
