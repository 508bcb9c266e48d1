//! Fitting the model to recorded judgements, and how well it does on dialogues it has not seen.
//!
//! Three linear heads by penalised logistic regression, cuts and history by what the heads say about dialogues they were
//! not fitted on, the gate by boosted trees on honest and edited replies. Everything is seeded: equal inputs, equal weights.

pub mod attacks;
mod boost;
mod coach;
mod cross;
mod folds;
mod logistic;
pub mod robust;
mod table;

use self::boost::{Binned, Boosting};
use self::coach::Example;
use self::folds::{Folds, MODELS, PROFILES};
use self::logistic::{Coefficients, Rows};
use self::table::Row;
use super::grams::BUCKETS;
use super::history::{History, INPUTS};
use super::reading::measure_names;
use super::recorded::Recorded;
use super::scorer::{STATE, band_index, cut, fingerprint};
use super::weights::{Gate, Head, Places, Weights};
use crate::dialogue::{Language, ProfileSet};
use crate::user::{Appraisal, Emotion};

/// Penalty of reply heads, per unit of standardised measure.
const PENALTY: f64 = 300.0;
/// Penalty of the context head, which has more to choose from.
const CONTEXT_PENALTY: f64 = 500.0;
/// Interactions are shrunk by this factor more than what they are made of.
const INTERACTION: f32 = 0.6;
/// Scale of the reply's n-grams, whose vectors have length one, beside standardised measures.
const GRAMS: f32 = 20.0;
/// The same for the answered line.
const LINE: f32 = 15.0;
/// How far the penalty of an n-gram follows how unevenly it occurs in rises and falls.
const UNEVEN: f64 = 0.5;
/// Weight of a scripted example beside a recorded reply.
const EXAMPLE: f64 = 0.35;
/// Newton-like steps of a fit; more change no figure's third digit.
const STEPS: usize = 40;
/// Share of honest replies the gate may refuse.
const FALSE_ALARMS: f64 = 0.0045;
const GATE: Boosting = Boosting { trees: 60, depth: 4, rate: 0.2, shrink: 5.0, least: 3.0 };

/// What the heads are fitted on.
pub struct Material {
    rows: Vec<Row>,
    examples: Vec<Example>,
    cells: Vec<(usize, usize)>,
    names: Vec<String>,
    /// One over each measure's standard deviation, and of the context's.
    scale: Vec<f32>,
    context_scale: Vec<f32>,
    plain: Rows,
    reply: Rows,
    context: Rows,
    target: Vec<f64>,
    weight: Vec<f64>,
    language: Vec<Language>,
}

/// Why nothing can be fitted.
#[derive(Debug, thiserror::Error)]
#[error(
    "dialogues of {people} profiles with {models} reply models are too few to hold some of both out; at least {} profiles and {} models are needed",
    4 * PROFILES,
    MODELS
)]
pub struct TooFew {
    people: usize,
    models: usize,
}

/// Which head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Reply,
    Context,
}

/// How sure a recorded change makes us that the reply was good.
fn target(change: i32) -> f64 {
    match change {
        6.. => 0.97,
        1..=5 => 0.8,
        -5..=0 => 0.2,
        _ => 0.03,
    }
}

fn inverse_deviation<'a>(rows: impl Iterator<Item = &'a [f32]> + Clone) -> Vec<f32> {
    let n = rows.clone().count() as f32;
    let size = rows.clone().next().map_or(0, <[f32]>::len);
    (0..size)
        .map(|i| {
            let mean = rows.clone().map(|r| r[i]).sum::<f32>() / n;
            let variance = rows.clone().map(|r| (r[i] - mean).powi(2)).sum::<f32>() / n;
            if variance < 1e-8 { 0.0 } else { 1.0 / variance.sqrt() }
        })
        .collect()
}

impl Material {
    /// Reads everything once.
    ///
    /// # Errors
    /// When there are too few profiles or reply models to hold some of both out.
    pub fn read(dialogues: &[Recorded], profiles: &ProfileSet) -> Result<Material, TooFew> {
        let distinct =
            |name: fn(&Recorded) -> &str| dialogues.iter().map(name).collect::<std::collections::BTreeSet<_>>().len();
        let (people, models) = (distinct(|d| &d.id), distinct(|d| &d.model));
        if people < 4 * PROFILES || models < MODELS {
            return Err(TooFew { people, models });
        }
        let rows = table::rows(dialogues);
        let examples = coach::examples(profiles);
        let folds = Folds::of(dialogues);
        let names = measure_names();
        let scale = inverse_deviation(rows.iter().map(|r| &r.measures[..]));
        let context_scale = inverse_deviation(rows.iter().map(|r| &r.context[..]));
        let mut material = Material {
            cells: rows.iter().map(|r| folds.of[r.dialogue]).collect(),
            target: rows.iter().map(|r| target(r.change)).chain(examples.iter().map(|e| e.target)).collect(),
            weight: rows.iter().map(|_| 1.0).chain(examples.iter().map(|_| EXAMPLE)).collect(),
            language: rows
                .iter()
                .map(|r| dialogues[r.dialogue].person.language)
                .chain(examples.iter().map(|e| e.language))
                .collect(),
            plain: Rows::new(names.len()),
            reply: Rows::new(names.len() + BUCKETS),
            context: Rows::new(names.len() + 2 * BUCKETS + context_scale.len()),
            rows,
            examples,
            names,
            scale,
            context_scale,
        };
        material.fill();
        Ok(material)
    }

    fn measure_scale(&self, i: usize) -> f32 {
        self.scale[i] * if self.names[i].contains(" x ") { INTERACTION } else { 1.0 }
    }

    fn fill(&mut self) {
        let n = self.names.len();
        let parts = self
            .rows
            .iter()
            .map(|r| (&r.measures, &r.grams, &r.line, &r.context))
            .chain(self.examples.iter().map(|e| (&e.measures, &e.grams, &e.line, &e.context)));
        let (mut plain, mut reply, mut context) =
            (Rows::new(n), Rows::new(n + BUCKETS), Rows::new(n + 2 * BUCKETS + self.context_scale.len()));
        for (measures, grams, line, around) in parts {
            let mut entries: Vec<(u32, f32)> =
                measures.iter().enumerate().map(|(i, v)| (i as u32, v * self.measure_scale(i))).collect();
            plain.push(entries.iter().copied());
            entries.extend(grams.iter().map(|(place, v)| (n as u32 + place, v * GRAMS)));
            reply.push(entries.iter().copied());
            let base = (n + BUCKETS) as u32;
            entries.extend(line.iter().map(|(place, v)| (base + place, v * LINE)));
            let base = base + BUCKETS as u32;
            entries.extend(around.iter().enumerate().map(|(i, v)| (base + i as u32, v * self.context_scale[i])));
            context.push(entries);
        }
        (self.plain, self.reply, self.context) = (plain, reply, context);
    }

    fn design(&self, kind: Kind) -> &Rows {
        match kind {
            Kind::Plain => &self.plain,
            Kind::Reply => &self.reply,
            Kind::Context => &self.context,
        }
    }

    /// Rows of recorded replies that `keep` keeps, and all examples a head can read.
    fn chosen(&self, kind: Kind, keep: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let known = |i: &usize| kind == Kind::Plain || self.language[*i] == Language::Zh;
        let recorded = (0..self.rows.len()).filter(|i| keep(*i));
        recorded.chain(self.rows.len()..self.target.len()).filter(known).collect()
    }

    fn coefficients(&self, kind: Kind, keep: &dyn Fn(usize) -> bool) -> Coefficients {
        let chosen = self.chosen(kind, keep);
        let n = self.names.len();
        let uneven = if kind == Kind::Plain { Vec::new() } else { self.unevenness(&chosen) };
        let base = if kind == Kind::Context { CONTEXT_PENALTY } else { PENALTY };
        let penalty = |i: usize| match i.checked_sub(n).and_then(|i| uneven.get(i)) {
            Some(uneven) => base / (1.0 - UNEVEN + UNEVEN * uneven),
            None => base,
        };
        logistic::fit(self.design(kind), &chosen, &self.target, &self.weight, &penalty, STEPS)
    }

    /// For each place of the reply's n-grams and then of the line's: how much more unevenly it falls on good and bad
    /// replies than chance would have it (a chi-square with a prior, at most 8).
    fn unevenness(&self, chosen: &[usize]) -> Vec<f64> {
        let mut counts = vec![(0.0f64, 0.0f64); 2 * BUCKETS];
        let (mut good, mut all) = (0.0, 0.0);
        for &i in chosen {
            let (grams, line) = match self.rows.get(i) {
                Some(row) => (&row.grams, &row.line),
                None => (&self.examples[i - self.rows.len()].grams, &self.examples[i - self.rows.len()].line),
            };
            let (weight, share) = (self.weight[i], self.weight[i] * self.target[i]);
            let places = grams.iter().map(|g| g.0 as usize).chain(line.iter().map(|g| BUCKETS + g.0 as usize));
            places.for_each(|place| {
                counts[place].0 += share;
                counts[place].1 += weight;
            });
            good += share;
            all += weight;
        }
        let rate = good / all;
        counts
            .iter()
            .map(|(good, all)| {
                let expected = all * rate;
                ((good - expected).powi(2) / (expected * (1.0 - rate) + 5.0)).min(8.0)
            })
            .collect()
    }

    fn head(&self, kind: Kind, coefficients: &Coefficients) -> Head {
        let n = self.names.len();
        let places = |from: usize, scale: f32| {
            Places(coefficients[from..from + BUCKETS].iter().map(|c| *c as f32 * scale).collect())
        };
        let round = |v: f32| (v * 1e4).round() / 1e4;
        let mut head = Head {
            intercept: coefficients[coefficients.len() - 1] as f32,
            measures: (0..n).map(|i| round(coefficients[i] as f32 * self.measure_scale(i))).collect(),
            ..Head::default()
        };
        if kind != Kind::Plain {
            head.grams = places(n, GRAMS);
        }
        if kind == Kind::Context {
            head.line = places(n + BUCKETS, LINE);
            let base = n + 2 * BUCKETS;
            head.context =
                self.context_scale.iter().enumerate().map(|(i, s)| round(coefficients[base + i] as f32 * s)).collect();
        }
        head
    }

    /// Fits everything on the recorded replies that `keep` keeps; `unseen` are scores of the three heads for them, each
    /// from heads that had not seen their profile or reply model.
    fn weights(&self, keep: &dyn Fn(usize) -> bool, unseen: &Unseen) -> Weights {
        let [mut plain, mut reply, mut context] =
            [(Kind::Plain, &unseen.plain), (Kind::Reply, &unseen.reply), (Kind::Context, &unseen.context)].map(
                |(kind, scores)| {
                    let mut head = self.head(kind, &self.coefficients(kind, keep));
                    let kept: Vec<usize> =
                        (0..self.rows.len()).filter(|i| keep(*i) && scores[*i].is_finite()).collect();
                    if !kept.is_empty() {
                        let shift = self.shift(&kept, scores);
                        head.intercept -= shift as f32;
                        head.ten = self.cuts(&kept, scores, shift);
                    }
                    (head, kept)
                },
            );
        if unseen.plain.iter().all(|s| !s.is_finite()) {
            plain.0.ten = context.0.ten;
            reply.0.ten = context.0.ten;
        }
        let kept = std::mem::take(&mut context.1);
        let shift = self.shift(&kept, &unseen.context);
        Weights {
            measures: fingerprint(&self.names),
            history: self.history(&kept, &unseen.context, shift, &context.0.ten),
            state: self.state(keep),
            gate: self.gate(keep, None),
            plain: plain.0,
            reply: reply.0,
            context: context.0,
        }
    }

    /// What to take off the scores for as many rises as were recorded.
    fn shift(&self, kept: &[usize], scores: &[f64]) -> f64 {
        let rises = kept.iter().filter(|i| self.rows[**i].change > 0).count();
        let mut sorted: Vec<f64> = kept.iter().map(|i| scores[*i]).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[(sorted.len() - rises).min(sorted.len() - 1)]
    }

    /// |score| beyond which a change is 10, so that in free running each band and direction has the recorded share.
    fn cuts(&self, kept: &[usize], scores: &[f64], shift: f64) -> [[f32; 2]; 3] {
        let mut share = [[(0.0f64, 0.0f64); 2]; 3];
        for &i in kept {
            let row = &self.rows[i];
            let emotion = Emotion::new(((row.state[0] * 50.0).round() as i64 + 50).clamp(0, 100)).expect("clamped");
            let entry = &mut share[band_index(emotion.band())][usize::from(row.change > 0)];
            entry.0 += f64::from(u8::from(row.change.abs() > 5));
            entry.1 += 1.0;
        }
        let mut ten = [[1.0f32; 2]; 3];
        // The cuts decide which bands a dialogue passes through, and those decide the cuts: a few rounds settle it.
        for _ in 0..6 {
            let mut sizes: [[Vec<f32>; 2]; 3] = Default::default();
            let (mut dialogue, mut own) = (usize::MAX, 40i32);
            for &i in kept {
                if self.rows[i].dialogue != dialogue {
                    (dialogue, own) = (self.rows[i].dialogue, 40);
                }
                let score = (scores[i] - shift) as f32;
                let emotion = Emotion::new(i64::from(own)).expect("kept within the scale");
                sizes[band_index(emotion.band())][usize::from(score > 0.0)].push(score.abs());
                own = emotion
                    .after(&Appraisal { change: cut(&ten, score, emotion), ..Appraisal::default() })
                    .score()
                    .into();
            }
            for (band, row) in sizes.iter_mut().enumerate() {
                for (rise, sizes) in row.iter_mut().enumerate() {
                    let (large, all) = share[band][rise];
                    if sizes.is_empty() || all == 0.0 {
                        continue;
                    }
                    sizes.sort_unstable_by(f32::total_cmp);
                    let at = ((1.0 - large / all) * sizes.len() as f64).round() as usize;
                    ten[band][rise] = sizes.get(at).copied().unwrap_or_else(|| sizes[sizes.len() - 1] + 1.0);
                }
            }
        }
        ten
    }

    fn history(&self, kept: &[usize], scores: &[f64], shift: f64, ten: &[[f32; 2]; 3]) -> Vec<f32> {
        let mut rows = Rows::new(INPUTS);
        let (mut target, mut dialogue, mut history, mut own, mut recorded) =
            (Vec::new(), usize::MAX, History::default(), 40, 40);
        for &i in kept {
            let row = &self.rows[i];
            if row.dialogue != dialogue {
                (dialogue, history, own, recorded) = (row.dialogue, History::default(), 40, 40);
            }
            let score = (scores[i] - shift) as f32;
            rows.push(history.inputs(score).into_iter().enumerate().map(|(i, v)| (i as u32, v)));
            target.push(f64::from(u8::from(row.change > 0)));
            let emotion = Emotion::new(own).expect("kept within the scale");
            let change = cut(ten, score, emotion);
            own = emotion.after(&Appraisal { change, ..Appraisal::default() }).score().into();
            recorded += i64::from(row.change);
            history.happened(score, row.change, change.into(), (recorded - own) as i32);
        }
        let all: Vec<usize> = (0..rows.len()).collect();
        let found = logistic::fit(&rows, &all, &target, &vec![1.0; all.len()], &|_| 1.0, 200);
        found[..INPUTS].iter().map(|c| *c as f32).collect()
    }

    fn state(&self, keep: &dyn Fn(usize) -> bool) -> Vec<f32> {
        let mut rows = Rows::new(STATE);
        let mut target = Vec::new();
        for row in self.rows.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, r)| r) {
            rows.push(row.state.iter().enumerate().map(|(i, v)| (i as u32, *v)));
            target.push(f64::from(u8::from(row.change > 0)));
        }
        let all: Vec<usize> = (0..rows.len()).collect();
        logistic::fit(&rows, &all, &target, &vec![1.0; all.len()], &|_| 1.0, 200).iter().map(|c| *c as f32).collect()
    }

    /// Fits the gate on honest replies and their edits, without those of `left_out`. The threshold comes from replies
    /// whose profiles the trees have not seen.
    fn gate(&self, keep: &dyn Fn(usize) -> bool, left_out: Option<attacks::Attack>) -> Gate {
        let mut samples: Vec<(&[f32], f64, f64, usize)> = Vec::new();
        let recorded = self
            .rows
            .iter()
            .enumerate()
            .filter(|(i, _)| keep(*i))
            .map(|(i, r)| (&r.gate, &r.edits, self.cells[i].0, 1.0));
        let written = self.examples.iter().enumerate().map(|(i, e)| (&e.gate, &e.edits, i % PROFILES, 1.5));
        for (gate, edits, fold, weight) in recorded.chain(written) {
            samples.push((gate, 0.0, weight, fold));
            let kept = edits.iter().filter(|(attack, _)| Some(*attack) != left_out);
            samples.extend(kept.map(|(_, edited)| (&edited[..], 1.0, 1.0, fold)));
        }
        let measures: Vec<&[f32]> = samples.iter().map(|s| s.0).collect();
        let binned = Binned::of(&measures, measures[0].len());
        let target: Vec<f64> = samples.iter().map(|s| s.1).collect();
        let weight: Vec<f64> = samples.iter().map(|s| s.2).collect();
        let fit = |chosen: &[usize]| boost::fit(&binned, chosen, &target, &weight, &|_| 0.0, GATE);
        let mut honest: Vec<f32> = Vec::new();
        // Two folds tell the threshold; the others would tell the same.
        for fold in 0..2 {
            let chosen: Vec<usize> = (0..samples.len()).filter(|i| samples[*i].3 != fold).collect();
            let trees = fit(&chosen);
            let unseen = samples.iter().filter(|s| s.3 == fold && s.1 == 0.0);
            honest.extend(unseen.map(|s| super::trees::sum(&trees, s.0)));
        }
        honest.sort_unstable_by(f32::total_cmp);
        let at = ((1.0 - FALSE_ALARMS) * honest.len() as f64) as usize;
        let threshold = honest.get(at).or(honest.last()).copied().unwrap_or(0.0);
        let all: Vec<usize> = (0..samples.len()).collect();
        let mut trees = fit(&all);
        for value in trees.iter_mut().flat_map(|t| &mut t.leaf) {
            *value = (*value * 1e4).round() / 1e4;
        }
        Gate { trees, threshold }
    }

    /// The weights to ship, fitted on everything.
    pub fn fit(&self) -> Weights {
        let [plain, reply, context] = [Kind::Plain, Kind::Reply, Kind::Context].map(|kind| self.unseen(kind, None));
        self.weights(&|_| true, &Unseen { plain, reply, context })
    }
}

/// Scores by heads that had not seen the reply; `NaN` where there is none.
struct Unseen {
    plain: Vec<f64>,
    reply: Vec<f64>,
    context: Vec<f64>,
}
