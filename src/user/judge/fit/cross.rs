//! Fits that leave folds out, and what they say about the dialogues they have not seen.

use rayon::prelude::*;

use super::folds::{Folds, MODELS, PROFILES};
use super::logistic::{Coefficients, log_odds};
use super::{Kind, Material, Unseen, attacks};
use crate::user::builtin::Guard;
use crate::user::judge::Judge;
use crate::user::judge::figures::Compared;
use crate::user::judge::recorded::Recorded;

impl Material {
    /// Scores of every recorded reply by heads of each kind that saw neither its profile fold nor its model fold, nor (given
    /// `also`) those of that cell.
    pub(super) fn unseen<const N: usize>(&self, kinds: [Kind; N], also: Option<(usize, usize)>) -> [Vec<f64>; N] {
        let cells: Vec<(usize, usize)> =
            all_cells().filter(|c| also.is_none_or(|a| a.0 != c.0 && a.1 != c.1)).collect();
        let fits: Vec<[Coefficients; N]> = cells
            .par_iter()
            .map(|cell| {
                let keep = |i: usize| {
                    let (p, m) = self.cells[i];
                    p != cell.0 && m != cell.1 && also.is_none_or(|a| p != a.0 && m != a.1)
                };
                let target = self.targets(&keep);
                kinds.map(|kind| self.coefficients(kind, &keep, &target))
            })
            .collect();
        let mut scores = kinds.map(|_| vec![f64::NAN; self.rows.len()]);
        for (cell, fitted) in cells.iter().zip(&fits) {
            for ((scores, kind), fitted) in scores.iter_mut().zip(kinds).zip(fitted) {
                for i in (0..self.rows.len()).filter(|i| self.cells[*i] == *cell) {
                    scores[i] = log_odds(self.design(kind), i, fitted);
                }
            }
        }
        scores
    }

    /// What every recorded reply is predicted to do by a model fitted without its profile fold and, if so held, its model
    /// fold; cuts, history and gate of that model come from the dialogues it was fitted on, by cross-validation within them.
    ///
    /// `progress` is called after each cell.
    pub fn cross_validate(
        &self,
        dialogues: &[Recorded],
        held: Held,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Vec<(Compared, Option<Guard>)> {
        let cells: Vec<Cell> = match held {
            Held::ProfilesAndModels => {
                all_cells().map(|(profile, model)| Cell { profile, model: Some(model) }).collect()
            }
            Held::Profiles => (0..PROFILES).map(|profile| Cell { profile, model: None }).collect(),
        };
        let pairs = self.pair_fits(held);
        let done = std::sync::atomic::AtomicUsize::new(0);
        let mut compared: Vec<Vec<(Compared, Option<Guard>)>> = cells
            .par_iter()
            .map(|cell| {
                let mut context = vec![f64::NAN; self.rows.len()];
                for (with, fitted) in pairs.iter() {
                    let Some(other) = with.other(*cell) else { continue };
                    for i in (0..self.rows.len()).filter(|i| other.holds(self.cells[*i])) {
                        context[i] = log_odds(&self.context, i, fitted);
                    }
                }
                let none = vec![f64::NAN; self.rows.len()];
                let unseen = Unseen { plain: none.clone(), reply: none, context, share: held.share() };
                let judge = Judge::with(self.weights(&|i| cell.allows(self.cells[i]), unseen));
                let folds = Folds::of(dialogues);
                let own: Vec<(usize, &Recorded)> =
                    dialogues.iter().enumerate().filter(|(at, _)| cell.holds(folds.of[*at])).collect();
                let unseen_dialogues: Vec<Recorded> = own.iter().map(|(_, d)| (*d).clone()).collect();
                let result = judge.compare(&unseen_dialogues, &own.iter().map(|o| o.0).collect::<Vec<_>>());
                let n = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                progress(n, cells.len());
                result
            })
            .collect();
        let mut all: Vec<_> = compared.iter_mut().flat_map(std::mem::take).collect();
        all.sort_by_key(|c| c.0.dialogue);
        all
    }

    /// Context heads without two folds of what is held: what nested cross-validation needs, every fit once.
    fn pair_fits(&self, held: Held) -> Vec<(Pair, Coefficients)> {
        let two = |n: usize| (0..n).flat_map(move |a| (a + 1..n).map(move |b| [a, b]));
        let models: Vec<Option<[usize; 2]>> = match held {
            Held::ProfilesAndModels => two(MODELS).map(Some).collect(),
            Held::Profiles => vec![None],
        };
        let pairs: Vec<Pair> = two(PROFILES)
            .flat_map(|profiles| models.iter().map(move |models| Pair { profiles, models: *models }))
            .collect();
        pairs
            .into_par_iter()
            .map(|pair| {
                let keep = |i: usize| {
                    let (profile, model) = self.cells[i];
                    !pair.profiles.contains(&profile) && pair.models.is_none_or(|models| !models.contains(&model))
                };
                let fitted = self.coefficients(Kind::Context, &keep, &self.targets(&keep));
                (pair, fitted)
            })
            .collect()
    }

    /// A judge fitted without one fold of profiles and one of reply models.
    pub fn judge_without_a_cell(&self) -> Judge {
        let keep = |i: usize| self.cells[i].0 != 0 && self.cells[i].1 != 0;
        let [context] = self.unseen([Kind::Context], Some((0, 0)));
        let none = vec![f64::NAN; self.rows.len()];
        let share = Held::ProfilesAndModels.share();
        Judge::with(self.weights(&keep, Unseen { plain: none.clone(), reply: none, context, share }))
    }

    /// `judge` with a gate that has not seen a family.
    pub fn without_family(&self, judge: &Judge, family: attacks::Attack) -> Judge {
        let keep = |i: usize| self.cells[i].0 != 0 && self.cells[i].1 != 0;
        judge.with_gate(self.gate(&keep, Some(family)))
    }

    /// Whether a dialogue is in the fold that [`Material::judge_without_a_cell`] has not seen.
    pub fn held_out(dialogues: &[Recorded]) -> Vec<bool> {
        Folds::of(dialogues).of.iter().map(|cell| *cell == (0, 0)).collect()
    }
}

fn all_cells() -> impl Iterator<Item = (usize, usize)> {
    (0..PROFILES).flat_map(|p| (0..MODELS).map(move |m| (p, m)))
}

/// What a judge has not seen of the dialogues it is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Neither the person nor the reply model: what a policy in training is to its user.
    ProfilesAndModels,
    /// Not the person; other replies of the same model it has seen.
    Profiles,
}

impl Held {
    /// Share of the rows a cell's judge is fitted on that fits without two folds of each have seen.
    fn share(self) -> f64 {
        let of = |folds: usize| (folds - 2) as f64 / (folds - 1) as f64;
        match self {
            Held::ProfilesAndModels => of(PROFILES) * of(MODELS),
            Held::Profiles => of(PROFILES),
        }
    }
}

/// A profile fold and, where models are held out, a model fold.
#[derive(Clone, Copy)]
struct Cell {
    profile: usize,
    model: Option<usize>,
}

impl Cell {
    /// Whether a dialogue of this fold is one of the cell's.
    fn holds(self, (profile, model): (usize, usize)) -> bool {
        self.profile == profile && self.model.is_none_or(|m| m == model)
    }

    /// Whether a judge of this cell may have seen a dialogue of this fold.
    fn allows(self, (profile, model): (usize, usize)) -> bool {
        self.profile != profile && self.model.is_none_or(|m| m != model)
    }
}

/// Two profile folds and, where models are held out, two model folds that a fit leaves out.
struct Pair {
    profiles: [usize; 2],
    models: Option<[usize; 2]>,
}

impl Pair {
    /// The cell opposite to `cell`, when the pair leaves both out.
    fn other(&self, cell: Cell) -> Option<Cell> {
        let opposite = |pair: [usize; 2], one: usize| match pair {
            [a, b] if a == one => Some(b),
            [a, b] if b == one => Some(a),
            _ => None,
        };
        let model = match (self.models, cell.model) {
            (Some(pair), Some(model)) => Some(opposite(pair, model)?),
            _ => None,
        };
        Some(Cell { profile: opposite(self.profiles, cell.profile)?, model })
    }
}
