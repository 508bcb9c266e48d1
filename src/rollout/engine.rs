use rlver_models::ModelError;
use rlver_models::generate::{Engine, RowId, Sampled, Sampler, SamplingSettings};

use crate::Error;

/// What samples a policy's replies. The rollout knows nothing else of how tokens come about: this process's [`Engine`]
/// is one, a server that was given the weights may be another.
///
/// A row holds one sequence. Sampled tokens are added to it, and a turn ends with a token that says so.
pub trait RolloutEngine {
    /// Tokens a row can hold.
    fn capacity(&self) -> usize;

    /// Takes a free row, or `None` when all are in use.
    fn open(&mut self) -> Option<RowId>;

    /// Frees a row.
    fn close(&mut self, row: RowId);

    /// Makes `ids` the row's whole sequence. They extend what the row held, or replace it.
    fn set_prompt(&mut self, row: RowId, ids: Vec<u32>);

    /// Starts sampling after the row's tokens.
    fn start_turn(&mut self, row: RowId, turn: &TurnSettings<'_>);

    /// Waits for tokens of the rows that are sampling: any number of them, those of one row in their order. Log-probabilities
    /// are natural, at the sampling temperature and before filters.
    ///
    /// # Errors
    /// When no more tokens can be had.
    fn step(&mut self) -> Result<Vec<Sampled>, Error>;
}

/// How one turn is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnSettings<'a> {
    /// How tokens are chosen.
    pub sampling: SamplingSettings,
    /// Seed of the turn's own random stream.
    pub seed: u64,
    /// Most tokens of the turn.
    pub max_new_tokens: usize,
    /// Ids that end the turn.
    pub stop: &'a [u32],
}

impl RolloutEngine for Engine {
    fn capacity(&self) -> usize {
        Engine::capacity(self)
    }

    fn open(&mut self) -> Option<RowId> {
        Engine::open(self)
    }

    fn close(&mut self, row: RowId) {
        Engine::close(self, row);
    }

    fn set_prompt(&mut self, row: RowId, ids: Vec<u32>) {
        Engine::set_prompt(self, row, ids);
    }

    fn start_turn(&mut self, row: RowId, turn: &TurnSettings<'_>) {
        Engine::start_turn(self, row, Sampler::new(turn.sampling, turn.seed), turn.max_new_tokens, turn.stop);
    }

    fn step(&mut self) -> Result<Vec<Sampled>, Error> {
        Engine::step(self).map_err(|error: ModelError| Error::from(error))
    }
}
