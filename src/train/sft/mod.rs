//! The supervised warm start: a small Qwen2 policy from nothing, with its own tokenizer, fitted to dialogues between
//! the scripted supporter and the built-in users.

mod corpus;
mod exercises;

use std::time::Instant;

use burn::tensor::{Int, Tensor, TensorData};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rlver_kernels::ordered_sum;
use rlver_models::qwen2::{Packed, Qwen2, Qwen2Config, Qwen2Shape};
use rlver_models::tokenizer::{QWEN_SPECIAL_TOKENS, Tokenizer, chatml_config, train_bpe};

pub use corpus::{Corpus, SftRow};

use super::optimizer::{AdamW, GradientSum};
use super::run_folder::RunFolder;
use super::update::Learner;
use super::{Event, Outcome, RunOptions, checkpoint};
use crate::Error;
use crate::device::DeviceChoice;
use crate::dialogue::ProfileSet;
use crate::metrics::{EventWriter, Metrics, MetricsLog};
use crate::objective::LrSchedule;
use crate::recipe::Recipe;
use crate::rollout::Policy;
use crate::seed::{self, Purpose};

/// Dialogues the held-out loss is measured on.
const HELDOUT_DIALOGUES: usize = 96;

/// Fits a fresh model to the scripted corpus.
pub(super) fn run(options: &RunOptions<'_>, report: &mut dyn FnMut(Event<'_>)) -> Result<Outcome, Error> {
    let recipe = options.recipe;
    let device = DeviceChoice::parse(&recipe.run.device).expect("checked with the recipe").open();
    report(Event::Note("writing the corpus".into()));
    let profiles = ProfileSet::builtin_train();
    let corpus = Corpus::write(&profiles, recipe, recipe.sft.dialogues, 0);
    let heldout = Corpus::write(&ProfileSet::builtin_heldout(), recipe, HELDOUT_DIALOGUES, 1);
    let tokenizer = train_tokenizer(&corpus, recipe.sft.vocab_size)?;
    let mut learner = Learner { model: init(recipe, &tokenizer, &device), optimizer: AdamW::new(&recipe.optimizer) };
    let policy = Policy::new(learner.model.clone(), tokenizer, "new model".into())?;
    let rows = corpus.rows(&policy, recipe.sft.user_weight as f32)?;
    let heldout = heldout.rows(&policy, 0.0)?;
    let tokens: usize = rows.iter().map(|r| r.ids.len()).sum();
    report(Event::Note(format!(
        "{} rows, {:.2} M tokens; vocabulary {}, {:.2} M parameters",
        rows.len(),
        tokens as f64 / 1e6,
        policy.vocabulary(),
        learner.model.config().num_parameters() as f64 / 1e6
    )));
    let (folder, mut step) = if options.resume {
        let folder = RunFolder::reopen(options.folder, recipe)?;
        let progress = checkpoint::restore(&folder, &mut learner, None, &device)?;
        MetricsLog::truncate_after(folder.metrics(), progress.step as u64)?;
        (folder, progress.step)
    } else {
        (RunFolder::create(options.folder, recipe)?, 0)
    };
    let mut log = MetricsLog::append(folder.metrics())?;
    let mut events = EventWriter::resume(folder.tensorboard(), step as u64 + 1)?;
    let (exercise_steps, exercise_tokens) = (recipe.sft.exercise_steps, recipe.sft.exercise_batch_tokens);
    let exercise_seed = seed::mix(&[recipe.run.seed, Purpose::Corpus as u64, u64::MAX]);
    // Dialogues share their batches with exercises, which are forgotten otherwise.
    let rehearsed = if exercise_steps > 0 { exercise_tokens } else { 0 };
    let mut batches = Batches::new(&rows, recipe.run.seed, recipe.sft.batch_tokens.saturating_sub(rehearsed).max(1));
    while step < recipe.run.steps {
        if options.stop.is_raised() {
            checkpoint::save(&folder, step, &learner, None, &policy.tokenizer, recipe.checkpoint.keep)?;
            return Ok(Outcome::Interrupted { step });
        }
        let begun = Instant::now();
        let exercises = if exercise_steps > 0 {
            let progress = (step as f64 / exercise_steps as f64).min(1.0);
            corpus.exercises(&profiles, &policy, exercise_tokens, progress, seed::mix(&[exercise_seed, step as u64]))?
        } else {
            Vec::new()
        };
        let mut batch: Vec<&SftRow> = exercises.iter().collect();
        if step >= exercise_steps {
            batch.extend(batches.get(step - exercise_steps));
        }
        step += 1;
        let lr = learning_rate(recipe, step)?;
        let tracked = learner.model.tracked();
        let (loss, mut grads) = {
            let loss = nll(&tracked, &batch, policy.vocabulary())?;
            (f64::from(loss.clone().inner().into_scalar::<f32>()), loss.backward())
        };
        let mut gradients = GradientSum::default();
        gradients.add(&tracked, &mut grads);
        let norm = learner.optimizer.update(&mut learner.model, gradients, lr);
        let seconds = begun.elapsed().as_secs_f64();
        let mut metrics = Metrics::new(step as u64);
        metrics.insert("sft/loss", loss);
        metrics.insert("policy/lr", lr);
        metrics.insert("grad_norm/policy", norm);
        metrics.insert("time/total_s", seconds);
        metrics.insert("throughput/tokens_per_s", batch.iter().map(|r| r.ids.len()).sum::<usize>() as f64 / seconds);
        let due = recipe.eval.every > 0 && step.is_multiple_of(recipe.eval.every);
        if due || step == recipe.run.steps {
            metrics.insert("sft/heldout_loss", mean_nll(&learner.model, &heldout, recipe, policy.vocabulary())?);
        }
        log.write(&metrics)?;
        events.scalars(&metrics)?;
        report(Event::Step(&metrics, recipe.run.steps));
        let every = recipe.checkpoint.every;
        if every > 0 && step.is_multiple_of(every) && step < recipe.run.steps {
            let path = checkpoint::save(&folder, step, &learner, None, &policy.tokenizer, recipe.checkpoint.keep)?;
            report(Event::Checkpoint(&path));
        }
    }
    let path = checkpoint::save(&folder, step, &learner, None, &policy.tokenizer, recipe.checkpoint.keep)?;
    report(Event::Checkpoint(&path));
    checkpoint::save_model(&folder.policy(), &learner, &policy.tokenizer, recipe.model.save_dtype.weight_type())?;
    Ok(Outcome::Finished { policy: folder.policy(), evaluation: None })
}

fn train_tokenizer(corpus: &Corpus, vocab_size: usize) -> Result<Tokenizer, Error> {
    let bytes = train_bpe(corpus.texts(), vocab_size, &QWEN_SPECIAL_TOKENS)?;
    Ok(Tokenizer::from_bytes(&bytes, &chatml_config())?)
}

fn init(recipe: &Recipe, tokenizer: &Tokenizer, device: &burn::tensor::Device) -> Qwen2 {
    let s = &recipe.sft;
    let config = Qwen2Config::new(Qwen2Shape {
        vocab_size: tokenizer.vocab_size(),
        hidden_size: s.hidden_size,
        intermediate_size: s.intermediate_size,
        layers: s.layers,
        heads: s.heads,
        kv_heads: s.kv_heads,
        max_positions: s.max_positions,
    });
    let mut rng = ChaCha8Rng::seed_from_u64(seed::mix(&[recipe.run.seed, Purpose::Weights as u64]));
    // Box-Muller; both uniforms lie in (0, 1].
    let mut uniform = move || ((rng.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    Qwen2::init(config, device, move || {
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
        radius * angle.cos()
    })
}

fn learning_rate(recipe: &Recipe, step: usize) -> Result<f64, Error> {
    let o = &recipe.optimizer;
    let schedule = LrSchedule {
        decay: o.decay,
        warmup_steps: o.warmup_steps,
        total_steps: recipe.run.steps as u64,
        min_lr_ratio: o.min_lr_ratio,
    };
    Ok(o.lr * schedule.factor(step as u64 - 1)?)
}

/// The batch of every step: rows shuffled per epoch and packed up to the token budget.
struct Batches<'a> {
    rows: &'a [SftRow],
    seed: u64,
    batch_tokens: usize,
    /// Batches of the epochs prepared so far.
    prepared: Vec<Vec<&'a SftRow>>,
    epochs: u64,
}

impl<'a> Batches<'a> {
    fn new(rows: &'a [SftRow], seed: u64, batch_tokens: usize) -> Batches<'a> {
        Batches { rows, seed, batch_tokens, prepared: Vec::new(), epochs: 0 }
    }

    fn get(&mut self, step: usize) -> Vec<&'a SftRow> {
        while self.prepared.len() <= step {
            let seed = seed::mix(&[self.seed, Purpose::Order as u64, self.epochs]);
            self.epochs += 1;
            let mut order: Vec<&SftRow> = self.rows.iter().collect();
            order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
            let mut tokens = usize::MAX;
            for row in order {
                if tokens.saturating_add(row.ids.len()) > self.batch_tokens {
                    self.prepared.push(Vec::new());
                    tokens = 0;
                }
                tokens += row.ids.len();
                self.prepared.last_mut().expect("just pushed").push(row);
            }
        }
        self.prepared[step].clone()
    }
}

/// Weighted mean negative log-likelihood of a packed batch.
fn nll(model: &Qwen2, rows: &[&SftRow], vocabulary: usize) -> Result<Tensor<1>, Error> {
    let hidden = model.forward(&Packed::new(rows.iter().map(|r| r.ids.as_slice())))?;
    let (mut predictors, mut targets, mut weights, mut offset) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for row in rows {
        for (i, weight) in row.weights.iter().enumerate().filter(|(i, w)| *i > 0 && **w > 0.0) {
            predictors.push((offset + i - 1) as i32);
            targets.push(row.ids[i]);
            weights.push(*weight);
        }
        offset += row.ids.len();
    }
    let (n, total, device) = (targets.len(), weights.iter().sum::<f32>(), hidden.device());
    let index = Tensor::<1, Int>::from_data(TensorData::new(predictors, [n]), &device);
    let logprob = model.logprob(hidden.select(0, index), &targets, 1.0, vocabulary)?.logprob;
    let weights = Tensor::<1>::from_data(TensorData::new(weights, [n]), &device);
    Ok(ordered_sum(logprob * weights).neg() / total)
}

fn mean_nll(model: &Qwen2, rows: &[SftRow], recipe: &Recipe, vocabulary: usize) -> Result<f64, Error> {
    let (mut sum, mut weight, mut start) = (0.0, 0.0, 0);
    while start < rows.len() {
        let mut end = start + 1;
        let size = |r: &[SftRow]| r.iter().map(|r| r.ids.len()).sum::<usize>();
        while end < rows.len() && size(&rows[start..=end]) <= recipe.sft.batch_tokens {
            end += 1;
        }
        let chunk: Vec<&SftRow> = rows[start..end].iter().collect();
        let share: f64 = chunk.iter().flat_map(|r| &r.weights).map(|w| f64::from(*w)).sum();
        sum += share * f64::from(nll(model, &chunk, vocabulary)?.into_scalar::<f32>());
        weight += share;
        start = end;
    }
    Ok(sum / weight)
}
