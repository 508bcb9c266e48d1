//! Prefill and decoding with the rollouts' engine.

use std::time::Instant;

use rlver_kernels::host::WeightFormat;
use rlver_models::generate::{Engine, RowId, Sampler, SamplingSettings};
use rlver_models::qwen2::Qwen2;

use super::stage::{Measured, ids};
use super::{BenchError, Sample};

const PREFILL: usize = 512;
const PROMPT: usize = 128;
const NEW: usize = 64;

pub(super) struct Prefill {
    engine: Engine,
    open: Vec<RowId>,
    vocabulary: usize,
    run: u64,
}

impl Prefill {
    pub(super) fn new(model: Qwen2) -> Prefill {
        let vocabulary = model.config().vocab_size;
        Prefill { engine: Engine::new(&model, vocabulary, 1, PREFILL + 1), open: Vec::new(), vocabulary, run: 0 }
    }
}

impl Measured for Prefill {
    fn once(&mut self) -> Result<Sample, BenchError> {
        self.run += 1;
        begin(&mut self.engine, &mut self.open, [1, PREFILL, 1], self.run, self.vocabulary);
        let begun = Instant::now();
        let sampled = self.engine.step()?;
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(sampled.len(), 1, "the prompt fits one pass");
        Ok(Sample::new(seconds, PREFILL))
    }
}

pub(super) struct Decode {
    engine: Engine,
    open: Vec<RowId>,
    rows: usize,
    vocabulary: usize,
    run: u64,
}

impl Decode {
    pub(super) fn new(model: Qwen2, rows: usize, weights: WeightFormat) -> Decode {
        let vocabulary = model.config().vocab_size;
        let engine = Engine::new(&model, vocabulary, rows, PROMPT + NEW + 1).with_format(weights);
        Decode { engine, open: Vec::new(), rows, vocabulary, run: 0 }
    }
}

impl Measured for Decode {
    fn once(&mut self) -> Result<Sample, BenchError> {
        self.run += 1;
        begin(&mut self.engine, &mut self.open, [self.rows, PROMPT, NEW + 1], self.run, self.vocabulary);
        // The first token comes with the prompt.
        self.engine.step()?;
        let begun = Instant::now();
        let mut tokens = 0;
        while self.engine.is_busy() {
            tokens += self.engine.step()?.len();
        }
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(tokens, self.rows * NEW, "nothing ends a turn but its length");
        Ok(Sample::new(seconds, tokens))
    }
}

/// Fresh rows with prompts of their own, sampling without a stop id, in place of `open` ones.
fn begin(engine: &mut Engine, open: &mut Vec<RowId>, [rows, prompt, new]: [usize; 3], run: u64, vocabulary: usize) {
    open.drain(..).for_each(|row| engine.close(row));
    for index in 0..rows as u64 {
        let row = engine.open().expect("all rows were just closed");
        engine.set_prompt(row, ids(prompt, run * 1000 + index, vocabulary));
        engine.start_turn(row, Sampler::new(SamplingSettings::at(1.0), run * 1000 + index), new, &[]);
        open.push(row);
    }
}
