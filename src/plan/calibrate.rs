use std::time::{Duration, Instant};

use burn::tensor::Device;
use rlver_models::generate::{Engine, Sampler, SamplingSettings};
use rlver_models::qwen2::{Qwen2, Qwen2Config, Qwen2Shape};

use super::Networks;
use crate::Error;
use crate::bench::{Flops, random_ids, random_network};
use crate::recipe::{KlUse, ObjectiveSection, OptimizerSection, Recipe};
use crate::train::{AdamW, Advantages, Learner, Rates, TrainRow, UpdateBatch, score, update};

/// Time for each of the two measurements.
const BUDGET: Duration = Duration::from_secs(5);
/// Blocks and vocabulary of the network that is measured: enough for its rates to be those of a deeper one.
const LAYERS: usize = 2;
const VOCABULARY: usize = 4096;
const ROW: usize = 256;

/// What this device does per second with a network of this width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Model FLOP/s of an update, which is taken for the other passes too.
    pub update_flops: f64,
    /// Model FLOP/s of decoding with as many sequences as the recipe's rollout.
    pub decode_flops: f64,
}

/// Measures for about ten seconds, on random weights: two blocks of the policy's width.
///
/// # Errors
/// When the device refuses to compute.
pub fn calibrate(recipe: &Recipe, networks: &Networks, device: &Device) -> Result<Calibration, Error> {
    let c = &networks.policy;
    let config = Qwen2Config::new(Qwen2Shape {
        vocab_size: c.vocab_size.min(VOCABULARY),
        hidden_size: c.num_attention_heads * c.head_dim,
        intermediate_size: c.intermediate_size,
        layers: c.num_hidden_layers.min(LAYERS),
        heads: c.num_attention_heads,
        kv_heads: c.num_key_value_heads,
        max_positions: 2048,
    });
    let model = random_network(config.clone(), device);
    let rows = recipe.rollout.batch.min(recipe.rollout.dialogues * recipe.rollout.n).clamp(1, 128);
    let decode_flops = decoding(&model, &config, rows)?;
    Ok(Calibration { decode_flops, update_flops: updating(model, &config)? })
}

/// Model FLOP/s over `once`, which says how many it spent, until the time is up.
fn rate(mut once: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    // The first run allocates.
    once()?;
    let begun = Instant::now();
    let mut spent = 0.0;
    while begun.elapsed() < BUDGET {
        spent += once()?;
    }
    Ok(spent / begun.elapsed().as_secs_f64())
}

fn decoding(model: &Qwen2, config: &Qwen2Config, rows: usize) -> Result<f64, Error> {
    let mut engine = Engine::new(model, config.vocab_size, rows, 2048);
    let mut open = Vec::new();
    rate(|| {
        if !engine.is_busy() {
            open.drain(..).for_each(|row| engine.close(row));
            for seed in 0..rows as u64 {
                let Some(row) = engine.open() else { break };
                engine.set_prompt(row, random_ids(64, seed, config.vocab_size));
                engine.start_turn(row, Sampler::new(SamplingSettings::at(1.0), seed), 1900, &[]);
                open.push(row);
            }
            // The prompt is not decoding; a long turn makes its share small.
            engine.step()?;
        }
        let context = engine.ids(open[0]).len() as f64;
        let sampled = engine.step()?.len();
        Ok(sampled as f64 * Flops::of(config).decode(context))
    })
}

fn updating(model: Qwen2, config: &Qwen2Config) -> Result<f64, Error> {
    let rows: Vec<TrainRow> = (0..4)
        .map(|index| TrainRow {
            episode: index,
            ids: random_ids(ROW, index as u64, config.vocab_size),
            actions: (1..ROW).collect(),
            turn_ends: vec![(ROW - 2, 0)],
            rollout_logprobs: Vec::new(),
        })
        .collect();
    let objective = ObjectiveSection { kl: KlUse::Loss, ..ObjectiveSection::default() };
    let old = score(&model, &rows, 1.0, config.vocab_size, objective.micro_batch_tokens)?;
    let targets = Advantages { advantages: vec![vec![0.5; ROW - 1]; rows.len()], ..Advantages::default() };
    let mut learner = Learner { model, optimizer: AdamW::new(&OptimizerSection::default()) };
    let dialogues: Vec<u64> = (0..rows.len() as u64).collect();
    rate(|| {
        let batch = UpdateBatch {
            rows: &rows,
            dialogues: &dialogues,
            old_logprobs: &old,
            reference_logprobs: Some(&old),
            kl_coef: 0.001,
            old_values: None,
            targets: &targets,
            temperature: 1.0,
            vocabulary: config.vocab_size,
            norm_length: 1.0,
        };
        update(&mut learner, None, &batch, &objective, Rates { policy: Some(1e-6), critic: 0.0 }, 1)?;
        Ok(rows.len() as f64 * Flops::of(config).update(ROW))
    })
}
