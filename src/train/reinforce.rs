use std::time::Instant;

use burn::tensor::Device;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rlver_models::generate::{Engine, SamplingSettings};
use rlver_models::qwen2::Qwen2;

use super::advantages::{self, AdvantageInputs};
use super::batch::{self, TrainRow};
use super::optimizer::AdamW;
use super::run_folder::RunFolder;
use super::update::{Learner, Rates, UpdateBatch, update};
use super::{Event, Outcome, RunOptions, checkpoint, describe, policy_source};
use crate::Error;
use crate::device::DeviceChoice;
use crate::dialogue::ProfileSet;
use crate::evaluate::{self, Summary};
use crate::metrics::{EventWriter, Metrics, MetricsLog, Series, learning_curve_svg};
use crate::objective::LrSchedule;
use crate::recipe::{KlUse, LogprobSource, Recipe};
use crate::rollout::{self, EndReason, Episode, Job, Policy, RolloutSettings, Segment};
use crate::seed::{self, Purpose};
use crate::user::{Emotion, UserEngine};

/// Updates in a row that may be skipped for a non-finite gradient before the run gives up.
const MAX_SKIPPED: usize = 3;

/// Rollout, advantages, update, until the recipe's steps are done.
pub(super) fn run(
    options: &RunOptions<'_>,
    users: Box<dyn UserEngine>,
    report: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Error> {
    let mut trainer = Trainer::new(options, users, report)?;
    let before = trainer.evaluate_once("before", report)?;
    while trainer.step < options.recipe.run.steps {
        if options.stop.is_raised() {
            break;
        }
        if let Err(error) = trainer.advance(report) {
            if matches!(error, Error::TooManyUnscored { .. } | Error::UnscoredEvaluation { .. }) {
                // Nothing was updated in this step; what the steps before taught is kept.
                trainer.checkpoint(report)?;
            }
            return Err(error);
        }
        let every = options.recipe.checkpoint.every;
        if every > 0 && trainer.step.is_multiple_of(every) && trainer.step < options.recipe.run.steps {
            trainer.checkpoint(report)?;
        }
    }
    trainer.checkpoint(report)?;
    trainer.draw_curve()?;
    if trainer.step < options.recipe.run.steps {
        return Ok(Outcome::Interrupted { step: trainer.step });
    }
    let policy = trainer.save_policy()?;
    let after = trainer.evaluate_once("after", report)?;
    Ok(Outcome::Finished { policy, evaluation: Some(Box::new((before, after))) })
}

struct Trainer<'a> {
    recipe: &'a Recipe,
    folder: RunFolder,
    users: Box<dyn UserEngine>,
    train_profiles: ProfileSet,
    eval_profiles: ProfileSet,
    /// Tokenizer and chat format; its network is refreshed from `learner` before each rollout.
    policy: Policy,
    learner: Learner,
    critic: Option<Learner>,
    reference: Option<Qwen2>,
    engine: Engine,
    log: MetricsLog,
    events: EventWriter,
    /// Finished steps.
    step: usize,
    skipped_in_a_row: usize,
}

impl<'a> Trainer<'a> {
    fn new(
        options: &RunOptions<'a>,
        users: Box<dyn UserEngine>,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<Trainer<'a>, Error> {
        let recipe = options.recipe;
        let train_profiles = load_profiles(&recipe.user.profiles, ProfileSet::builtin_train)?
            .filtered(|p| recipe.user.languages.contains(&p.language()))?;
        if train_profiles.len() < recipe.rollout.dialogues {
            return Err(Error::TooFewProfiles {
                wanted: recipe.rollout.dialogues,
                available: train_profiles.len(),
                origin: train_profiles.origin().into(),
            });
        }
        let eval_profiles = load_profiles(&recipe.eval.profiles, ProfileSet::builtin_heldout)?;
        let device = DeviceChoice::parse(&recipe.run.device).expect("checked with the recipe").open();
        let policy = policy_source::load_policy(&recipe.model.policy, &recipe.model.revision, &device)?;
        let mut learner = Learner { model: policy.model.clone(), optimizer: AdamW::new(&recipe.optimizer) };
        let mut critic = recipe.has_critic().then(|| load_critic(recipe, &policy, &device)).transpose()?;
        let reference = (recipe.objective.kl != KlUse::None).then(|| policy.model.clone());
        let (folder, step) = if options.resume {
            let folder = RunFolder::reopen(options.folder, recipe)?;
            let progress = checkpoint::restore(&folder, &mut learner, critic.as_mut(), &device)?;
            MetricsLog::truncate_after(folder.metrics(), progress.step as u64)?;
            report(Event::Note(format!("continuing {} after step {}", folder.root().display(), progress.step)));
            (folder, progress.step)
        } else {
            (RunFolder::create(options.folder, recipe)?, 0)
        };
        let log = MetricsLog::append(folder.metrics())?;
        let events = if options.resume {
            EventWriter::resume(folder.tensorboard(), step as u64 + 1)?
        } else {
            EventWriter::create(folder.tensorboard())?
        };
        let rows = recipe.rollout.batch.min((recipe.rollout.dialogues * recipe.rollout.n).max(eval_profiles.len()));
        let config = policy.model.config();
        let capacity = recipe.rollout.max_context.min(config.max_position_embeddings);
        if capacity < recipe.rollout.max_context {
            report(Event::Note(format!("rollout.max_context is lowered to the model's {capacity} positions")));
        }
        let engine = Engine::new(&learner.model, policy.vocabulary(), rows, capacity);
        if let Some(settings) = &policy.recommended_sampling {
            report(Event::Note(format!("generation_config.json is ignored; it recommends {settings}")));
        }
        report(Event::Note(format!(
            "policy {} ({:.1} M parameters) on {}, {} training and {} held-out profiles",
            recipe.model.policy,
            config.num_parameters() as f64 / 1e6,
            recipe.run.device,
            train_profiles.len(),
            eval_profiles.len(),
        )));
        Ok(Trainer {
            recipe,
            folder,
            users,
            train_profiles,
            eval_profiles,
            policy,
            learner,
            critic,
            reference,
            engine,
            log,
            events,
            step,
            skipped_in_a_row: 0,
        })
    }

    /// One step: dialogues, advantages, update, records.
    fn advance(&mut self, report: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        let step = self.step + 1;
        let begun = Instant::now();
        let used_before = self.users.usage();
        let mut episodes = self.roll_out(step, report)?;
        let rollout_s = begun.elapsed().as_secs_f64();
        self.refuse_too_many_unscored(step, &episodes)?;
        let mut metrics = Metrics::new(step as u64);
        describe::rollout(&mut metrics, &episodes);
        if let (Some(before), Some(now)) = (used_before, self.users.usage()) {
            describe::user(&mut metrics, &now.since(&before));
        }
        let rows = TrainRow::from_episodes(&episodes);
        if rows.is_empty() {
            report(Event::Note(format!("step {step}: no scored dialogue to learn from; nothing was updated")));
        } else {
            self.learn(step, &mut episodes, &rows, &mut metrics)?;
        }
        let total_s = begun.elapsed().as_secs_f64();
        let tokens: usize = rows.iter().map(|r| r.ids.len()).sum();
        metrics.insert("time/rollout_s", rollout_s);
        metrics.insert("time/update_s", total_s - rollout_s);
        metrics.insert("time/total_s", total_s);
        metrics.insert("throughput/tokens_per_s", tokens as f64 / total_s);
        self.step = step;
        let every = self.recipe.eval.every;
        if every > 0 && step.is_multiple_of(every) && step < self.recipe.run.steps {
            let summary = self.evaluate(&format!("eval-step-{step:06}"), report)?;
            describe::evaluation(&mut metrics, &summary);
        }
        self.log.write(&metrics)?;
        self.events.scalars(&metrics)?;
        let every = self.recipe.checkpoint.episodes_every;
        if every > 0 && step.is_multiple_of(every) {
            self.folder.write_episodes(&format!("step-{step:06}"), &episodes)?;
        }
        report(Event::Step(&metrics, self.recipe.run.steps));
        Ok(())
    }

    fn roll_out(&mut self, step: usize, report: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Episode>, Error> {
        let r = &self.recipe.rollout;
        let settings = RolloutSettings {
            mode: r.mode,
            max_turns: r.max_turns,
            start: emotion(self.recipe.user.start_emotion),
            sampling: SamplingSettings {
                temperature: r.temperature as f32,
                top_k: r.top_k,
                top_p: r.top_p as f32,
                min_p: r.min_p as f32,
            },
            max_new_tokens: r.max_new_tokens,
        };
        let jobs = jobs(self.recipe, &self.train_profiles, step);
        self.engine.set_model(&self.learner.model);
        rollout::run(&self.policy, &mut self.engine, self.users.as_ref(), jobs, settings, |progress| {
            report(Event::Dialogues("rollout", progress));
        })
    }

    fn refuse_too_many_unscored(&self, step: usize, episodes: &[Episode]) -> Result<(), Error> {
        let failures = episodes.iter().filter_map(|e| match &e.end {
            EndReason::Unscored(why) => Some(why),
            _ => None,
        });
        let (unscored, last) = failures.fold((0, None), |(n, _), why| (n + 1, Some(why)));
        let limit = self.recipe.user.max_unscored;
        match last {
            Some(last) if unscored as f64 > limit * episodes.len() as f64 => {
                Err(Error::TooManyUnscored { step, unscored, total: episodes.len(), limit, last: last.clone() })
            }
            _ => Ok(()),
        }
    }

    fn learn(
        &mut self,
        step: usize,
        episodes: &mut [Episode],
        rows: &[TrainRow],
        metrics: &mut Metrics,
    ) -> Result<(), Error> {
        let objective = &self.recipe.objective;
        let (temperature, vocabulary) = (self.recipe.rollout.temperature as f32, self.policy.vocabulary());
        let max_tokens = objective.micro_batch_tokens;
        let sampled: Vec<Vec<f32>> = rows.iter().map(|r| r.rollout_logprobs.clone()).collect();
        let old_logprobs = match objective.old_logprobs {
            LogprobSource::Rollout => sampled,
            LogprobSource::Recompute => {
                let scored = batch::score(&self.learner.model, rows, temperature, vocabulary, max_tokens)?;
                let gap = scored.iter().flatten().zip(sampled.iter().flatten()).map(|(a, b)| (a - b).abs());
                metrics.insert("rollout/logprob_gap", f64::from(gap.fold(0.0, f32::max)));
                scored
            }
        };
        let score_reference = |model: &Qwen2| batch::score(model, rows, temperature, vocabulary, max_tokens);
        let reference_logprobs = self.reference.as_ref().map(score_reference).transpose()?;
        let values = self.critic.as_ref().map(|c| batch::evaluate(&c.model, rows, max_tokens)).transpose()?;
        let targets = advantages::compute(
            &AdvantageInputs {
                episodes,
                rows,
                old_logprobs: &old_logprobs,
                reference_logprobs: reference_logprobs.as_deref(),
                values: values.as_deref(),
                kl_coef: objective.kl_coef,
            },
            objective,
        )?;
        let dialogues: Vec<u64> = rows.iter().map(|r| episodes[r.episode].dialogue).collect();
        let update_batch = UpdateBatch {
            rows,
            dialogues: &dialogues,
            old_logprobs: &old_logprobs,
            reference_logprobs: reference_logprobs.as_deref(),
            old_values: values.as_deref(),
            targets: &targets,
            temperature,
            vocabulary,
            norm_length: self.recipe.rollout.max_context as f64,
        };
        let rates = self.rates(step)?;
        let shuffle = seed::mix(&[self.recipe.run.seed, Purpose::Shuffle as u64, step as u64]);
        let result = update(&mut self.learner, self.critic.as_mut(), &update_batch, objective, rates, shuffle)?;
        self.skipped_in_a_row = if result.skipped > 0 { self.skipped_in_a_row + 1 } else { 0 };
        if self.skipped_in_a_row >= MAX_SKIPPED {
            return Err(Error::Diverged(self.skipped_in_a_row));
        }
        describe::update(metrics, &result, rates, self.critic.is_some());
        describe::targets(metrics, &targets, values.as_deref());
        if let Some(reference) = &reference_logprobs {
            let kl = old_logprobs.iter().flatten().zip(reference.iter().flatten()).map(|(l, f)| f64::from(l - f));
            metrics.insert("policy/kl_reference", describe::mean(kl));
        }
        note_advantages(episodes, rows, &targets.advantages);
        if let Some(values) = &values {
            note(episodes, rows, values, |segment| &mut segment.values);
        }
        if objective.kl == KlUse::Reward
            && let Some(reference) = &reference_logprobs
        {
            note(episodes, rows, &old_logprobs, |segment| &mut segment.old_logprobs);
            note(episodes, rows, reference, |segment| &mut segment.reference_logprobs);
        }
        Ok(())
    }

    fn rates(&self, step: usize) -> Result<Rates, Error> {
        let o = &self.recipe.optimizer;
        let factor = |warmup_steps| {
            LrSchedule {
                decay: o.decay,
                warmup_steps,
                total_steps: self.recipe.run.steps as u64,
                min_lr_ratio: o.min_lr_ratio,
            }
            .factor(step as u64 - 1)
        };
        let frozen = self.critic.is_some() && step <= self.recipe.objective.critic_warmup;
        Ok(Rates {
            policy: if frozen { None } else { Some(o.lr * factor(o.warmup_steps)?) },
            critic: o.critic_lr * factor(o.critic_warmup_steps)?,
        })
    }

    /// Evaluates, unless an earlier session of this run did.
    fn evaluate_once(&mut self, name: &'static str, report: &mut dyn FnMut(Event<'_>)) -> Result<Summary, Error> {
        let file = format!("eval-{name}");
        let earlier = if name == "before" { self.folder.read_episodes(&file)? } else { None };
        let summary = match earlier {
            Some(episodes) => self.summarise(&episodes)?,
            None => {
                let summary = self.evaluate(&file, report)?;
                if name == "before" && self.step == 0 || name == "after" {
                    self.record_evaluation(name, &summary)?;
                }
                summary
            }
        };
        report(Event::Evaluated(name, &summary));
        Ok(summary)
    }

    fn record_evaluation(&mut self, name: &str, summary: &Summary) -> Result<(), Error> {
        if name == "before" {
            let mut metrics = Metrics::new(0);
            describe::evaluation(&mut metrics, summary);
            self.log.write(&metrics)?;
            self.events.scalars(&metrics)?;
        }
        Ok(())
    }

    fn evaluate(&mut self, file: &str, report: &mut dyn FnMut(Event<'_>)) -> Result<Summary, Error> {
        let e = &self.recipe.eval;
        let settings = RolloutSettings {
            mode: self.recipe.rollout.mode,
            max_turns: e.max_turns,
            start: emotion(e.start_emotion),
            sampling: SamplingSettings::at(e.temperature as f32),
            max_new_tokens: self.recipe.rollout.max_new_tokens,
        };
        self.engine.set_model(&self.learner.model);
        let episodes = evaluate::hold_dialogues(
            &self.policy,
            &mut self.engine,
            self.users.as_ref(),
            &self.eval_profiles,
            settings,
            (self.recipe.run.seed, e.seeds),
            |progress| report(Event::Dialogues("evaluation", progress)),
        )?;
        self.folder.write_episodes(file, &episodes)?;
        evaluate::refuse_too_many_unscored(&episodes, self.recipe.user.max_unscored)?;
        let summary = self.summarise(&episodes)?;
        self.folder.write_json(&format!("{file}.json"), &summary.to_json())?;
        Ok(summary)
    }

    fn summarise(&self, episodes: &[Episode]) -> Result<Summary, Error> {
        Summary::new(&evaluate::outcomes(episodes), self.recipe.run.seed)
            .map_err(|e| Error::NothingScored(e.to_string()))
    }

    fn checkpoint(&mut self, report: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        let path = checkpoint::save(
            &self.folder,
            self.step,
            &self.learner,
            self.critic.as_ref(),
            &self.policy.tokenizer,
            self.recipe.checkpoint.keep,
        )?;
        report(Event::Checkpoint(&path));
        Ok(())
    }

    fn save_policy(&self) -> Result<std::path::PathBuf, Error> {
        let path = self.folder.policy();
        let dtype = self.recipe.model.save_dtype.weight_type();
        checkpoint::save_model(&path, &self.learner, &self.policy.tokenizer, dtype)?;
        Ok(path)
    }

    fn draw_curve(&self) -> Result<(), Error> {
        let records = MetricsLog::read(self.folder.metrics())?;
        let series = |name: &str, key: &str, scale: f64| Series {
            name: name.into(),
            points: records.iter().filter_map(|m| Some((m.step() as f64, m.get(key)? * scale))).collect(),
        };
        let svg = learning_curve_svg(
            "Training dialogues",
            &[
                series("mean final emotion", "emotion/mean", 1.0),
                series("success (%)", "emotion/success_rate", 100.0),
                series("failure (%)", "emotion/failure_rate", 100.0),
            ],
            "step",
            "emotion, share of dialogues",
            Some((0.0, 100.0)),
            &[],
        );
        self.folder.write_text("curve.svg", &svg)
    }
}

pub(crate) fn load_critic(recipe: &Recipe, policy: &Policy, device: &Device) -> Result<Learner, Error> {
    let model = if recipe.model.critic.is_empty() {
        policy.model.to_critic()
    } else {
        policy_source::load_critic(&recipe.model.critic, "", device)?
    };
    Ok(Learner { model, optimizer: AdamW::new(&recipe.optimizer) })
}

pub(crate) fn load_profiles(name: &str, builtin: fn() -> ProfileSet) -> Result<ProfileSet, Error> {
    Ok(if name == "builtin" { builtin() } else { ProfileSet::load(std::path::Path::new(name))? })
}

fn emotion(score: u8) -> Emotion {
    Emotion::new(i64::from(score)).expect("checked with the recipe")
}

/// The dialogues of a step: profiles in an order shuffled per epoch, each `n` times.
pub(crate) fn jobs(recipe: &Recipe, profiles: &ProfileSet, step: usize) -> Vec<Job> {
    let (seed, r) = (recipe.run.seed, &recipe.rollout);
    let mut order: (u64, Vec<usize>) = (u64::MAX, Vec::new());
    let mut jobs = Vec::with_capacity(r.dialogues * r.n);
    for i in 0..r.dialogues {
        let drawn = (step - 1) * r.dialogues + i;
        let epoch = (drawn / profiles.len()) as u64;
        if order.0 != epoch {
            let mut rng = ChaCha8Rng::seed_from_u64(seed::mix(&[seed, Purpose::Order as u64, epoch]));
            order = (epoch, (0..profiles.len()).collect());
            order.1.shuffle(&mut rng);
        }
        let group = drawn as u64;
        for j in 0..r.n as u64 {
            let dialogue = group * r.n as u64 + j;
            jobs.push(Job {
                dialogue,
                group,
                profile: profiles.get(order.1[drawn % profiles.len()]).clone(),
                user_seed: seed::mix(&[seed, Purpose::User as u64, group]),
                sampling_seed: seed::mix(&[seed, Purpose::Sampling as u64, dialogue]),
            });
        }
    }
    jobs
}

/// Writes the advantages beside the tokens they belong to.
fn note_advantages(episodes: &mut [Episode], rows: &[TrainRow], advantages: &[Vec<f64>]) {
    let advantages: Vec<Vec<f32>> = advantages.iter().map(|row| row.iter().map(|a| *a as f32).collect()).collect();
    note(episodes, rows, &advantages, |segment| &mut segment.advantages);
}

/// Writes a number per action token beside the tokens, into the slot of their segments.
fn note(
    episodes: &mut [Episode],
    rows: &[TrainRow],
    numbers: &[Vec<f32>],
    slot: impl Fn(&mut Segment) -> &mut Vec<f32>,
) {
    let mut next = rows.iter().zip(numbers).peekable();
    for (index, episode) in episodes.iter_mut().enumerate() {
        for row in &mut episode.rows {
            if row.segments.iter().all(|s| !s.is_action()) {
                continue;
            }
            let Some((_, values)) = next.next_if(|(r, _)| r.episode == index) else { continue };
            let mut values = values.iter().copied();
            for segment in row.segments.iter_mut().filter(|s| s.is_action()) {
                *slot(segment) = values.by_ref().take(segment.ids.len()).collect();
            }
        }
    }
}
