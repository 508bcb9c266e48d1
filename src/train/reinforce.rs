use std::time::Instant;

use burn::tensor::Device;
use rlver_models::generate::{Engine, SamplingSettings};
use rlver_models::qwen2::Qwen2;

use super::advantages::{self, AdvantageInputs};
use super::batch::{self, TrainRow};
use super::checkpoint::Carried;
use super::curriculum::Controller;
use super::note::{Tokens, note};
use super::optimizer::AdamW;
use super::run_folder::RunFolder;
use super::sample::{Sample, sample};
use super::update::{Learner, Rates, UpdateBatch, first_mini_batch, update};
use super::{Event, Outcome, RunOptions, Stage, checkpoint, describe, policy_source};
use crate::Error;
use crate::device::DeviceChoice;
use crate::dialogue::{Language, ProfileSet, prompt};
use crate::evaluate::{self, EvalResult, Summary};
use crate::metrics::{EventWriter, Metrics, MetricsLog, Series, learning_curve_svg};
use crate::objective::{AdvantageEstimator, KlController, LrSchedule};
use crate::recipe::{CurriculumChoice, KlControl, KlUse, LogprobSource, Recipe, RolloutIs};
use crate::rollout::{self, Episode, Policy, RolloutSettings};
use crate::seed::{self, Purpose};
use crate::user::{Emotion, UserEngine};

/// Updates in a row that may be skipped for a non-finite gradient before the run gives up.
const MAX_SKIPPED: usize = 3;

/// Rollout, advantages, update, until the recipe's steps are done.
pub(super) fn run(
    options: &RunOptions<'_>,
    users: Box<dyn UserEngine>,
    evaluated_with: Option<Box<dyn UserEngine>>,
    report: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Error> {
    let mut trainer = Trainer::new(options, users, evaluated_with, report)?;
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
    /// The users of evaluations, where they are not those of training.
    evaluated_with: Option<Box<dyn UserEngine>>,
    train_profiles: ProfileSet,
    eval_profiles: ProfileSet,
    /// Tokenizer and chat format; the weights are `learner`'s.
    policy: Policy,
    learner: Learner,
    critic: Option<Learner>,
    reference: Option<Qwen2>,
    kl: KlController,
    curriculum: Option<Controller>,
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
        evaluated_with: Option<Box<dyn UserEngine>>,
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
        let mut policy = policy_source::load_policy(&recipe.model.policy, &recipe.model.revision, &device)?;
        let mut learner = Learner { model: policy.model.clone(), optimizer: AdamW::new(&recipe.optimizer) };
        let mut critic = recipe.has_critic().then(|| load_critic(recipe, &policy, &device)).transpose()?;
        let reference = (recipe.objective.kl != KlUse::None).then(|| policy.model.clone());
        let (mut kl, mut curriculum) = (kl_controller(recipe, recipe.objective.kl_coef), curriculum(recipe));
        let (folder, step) = if options.resume {
            let folder = RunFolder::reopen(options.folder, recipe)?;
            let progress = checkpoint::restore(&folder, &mut learner, critic.as_mut(), &device)?;
            if let Some(carried) = progress.carried {
                kl = kl_controller(recipe, carried.kl_coef);
                curriculum = curriculum.and(carried.curriculum);
            }
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
        policy.model = policy.model.without_weights();
        Ok(Trainer {
            recipe,
            folder,
            users,
            evaluated_with,
            train_profiles,
            eval_profiles,
            policy,
            learner,
            critic,
            reference,
            kl,
            curriculum,
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
        let mut sample = self.roll_out(step, report)?;
        let rollout_s = begun.elapsed().as_secs_f64();
        self.refuse_too_many_unscored(step, &sample.episodes)?;
        let mut metrics = Metrics::new(step as u64);
        describe::rollout(&mut metrics, &sample.episodes);
        describe::sampling(&mut metrics, &sample, self.recipe);
        if let (Some(before), Some(now)) = (used_before, self.users.usage()) {
            describe::user(&mut metrics, &now.since(&before));
        }
        let notes = std::mem::take(&mut sample.notes);
        notes.into_iter().for_each(|note| report(Event::Note(note)));
        self.adapt_curriculum(&sample, &mut metrics);
        let rows = sample.rows(self.recipe);
        if rows.is_empty() {
            report(Event::Note(format!("step {step}: no dialogue to learn from; nothing was updated")));
        } else {
            self.learn(step, &mut sample, &rows, &mut metrics, report)?;
        }
        let (episodes, greedy) = (sample.episodes, sample.greedy);
        let total_s = begun.elapsed().as_secs_f64();
        let tokens: usize = rows.iter().map(|r| r.ids.len()).sum();
        metrics.insert("time/rollout_s", rollout_s);
        metrics.insert("time/update_s", total_s - rollout_s);
        metrics.insert("time/total_s", total_s);
        metrics.insert("throughput/tokens_per_s", tokens as f64 / total_s);
        self.step = step;
        let every = self.recipe.eval.every;
        if every > 0 && step.is_multiple_of(every) && step < self.recipe.run.steps {
            let summary = self.evaluate(&Stage::Evaluation(step).name(), report)?;
            describe::evaluation(&mut metrics, &summary);
        }
        self.log.write(&metrics)?;
        self.events.scalars(&metrics)?;
        let every = self.recipe.checkpoint.episodes_every;
        if every > 0 && step.is_multiple_of(every) {
            self.folder.write_episodes(&Stage::Step(step).name(), &episodes)?;
            if !greedy.is_empty() {
                self.folder.write_episodes(&Stage::Greedy(step).name(), &greedy)?;
            }
        }
        report(Event::Step(&metrics, self.recipe.run.steps));
        Ok(())
    }

    fn roll_out(&mut self, step: usize, report: &mut dyn FnMut(Event<'_>)) -> Result<Sample, Error> {
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
        self.engine.set_model(&self.learner.model);
        let (policy, engine, users) = (&self.policy, &mut self.engine, self.users.as_ref());
        sample(self.recipe, &self.train_profiles, step, self.curriculum.as_ref(), |jobs, greedy| {
            let sampling = if greedy { SamplingSettings::at(0.0) } else { settings.sampling };
            rollout::run(policy, engine, users, jobs, RolloutSettings { sampling, ..settings }, |progress| {
                report(Event::Dialogues("rollout", progress));
            })
        })
    }

    /// Tells the curriculum how the step's dialogues went.
    fn adapt_curriculum(&mut self, sample: &Sample, metrics: &mut Metrics) {
        let Some(controller) = &mut self.curriculum else { return };
        let settings = &self.recipe.curriculum;
        let outcomes = sample.outcomes(settings.pass_emotion);
        metrics.insert("curriculum/pass_rate", describe::mean(outcomes.iter().map(|o| f64::from(u8::from(o.2)))));
        controller.record(outcomes, settings);
        metrics.insert("curriculum/entropy", controller.entropy(settings));
    }

    fn refuse_too_many_unscored(&self, step: usize, episodes: &[Episode]) -> Result<(), Error> {
        let limit = self.recipe.user.max_unscored;
        match evaluate::too_many_unscored(episodes, limit) {
            Some((unscored, last)) => {
                Err(Error::TooManyUnscored { step, unscored, total: episodes.len(), limit, last })
            }
            None => Ok(()),
        }
    }

    fn learn(
        &mut self,
        step: usize,
        sample: &mut Sample,
        rows: &[TrainRow],
        metrics: &mut Metrics,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        // What the engine holds would have to be copied before it is changed.
        self.engine.release_model();
        let objective = &self.recipe.objective;
        let (temperature, vocabulary) = (self.recipe.rollout.temperature as f32, self.policy.vocabulary());
        let max_tokens = objective.micro_batch_tokens;
        let episodes = &mut sample.episodes;
        let dialogues: Vec<u64> = rows.iter().map(|r| episodes[r.episode].dialogue).collect();
        let shuffle = seed::mix(&[self.recipe.run.seed, Purpose::Shuffle as u64, step as u64]);
        let rates = self.rates(step)?;
        let (old_logprobs, gap) = self.old_logprobs(rows, &dialogues, rates, shuffle)?;
        let score_reference = |model: &Qwen2| batch::score(model, rows, temperature, vocabulary, max_tokens);
        let reference_logprobs = self.reference.as_ref().map(score_reference).transpose()?;
        let (values, response_values) = match &self.critic {
            None => (None, None),
            Some(critic) if objective.advantage == AdvantageEstimator::GaeRlver => {
                let response = batch::evaluate_response(&critic.model, rows, max_tokens)?;
                let of_actions = |(row, values): (&TrainRow, &Vec<f32>)| {
                    row.actions.iter().map(|at| values[at - row.response().start]).collect()
                };
                (Some(rows.iter().zip(&response).map(of_actions).collect()), Some(response))
            }
            Some(critic) => (Some(batch::evaluate(&critic.model, rows, max_tokens)?), None),
        };
        let values: Option<Vec<Vec<f32>>> = values;
        let targets = advantages::compute(
            &AdvantageInputs {
                episodes,
                rows,
                old_logprobs: &old_logprobs,
                reference_logprobs: reference_logprobs.as_deref(),
                values: values.as_deref(),
                response_values: response_values.as_deref(),
                greedy_rewards: sample.greedy_rewards.as_ref(),
                kl_coef: self.kl.coef(),
                reply_limit: self.recipe.rollout.max_new_tokens,
            },
            objective,
        )?;
        if targets.advantages.iter().flatten().all(|a| *a == 0.0) {
            report(Event::Note(format!("step {step}: all rewards are equal; they teach the policy nothing")));
        }
        let update_batch = UpdateBatch {
            rows,
            dialogues: &dialogues,
            old_logprobs: &old_logprobs,
            reference_logprobs: reference_logprobs.as_deref(),
            kl_coef: self.kl.coef(),
            old_values: values.as_deref(),
            targets: &targets,
            temperature,
            vocabulary,
            norm_length: self.recipe.rollout.max_context as f64,
        };
        let result = update(&mut self.learner, self.critic.as_mut(), &update_batch, objective, rates, shuffle)?;
        self.skipped_in_a_row = if result.skipped > 0 { self.skipped_in_a_row + 1 } else { 0 };
        if self.skipped_in_a_row >= MAX_SKIPPED {
            return Err(Error::Diverged(self.skipped_in_a_row));
        }
        describe::update(metrics, &result, rates, self.critic.is_some());
        describe::targets(metrics, &targets, values.as_deref());
        if objective.old_logprobs == LogprobSource::Recompute && rates.policy.is_some() {
            metrics.insert("rollout/logprob_gap", gap.max(result.logprob_gap));
        }
        if objective.rollout_is != RolloutIs::None {
            metrics.insert("rollout/is_bounded", result.bounded_fraction);
        }
        if let Some(mean_kl) = targets.mean_kl {
            metrics.insert("policy/kl_reference", mean_kl);
            metrics.insert("policy/kl_coef", self.kl.coef());
            self.kl.update(mean_kl, rows.len());
        }
        let advantages: Vec<Vec<f32>> =
            targets.advantages.iter().map(|row| row.iter().map(|a| *a as f32).collect()).collect();
        note(episodes, rows, Tokens::Actions, &advantages, |segment| &mut segment.advantages);
        note(episodes, rows, Tokens::Actions, &result.ratios, |segment| &mut segment.ratios);
        if let Some(response) = &response_values {
            note(episodes, rows, Tokens::Response, response, |segment| &mut segment.values);
        } else if let Some(values) = &values {
            note(episodes, rows, Tokens::Actions, values, |segment| &mut segment.values);
        }
        if objective.kl == KlUse::Reward
            && let Some(reference) = &reference_logprobs
        {
            note(episodes, rows, Tokens::Actions, &old_logprobs, |segment| &mut segment.old_logprobs);
            note(episodes, rows, Tokens::Actions, reference, |segment| &mut segment.reference_logprobs);
        }
        Ok(())
    }

    /// Log-probabilities before the update, and how far the trainer's are from the sampled ones at most. Rows whose old
    /// log-probabilities the update computes anyway get an empty list.
    fn old_logprobs(
        &self,
        rows: &[TrainRow],
        dialogues: &[u64],
        rates: Rates,
        shuffle: u64,
    ) -> Result<(Vec<Vec<f32>>, f64), Error> {
        let objective = &self.recipe.objective;
        if objective.old_logprobs == LogprobSource::Rollout {
            return Ok((rows.iter().map(|r| r.rollout_logprobs.clone()).collect(), 0.0));
        }
        let mut wanted = vec![true; rows.len()];
        if self.reference.is_none() {
            match rates.policy {
                Some(_) => first_mini_batch(dialogues, objective, shuffle).iter().for_each(|r| wanted[*r] = false),
                // Only the critic learns: nobody asks for them.
                None => wanted.fill(false),
            }
        }
        let chosen: Vec<usize> = (0..rows.len()).filter(|r| wanted[*r]).collect();
        let chosen_rows: Vec<&TrainRow> = chosen.iter().map(|r| &rows[*r]).collect();
        let scored = batch::score_some(
            &self.learner.model,
            &chosen_rows,
            self.recipe.rollout.temperature as f32,
            self.policy.vocabulary(),
            objective.micro_batch_tokens,
        )?;
        let (mut old, mut gap) = (vec![Vec::new(); rows.len()], 0.0f32);
        for (r, logprobs) in chosen.into_iter().zip(scored) {
            let gaps = logprobs.iter().zip(&rows[r].rollout_logprobs).map(|(a, b)| (a - b).abs());
            gap = gaps.fold(gap, f32::max);
            old[r] = logprobs;
        }
        Ok((old, f64::from(gap)))
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
        let file = if name == "before" { Stage::Before } else { Stage::After }.name();
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
            self.evaluated_with.as_ref().unwrap_or(&self.users).as_ref(),
            &self.eval_profiles,
            settings,
            (self.recipe.run.seed, e.seeds),
            |progress| report(Event::Dialogues("evaluation", progress)),
        )?;
        self.folder.write_episodes(file, &episodes)?;
        evaluate::refuse_too_many_unscored(&episodes, self.recipe.user.max_unscored)?;
        let summary = self.summarise(&episodes)?;
        let result = EvalResult {
            outcomes: evaluate::outcomes(&episodes),
            unscored: episodes.iter().filter(|e| e.reward.is_none()).count(),
            settings: self.evaluation_settings(),
            seed: self.recipe.run.seed,
        };
        let json = result.to_json().map_err(|e| Error::NothingScored(e.to_string()))?;
        self.folder.write_json(&format!("{file}.json"), &json)?;
        Ok(summary)
    }

    /// What the score of an evaluation depends on, as `rlver eval --json` writes it.
    fn evaluation_settings(&self) -> serde_json::Map<String, serde_json::Value> {
        let (e, r) = (&self.recipe.eval, &self.recipe.rollout);
        let settings = serde_json::json!({
            "rlver": env!("CARGO_PKG_VERSION"),
            "model": format!("{} after step {}", self.recipe.model.policy, self.step),
            "mode": r.mode,
            "system_zh": prompt::system(r.mode, Language::Zh),
            "system_en": prompt::system(r.mode, Language::En),
            "start_emotion": e.start_emotion,
            "max_turns": e.max_turns,
            "temperature": e.temperature,
            "max_new_tokens": r.max_new_tokens,
            "max_context": r.max_context,
            "seed": self.recipe.run.seed,
            "seeds": e.seeds,
            "device": self.recipe.run.device,
            "profiles": self.eval_profiles.origin(),
            "profiles_fingerprint": evaluate::fingerprint(&self.eval_profiles),
            "user": self.evaluated_with.as_ref().unwrap_or(&self.users).name(),
        });
        settings.as_object().cloned().unwrap_or_default()
    }

    fn summarise(&self, episodes: &[Episode]) -> Result<Summary, Error> {
        Summary::new(&evaluate::outcomes(episodes), self.recipe.run.seed)
            .map_err(|e| Error::NothingScored(e.to_string()))
    }

    fn checkpoint(&mut self, report: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        let carried = Carried { kl_coef: self.kl.coef(), curriculum: self.curriculum.clone() };
        let path = checkpoint::save_carrying(
            &self.folder,
            self.step,
            (&self.learner, self.critic.as_ref()),
            &self.policy.tokenizer,
            self.recipe.checkpoint.keep,
            Some(carried),
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

fn kl_controller(recipe: &Recipe, coef: f64) -> KlController {
    let o = &recipe.objective;
    match o.kl_control {
        KlControl::Fixed => KlController::Fixed { coef: o.kl_coef },
        KlControl::Adaptive => KlController::Adaptive { coef, target: o.kl_target, horizon: o.kl_horizon },
    }
}

pub(crate) fn curriculum(recipe: &Recipe) -> Option<Controller> {
    (recipe.curriculum.controller == CurriculumChoice::DualLoop).then(Controller::new)
}

pub(crate) fn load_profiles(name: &str, builtin: fn() -> ProfileSet) -> Result<ProfileSet, Error> {
    Ok(if name == "builtin" { builtin() } else { ProfileSet::load(std::path::Path::new(name))? })
}

fn emotion(score: u8) -> Emotion {
    Emotion::new(i64::from(score)).expect("checked with the recipe")
}
