use std::path::Path;

use anyhow::Context;
use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{Language, ProfileSet, Role, Transcript, prompt};
use rlver::evaluate::{
    AnswerSettings, ChatPolicy, NEUTRAL_SYSTEM, TextPolicy, TextSettings, answer_questions, hold_dialogues,
    hold_text_dialogues,
};
use rlver::rollout::{Episode, Policy, RolloutSettings};
use rlver::seed;
use rlver::train::load_policy;
use rlver::user::UserEngine;
use rlver_models::generate::{Engine, SamplingSettings};
use serde_json::{Map, Value, json};

use super::Args;

/// Keys of `[llm]` that say how users are played or answers are sampled; of a policy, this command's own options say it.
const NOT_FOR_POLICIES: [&str; 6] = ["variant", "temperature", "top_p", "max_tokens", "max_context", "asks"];

/// What `--model` names.
enum Speaker {
    /// A network in this process.
    Checkpoint(Box<Policy>),
    /// A model behind an endpoint, at this address.
    Endpoint(ChatPolicy, String),
}

/// A policy and how it is asked.
pub(super) struct Bench<'a> {
    pub(super) args: &'a Args,
    pub(super) settings: RolloutSettings,
    speaker: Speaker,
}

impl<'a> Bench<'a> {
    pub(super) fn open(args: &'a Args) -> anyhow::Result<Bench<'a>> {
        let settings = settings(args)?;
        let device = super::DeviceChoice::parse(&args.device).map_err(anyhow::Error::msg)?;
        let model = args.model.as_deref().context("--model is missing")?;
        let speaker = match model.strip_prefix("llm:") {
            Some(keys) => endpoint(model, keys, args)?,
            None => Speaker::Checkpoint(Box::new(load_policy(model, "", &device.open())?)),
        };
        Ok(Bench { args, settings, speaker })
    }

    /// Holds the dialogues of this command with `profiles`.
    pub(super) fn hold(
        &self,
        users: &dyn UserEngine,
        profiles: &ProfileSet,
        settings: RolloutSettings,
    ) -> anyhow::Result<Vec<Episode>> {
        let seeds = self.args.seeds.max(1);
        let bar = indicatif::ProgressBar::new((profiles.len() * seeds) as u64);
        let seeds = (self.args.seed, seeds);
        let episodes = match &self.speaker {
            Speaker::Checkpoint(policy) => {
                let mut engine = self.engine(policy, profiles.len() * seeds.1);
                hold_dialogues(policy, &mut engine, users, profiles, settings, seeds, |p| {
                    bar.set_position(p.done as u64);
                })?
            }
            Speaker::Endpoint(policy, _) => {
                let RolloutSettings { mode, max_turns, start, .. } = settings;
                let settings = TextSettings { mode, max_turns, start };
                let at_once = policy.concurrency().max(users.concurrency().unwrap_or(1));
                super::side_by_side(at_once, || {
                    hold_text_dialogues(policy, users, profiles, settings, seeds, &|| bar.inc(1))
                })?
            }
        };
        bar.finish_and_clear();
        Ok(episodes)
    }

    /// Asks single questions under [`NEUTRAL_SYSTEM`].
    pub(super) fn answer(&self, questions: &[&str]) -> anyhow::Result<Vec<String>> {
        let bar = indicatif::ProgressBar::new(questions.len() as u64);
        let answers = match &self.speaker {
            Speaker::Checkpoint(policy) => {
                let settings = AnswerSettings {
                    sampling: self.settings.sampling,
                    max_new_tokens: self.settings.max_new_tokens,
                    seed: self.args.seed,
                };
                let mut engine = self.engine(policy, questions.len());
                answer_questions(policy, &mut engine, questions, settings, |done| bar.set_position(done as u64))?
            }
            Speaker::Endpoint(policy, _) => super::side_by_side(policy.concurrency(), || {
                use rayon::prelude::*;
                let ask = |(i, question): (usize, &&str)| {
                    let mut dialogue = Transcript::default();
                    dialogue.push(Role::User, *question);
                    let answer = policy.reply(NEUTRAL_SYSTEM, &dialogue, seed::mix(&[self.args.seed, i as u64]));
                    bar.inc(1);
                    // A question that was never answered is no wrong answer.
                    answer.map_err(|problem| anyhow::anyhow!("question {} has no answer: {problem}", i + 1))
                };
                questions.par_iter().enumerate().map(ask).collect::<anyhow::Result<Vec<String>>>()
            })??,
        };
        bar.finish_and_clear();
        Ok(answers)
    }

    fn engine(&self, policy: &Policy, most: usize) -> Engine {
        Engine::new(&policy.model, policy.vocabulary(), self.args.batch.clamp(1, most.max(1)), self.capacity(policy))
    }

    fn capacity(&self, policy: &Policy) -> usize {
        self.args.max_context.min(policy.model.config().max_position_embeddings)
    }

    /// Everything a result depends on, so that it can be reproduced.
    pub(super) fn written(&self) -> Map<String, Value> {
        let args = self.args;
        let system = |language| prompt::system(self.settings.mode, language);
        let mut written = json!({
            "rlver": env!("CARGO_PKG_VERSION"),
            "mode": args.mode,
            "system_zh": system(Language::Zh),
            "system_en": system(Language::En),
            "start_emotion": args.start_emotion,
            "max_turns": args.max_turns,
            "temperature": temperature(args),
            "max_new_tokens": args.max_new_tokens,
            "seed": args.seed,
            "seeds": args.seeds,
        });
        match &self.speaker {
            Speaker::Checkpoint(policy) => {
                written["model"] = json!(args.model);
                written["max_context"] = json!(self.capacity(policy));
                written["device"] = json!(args.device);
            }
            Speaker::Endpoint(policy, address) => {
                written["model"] = json!(policy.name());
                written["endpoint"] = json!(address);
            }
        }
        written.as_object().cloned().unwrap_or_default()
    }

    /// Says what a model behind an endpoint used.
    pub(super) fn tell_usage(&self) {
        if let Speaker::Endpoint(policy, _) = &self.speaker {
            crate::cli::tell(format_args!("policy: {}", policy.usage()));
        }
    }

    pub(super) fn write_episodes(&self, episodes: &[Episode]) -> anyhow::Result<()> {
        let Some(path) = &self.args.episodes else { return Ok(()) };
        let lines: Result<Vec<String>, _> = episodes.iter().map(serde_json::to_string).collect();
        write(path, &(lines?.join("\n") + "\n"))
    }

    pub(super) fn write_json(&self, value: &Value) -> anyhow::Result<()> {
        self.args.json.as_deref().map_or(Ok(()), |path| write_json(path, value))
    }
}

/// The model behind an endpoint that `llm:KEY=VALUE,…` names.
fn endpoint(spec: &str, keys: &str, args: &Args) -> anyhow::Result<Speaker> {
    let given = |key: &&&str| keys.split(',').any(|pair| pair.split('=').next().map(str::trim) == Some(**key));
    if let Some(key) = NOT_FOR_POLICIES.iter().find(given) {
        anyhow::bail!(
            "--model {spec}: {key} says nothing about a policy; replies follow --temperature and --max-new-tokens"
        );
    }
    let llm = rlver::user::UserChoice::recipe(spec).with_context(|| format!("--model {spec}"))?;
    anyhow::ensure!(
        !llm.llm.url.is_empty(),
        "--model {spec} has no url; a checkpoint in this process is --model FOLDER"
    );
    let address = llm.llm.url.clone();
    let policy = ChatPolicy::new(llm.open_llm()?, temperature(args), args.max_new_tokens);
    Ok(Speaker::Endpoint(policy, address))
}

/// The temperature as it was typed: 0.7 and not the number of 32 bits next to it.
fn temperature(args: &Args) -> f64 {
    (f64::from(args.temperature) * 1e6).round() / 1e6
}

fn settings(args: &Args) -> anyhow::Result<RolloutSettings> {
    let mode = match args.mode.as_str() {
        "direct" => ReplyMode::Direct,
        "think" => ReplyMode::Think,
        other => anyhow::bail!("--mode {other} is unknown; expected direct or think"),
    };
    let start = super::start_emotion(args.start_emotion)?;
    let sampling = SamplingSettings::at(args.temperature);
    sampling.check()?;
    anyhow::ensure!(args.max_turns > 0, "--max-turns must be at least 1");
    Ok(RolloutSettings { mode, max_turns: args.max_turns, start, sampling, max_new_tokens: args.max_new_tokens })
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn write_json(path: &Path, value: &Value) -> anyhow::Result<()> {
    write(path, &(serde_json::to_string_pretty(value)? + "\n"))
}
