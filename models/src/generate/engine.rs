use burn::tensor::{Int, Tensor, TensorData};
use rayon::prelude::*;
use rlver_kernels::cache::{Span, Spans};
use rlver_kernels::host::{Decoder, WeightFormat};
use rlver_kernels::linear::{linear, streamed};

use super::sampler::Choice;
use super::{KvCache, Sampler, on_device};
use crate::ModelError;
use crate::qwen2::Qwen2;

/// Most tokens one forward pass takes; longer prompts are fed over several steps.
const MAX_STEP_TOKENS: usize = 4096;

/// A sequence's place in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(usize);

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// A stop id was sampled; it is the last sampled id.
    Stop,
    /// The turn's token limit was reached.
    Length,
    /// The row's capacity was reached.
    Context,
}

/// One sampled token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// The sequence it belongs to.
    pub row: RowId,
    /// The token.
    pub id: u32,
    /// Its natural log-probability at the sampling temperature, before any filter.
    pub logprob: f32,
    /// Whether top-k, top-p or min-p removed some id.
    pub filtered: bool,
    /// Set on the last token of the turn.
    pub finish: Option<Finish>,
}

/// Generates many sequences side by side with continuous batching: rows of different length and at different stages
/// (prompt or sampling) share each forward pass, and a closed row makes room for the next sequence at once.
///
/// Rows keep their cache between turns, so only new tokens are computed.
#[derive(Debug)]
pub struct Engine {
    /// What is computed with; without weights once the host's decoder has its own copy.
    model: Qwen2,
    compute: Compute,
    format: WeightFormat,
    rows: Vec<Option<Row>>,
    /// Ids from here on belong to no token and are never sampled.
    vocabulary: usize,
}

/// Who computes, with what is cached.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there is one per engine
enum Compute {
    /// The CPU, on slices.
    Host(Decoder),
    /// The device, on tensors.
    Device {
        /// The vocabulary projection; a copy where the model's is its embedding. `None` without weights.
        head: Option<Tensor<2>>,
        cache: KvCache,
    },
}

#[derive(Debug, Default)]
struct Row {
    /// All tokens of the sequence; the first `cached` are in the cache.
    ids: Vec<u32>,
    cached: usize,
    turn: Option<Turn>,
}

#[derive(Debug)]
struct Turn {
    sampler: Sampler,
    remaining: usize,
    stop: Vec<u32>,
}

impl Engine {
    /// An engine for `rows` sequences of up to `capacity` tokens. `vocabulary` is the number of ids the tokenizer
    /// knows; the model's head may have more rows.
    pub fn new(model: &Qwen2, vocabulary: usize, rows: usize, capacity: usize) -> Engine {
        let device = model.device();
        let compute = if model.suits_host() {
            Compute::Host(Decoder::new(model.config().decoder_shape(), rows, capacity))
        } else {
            Compute::Device { head: None, cache: KvCache::new(model.config(), rows, capacity, &device) }
        };
        let vocabulary = vocabulary.min(model.config().vocab_size);
        let rows = (0..rows).map(|_| None).collect();
        // Weights are laid out anew when they are first needed: an engine may be made long before.
        Engine { model: model.untracked(), compute, format: WeightFormat::F32, rows, vocabulary }
    }

    /// The same engine with weights of another format: with bf16, half the bytes are read per token, and log-probabilities are
    /// near the trainer's instead of equal to them. Only the CPU has a choice.
    pub fn with_format(self, format: WeightFormat) -> Engine {
        Engine { format, ..self }
    }

    /// Takes new weights of the same architecture; open rows forget what they cached.
    pub fn set_model(&mut self, model: &Qwen2) {
        self.release_model();
        self.model = model.untracked();
        self.rows.iter_mut().flatten().for_each(|row| row.cached = 0);
    }

    /// Lets go of the weights, so that an optimizer that holds them too can change them in place. The next turn needs
    /// [`Engine::set_model`] first.
    pub fn release_model(&mut self) {
        self.model = self.model.without_weights();
        match &mut self.compute {
            Compute::Host(decoder) => decoder.release_weights(),
            Compute::Device { head, .. } => *head = None,
        }
    }

    /// Tokens a row can hold.
    pub fn capacity(&self) -> usize {
        match &self.compute {
            Compute::Host(decoder) => decoder.capacity(),
            Compute::Device { cache, .. } => cache.capacity(),
        }
    }

    /// Takes a free row, or `None` when all are in use.
    pub fn open(&mut self) -> Option<RowId> {
        let free = self.rows.iter().position(Option::is_none)?;
        self.rows[free] = Some(Row::default());
        Some(RowId(free))
    }

    /// Frees a row.
    pub fn close(&mut self, row: RowId) {
        self.rows[row.0] = None;
    }

    /// Tokens of a row so far, cached or not.
    pub fn ids(&self, row: RowId) -> &[u32] {
        &self.row(row).ids
    }

    /// Makes `ids` the row's whole sequence. The longest common prefix with what it held stays cached.
    pub fn set_prompt(&mut self, row: RowId, ids: Vec<u32>) {
        let row = self.row_mut(row);
        let common = row.ids.iter().zip(&ids).take_while(|(a, b)| a == b).count();
        // At least one token must be computed for there to be logits to sample from.
        row.cached = row.cached.min(common).min(ids.len().saturating_sub(1));
        row.ids = ids;
        row.turn = None;
    }

    /// Starts sampling after the row's tokens.
    ///
    /// # Panics
    /// When the row is empty: there is nothing to continue.
    pub fn start_turn(&mut self, row: RowId, sampler: Sampler, max_new_tokens: usize, stop: &[u32]) {
        let row = self.row_mut(row);
        assert!(!row.ids.is_empty(), "a turn continues a prompt");
        row.turn = Some(Turn { sampler, remaining: max_new_tokens.max(1), stop: stop.to_vec() });
    }

    /// Whether some row is sampling.
    pub fn is_busy(&self) -> bool {
        self.rows.iter().flatten().any(|row| row.turn.is_some())
    }

    /// One forward pass over all sampling rows. Rows whose prompt is consumed give one token each, in row order.
    ///
    /// # Errors
    /// When a token is outside the model's vocabulary or a prompt does not fit its row.
    pub fn step(&mut self) -> Result<Vec<Sampled>, ModelError> {
        let (mut ids, mut spans, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (index, row) in self.rows.iter_mut().enumerate() {
            let Some(row) = row.as_mut().filter(|row| row.turn.is_some()) else { continue };
            let new = &row.ids[row.cached..];
            let length = new.len().min(MAX_STEP_TOKENS.saturating_sub(ids.len()));
            if length == 0 {
                continue;
            }
            ids.extend_from_slice(&new[..length]);
            spans.push(Span { row: index, start: row.cached, length });
            row.cached += length;
            if row.cached == row.ids.len() {
                ends.push((index, ids.len() - 1));
            }
        }
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let vocabulary = self.model.config().vocab_size;
        if let Some(&id) = ids.iter().find(|id| **id as usize >= vocabulary) {
            return Err(ModelError::TokenId { id, vocabulary });
        }
        self.prepare()?;
        let spans = Spans::new(spans);
        let choices = match &mut self.compute {
            Compute::Host(decoder) => {
                let positions: Vec<usize> = ends.iter().map(|(_, at)| *at).collect();
                let logits = decoder.step(&ids, &spans, &positions)?;
                self.choose(&ends, &logits)
            }
            Compute::Device { head, cache } => {
                let hidden = self.model.forward_cached(&ids, &spans, cache)?;
                if ends.is_empty() {
                    return Ok(Vec::new());
                }
                let logits = logits(hidden, head.clone().expect("just prepared"), &ends)?;
                self.draw(&ends, logits)?
            }
        };
        Ok(self.append(&ends, choices))
    }

    /// Draws a token for every row that ends at `ends`: where the logits are, or on the host where that is the device or a
    /// sampler is restricted.
    fn draw(&mut self, ends: &[(usize, usize)], logits: Tensor<2>) -> Result<Vec<Choice>, ModelError> {
        let vocabulary = self.vocabulary;
        if !rlver_kernels::is_flex(&logits.device()) {
            let mut samplers: Vec<&mut Sampler> = self.ending(ends).into_iter().map(|turn| &mut turn.sampler).collect();
            if let Some(choices) = on_device::draw(&logits, &mut samplers, vocabulary)? {
                return Ok(choices);
            }
        }
        let logits = logits.into_data().convert_dtype(burn::tensor::DType::F32);
        let logits: Vec<f32> = logits.try_into_vec().expect("just converted to f32");
        Ok(self.choose(ends, &logits))
    }

    /// Chooses a token for every row that ends at `ends` on the host; `logits` hold one row's after another's.
    fn choose(&mut self, ends: &[(usize, usize)], logits: &[f32]) -> Vec<Choice> {
        if ends.is_empty() {
            return Vec::new();
        }
        let (width, vocabulary) = (logits.len() / ends.len(), self.vocabulary);
        self.ending(ends)
            .par_iter_mut()
            .zip(logits.par_chunks_exact(width))
            .map(|(turn, logits)| turn.sampler.choose(&logits[..vocabulary]))
            .collect()
    }

    /// The turns of the rows that end at `ends`, in their order.
    fn ending(&mut self, ends: &[(usize, usize)]) -> Vec<&mut Turn> {
        let turns = self.rows.iter_mut().enumerate().filter_map(|(i, row)| Some((i, row.as_mut()?.turn.as_mut()?)));
        let ending = turns.filter(|(i, _)| ends.binary_search_by_key(i, |(row, _)| *row).is_ok());
        ending.map(|(_, turn)| turn).collect()
    }

    /// Lays new weights out for generation.
    fn prepare(&mut self) -> Result<(), ModelError> {
        match &mut self.compute {
            Compute::Host(decoder) if !decoder.is_ready() => {
                let empty = self.model.without_weights();
                let model = std::mem::replace(&mut self.model, empty);
                decoder.set_weights(model.into_decoder_weights()?, self.format)?;
            }
            Compute::Device { head: head @ None, .. } => {
                self.model = self.model.streamed()?;
                let weight = self.model.vocabulary_head()?;
                let tied = self.model.config().tie_word_embeddings;
                *head = Some(if tied { streamed(weight)? } else { weight });
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends the chosen tokens to their rows and ends turns that are over.
    fn append(&mut self, ends: &[(usize, usize)], choices: Vec<Choice>) -> Vec<Sampled> {
        let capacity = self.capacity();
        let mut sampled = Vec::with_capacity(ends.len());
        for (&(index, _), choice) in ends.iter().zip(choices) {
            let row = self.rows[index].as_mut().expect("only open rows are stepped");
            let turn = row.turn.as_mut().expect("only sampling rows are stepped");
            row.ids.push(choice.id);
            turn.remaining -= 1;
            let finish = if turn.stop.contains(&choice.id) {
                Some(Finish::Stop)
            } else if row.ids.len() >= capacity {
                Some(Finish::Context)
            } else if turn.remaining == 0 {
                Some(Finish::Length)
            } else {
                None
            };
            if finish.is_some() {
                row.turn = None;
            }
            let (row, Choice { id, logprob, filtered }) = (RowId(index), choice);
            sampled.push(Sampled { row, id, logprob, filtered, finish });
        }
        sampled
    }

    fn row(&self, row: RowId) -> &Row {
        self.rows[row.0].as_ref().expect("an open row")
    }

    fn row_mut(&mut self, row: RowId) -> &mut Row {
        self.rows[row.0].as_mut().expect("an open row")
    }
}

/// Logits of the rows that end at `ends`.
fn logits(hidden: Tensor<2>, head: Tensor<2>, ends: &[(usize, usize)]) -> Result<Tensor<2>, ModelError> {
    let positions: Vec<i32> = ends.iter().map(|(_, at)| *at as i32).collect();
    let data = TensorData::new(positions, [ends.len()]);
    let last = hidden.clone().select(0, Tensor::<1, Int>::from_data(data, &hidden.device()));
    Ok(linear(last, head, None)?)
}
