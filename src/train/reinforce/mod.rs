mod evaluation;
mod learn;

use std::time::Instant;

use burn::tensor::Device;
use rlver_models::generate::{Engine, SamplingSettings};
use rlver_models::qwen2::Qwen2;

use super::checkpoint::Carried;
use super::curriculum::Controller;
use super::optimizer::AdamW;
use super::run_folder::RunFolder;
use super::sample::{Sample, sample};
use super::update::Learner;
use super::{Event, Outcome, RunOptions, Stage, checkpoint, describe, policy_source};
use crate::Error;
use crate::device::DeviceChoice;
use crate::dialogue::ProfileSet;
use crate::evaluate;
use crate::metrics::{EventWriter, Metrics, MetricsLog, Series, learning_curve_svg};
use crate::objective::KlController;
use crate::recipe::{CurriculumChoice, KlControl, KlUse, Recipe};
use crate::rollout::{self, Episode, Policy, RolloutSettings};
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
        let engine =
            Engine::new(&learner.model, policy.vocabulary(), rows, capacity).with_format(recipe.rollout.weights.into());
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
