//! The outer loop of Dual-Loop Self-Evolution (arXiv 2608.10626): in which state people come to talk; and RLVER's
//! challenging environment ([`challenging()`]).
//!
//! Per hidden intention, a [`Controller`] keeps how often dialogues in each of the 24 [`UserState`]s were passed, and
//! draws states whose pass rate is near one half, where dialogues teach most. A state that was rarely met borrows its
//! pass rate from the other intentions and gets a bonus; a share of the dialogues is drawn uniformly, so that nothing is
//! forgotten. It costs no dialogue: it only reads those the inner loop holds.

mod challenging;
mod state;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub use challenging::challenging;
pub use state::{Activation, Disclosure, Trust, UserState};

use crate::dialogue::HiddenIntention;
use crate::recipe::CurriculumSection;
use crate::train::exact;

/// Observations that the other intentions' pass rate is worth.
const PRIOR: f64 = 2.0;

/// How often dialogues in one state were held and passed; both fade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Cell {
    #[serde(with = "exact")]
    held: f64,
    #[serde(with = "exact")]
    passed: f64,
}

/// Decides in which state people come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    /// Per hidden intention, per state.
    cells: Vec<Vec<Cell>>,
}

impl Default for Controller {
    fn default() -> Controller {
        Controller::new()
    }
}

impl Controller {
    /// A controller that has seen nothing.
    pub fn new() -> Controller {
        Controller { cells: vec![vec![Cell::default(); UserState::COUNT]; HiddenIntention::ALL.len()] }
    }

    /// Whether it has a cell for every intention and state, which one read from a file may lack.
    pub(in crate::train) fn is_complete(&self) -> bool {
        self.cells.len() == HiddenIntention::ALL.len() && self.cells.iter().all(|c| c.len() == UserState::COUNT)
    }

    /// The pass rate expected of an intention and a state.
    ///
    /// `p̂ = (passed + 2·q)/(held + 2)`, with `q` the pass rate of the *other* intentions in this state, itself
    /// smoothed toward one half: `q = (passed' + 1)/(held' + 2)`.
    pub fn pass_rate(&self, intention: HiddenIntention, state: usize) -> f64 {
        let own = index(intention);
        let others = || self.cells.iter().enumerate().filter(|(i, _)| *i != own).map(|(_, states)| states[state]);
        let held: f64 = others().map(|c| c.held).sum();
        let passed: f64 = others().map(|c| c.passed).sum();
        let prior = (passed + 1.0) / (held + 2.0);
        let cell = self.cells[own][state];
        (cell.passed + PRIOR * prior) / (cell.held + PRIOR)
    }

    /// The probability with which each state is drawn for an intention.
    ///
    /// `ρ/24 + (1 − ρ)·softmax(u)` with `u = −sharpness·|2p̂ − 1| + exploration·√(ln(1 + N)/(1 + n))`, `n` the dialogues
    /// held in the state and `N` those of the intention.
    pub fn probabilities(&self, intention: HiddenIntention, settings: &CurriculumSection) -> Vec<f64> {
        let cells = &self.cells[index(intention)];
        let total: f64 = cells.iter().map(|c| c.held).sum();
        let utility: Vec<f64> = (cells.iter().enumerate())
            .map(|(state, cell)| {
                let near = -(2.0 * self.pass_rate(intention, state) - 1.0).abs();
                settings.sharpness * near + settings.exploration * ((1.0 + total).ln() / (1.0 + cell.held)).sqrt()
            })
            .collect();
        let top = utility.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let raised: Vec<f64> = utility.iter().map(|u| (u - top).exp()).collect();
        let sum: f64 = raised.iter().sum();
        let uniform = settings.rehearsal / UserState::COUNT as f64;
        raised.iter().map(|e| uniform + (1.0 - settings.rehearsal) * e / sum).collect()
    }

    /// How evenly states are drawn, mean over intentions: 1 for uniformly, 0 for always the same one.
    pub fn entropy(&self, settings: &CurriculumSection) -> f64 {
        let of = |intention: &HiddenIntention| -> f64 {
            let terms = self.probabilities(*intention, settings).into_iter().filter(|p| *p > 0.0);
            -terms.map(|p| p * p.ln()).sum::<f64>() / (UserState::COUNT as f64).ln()
        };
        HiddenIntention::ALL.iter().map(of).sum::<f64>() / HiddenIntention::ALL.len() as f64
    }

    /// Draws the state for a dialogue or a group of them.
    pub fn draw(&self, intention: HiddenIntention, settings: &CurriculumSection, seed: u64) -> usize {
        let mut left: f64 = ChaCha8Rng::seed_from_u64(seed).random();
        let probabilities = self.probabilities(intention, settings);
        let found = probabilities.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        found.unwrap_or(UserState::COUNT - 1)
    }

    /// Takes in the dialogues of a step, as (intention, state, whether passed); what was seen before fades.
    pub fn record(
        &mut self,
        outcomes: impl IntoIterator<Item = (HiddenIntention, usize, bool)>,
        settings: &CurriculumSection,
    ) {
        for cell in self.cells.iter_mut().flatten() {
            cell.held *= settings.memory;
            cell.passed *= settings.memory;
        }
        for (intention, state, passed) in outcomes {
            let cell = &mut self.cells[index(intention)][state];
            cell.held += 1.0;
            cell.passed += f64::from(u8::from(passed));
        }
    }
}

fn index(intention: HiddenIntention) -> usize {
    HiddenIntention::ALL.iter().position(|i| *i == intention).expect("ALL holds every intention")
}
