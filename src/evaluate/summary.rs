use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::bootstrap::{Interval, bootstrap_mean};
use crate::dialogue::{CharacterType, HiddenIntention, Language};
use crate::user::{Band, Emotion};

/// How one evaluated dialogue ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The profile's id; dialogues with the same one form a cluster.
    pub profile: String,
    /// What the simulated person secretly wanted.
    pub intention: HiddenIntention,
    /// Their main character type.
    pub character: CharacterType,
    /// The language spoken.
    pub language: Language,
    /// Emotion at the end, 0–100.
    pub final_emotion: u8,
    /// Replies given.
    pub turns: usize,
    /// Seed of the dialogue.
    pub seed: u64,
}

impl Outcome {
    fn band(&self) -> Option<Band> {
        Emotion::new(i64::from(self.final_emotion).min(100)).map(Emotion::band)
    }
}

/// Why outcomes cannot be summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SummaryError {
    /// No outcome at all.
    #[error("no dialogue to sum up: the profile set is empty or every dialogue stayed unscored")]
    Empty,
}

/// The scores of a set of dialogues, with bootstrap intervals over profiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Number of dialogues.
    pub n: usize,
    /// Mean emotion at the end, 0–100.
    pub mean_final_emotion: Interval,
    /// Share of dialogues that ended at 100.
    pub success_rate: Interval,
    /// Share of dialogues that ended below 10.
    pub failure_rate: Interval,
}

impl Scores {
    fn of(outcomes: &[&Outcome], seed: u64) -> Option<Scores> {
        let profiles: Vec<_> = outcomes.iter().map(|o| o.profile.as_str()).collect();
        let interval = |value: &dyn Fn(&Outcome) -> f64| {
            let values: Vec<_> = outcomes.iter().map(|o| value(o)).collect();
            bootstrap_mean(&values, Some(&profiles), seed)
        };
        let share = |band| interval(&|o: &Outcome| f64::from(u8::from(o.band() == Some(band))));
        Some(Scores {
            n: outcomes.len(),
            mean_final_emotion: interval(&|o: &Outcome| f64::from(o.final_emotion))?,
            success_rate: share(Band::S)?,
            failure_rate: share(Band::F)?,
        })
    }

    fn to_json(self) -> Map<String, Value> {
        let mut json = Map::new();
        for (name, interval) in [
            ("mean_final_emotion", self.mean_final_emotion),
            ("success_rate", self.success_rate),
            ("failure_rate", self.failure_rate),
        ] {
            json.insert(name.into(), json!(interval.mean));
            json.insert(format!("{name}_ci95"), json!([interval.low, interval.high]));
        }
        json.insert("n".into(), json!(self.n));
        json
    }
}

/// What an evaluation found: over all dialogues and per group. Groups nobody belongs to are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Over all dialogues.
    pub overall: Scores,
    /// Per hidden intention.
    pub by_intention: BTreeMap<HiddenIntention, Scores>,
    /// Per character type.
    pub by_character: BTreeMap<CharacterType, Scores>,
    /// Per language.
    pub by_language: BTreeMap<Language, Scores>,
}

impl Summary {
    /// Sums up outcomes; their order does not matter. `seed` is the bootstrap's.
    ///
    /// # Errors
    /// Without outcomes.
    pub fn new(outcomes: &[Outcome], seed: u64) -> Result<Summary, SummaryError> {
        let all: Vec<_> = outcomes.iter().collect();
        Ok(Summary {
            overall: Scores::of(&all, seed).ok_or(SummaryError::Empty)?,
            by_intention: grouped(&all, |o| o.intention, seed),
            by_character: grouped(&all, |o| o.character, seed),
            by_language: grouped(&all, |o| o.language, seed),
        })
    }

    /// The JSON of `rlver eval --json`: means and intervals (`…_ci95`), rates as shares.
    pub fn to_json(&self) -> Value {
        let mut json = self.overall.to_json();
        json.insert("by_intention".into(), group_json(&self.by_intention));
        json.insert("by_character_type".into(), group_json(&self.by_character));
        json.insert("by_language".into(), group_json(&self.by_language));
        json.into()
    }

    /// An aligned table for the terminal: scores with 95 % intervals, rates in percent.
    pub fn table(&self) -> String {
        let mut rows = vec![cells(["", "n", "final emotion", "95 %", "success", "95 %", "failure", "95 %"])];
        rows.extend(paired_rows(self, self).into_iter().map(|(label, scores)| {
            let mut row = vec![label];
            if let Some((Some(scores), _)) = scores {
                let range = |i: Interval, scale| format!("[{:.1}, {:.1}]", scale * i.low, scale * i.high);
                row.extend([scores.n.to_string(), format!("{:.1}", scores.mean_final_emotion.mean)]);
                row.push(range(scores.mean_final_emotion, 1.0));
                for rate in [scores.success_rate, scores.failure_rate] {
                    row.extend([percent(rate.mean), range(rate, 100.0)]);
                }
            }
            row
        }));
        aligned(&rows)
    }
}

/// An aligned table of two evaluations, with the change from `before` to `after` (of rates in percentage points).
pub fn before_after_table(before: &Summary, after: &Summary) -> String {
    let mut rows = vec![
        cells(["", "", "emotion", "", "", "success", "", "", "failure", "", ""]),
        cells(["", "n", "before", "after", "change", "before", "after", "change", "before", "after", "change"]),
    ];
    rows.extend(paired_rows(before, after).into_iter().map(|(label, scores)| {
        let mut row = vec![label];
        if let Some((before, after)) = scores {
            let n = |scores: Option<&Scores>| scores.map_or(0, |s| s.n);
            let (n_before, n_after) = (n(before), n(after));
            row.push(if n_before == n_after { n_after.to_string() } else { format!("{n_before} / {n_after}") });
            let mut column = |value: fn(&Scores) -> f64, show: fn(f64) -> String| {
                let (before, after) = (before.map(value), after.map(value));
                let change = before.zip(after).map(|(before, after)| signed(after - before));
                row.extend([before.map(show), after.map(show), change].map(|cell| cell.unwrap_or("–".into())));
            };
            column(|s| s.mean_final_emotion.mean, |v| format!("{v:.1}"));
            column(|s| 100.0 * s.success_rate.mean, |v| percent(v / 100.0));
            column(|s| 100.0 * s.failure_rate.mean, |v| percent(v / 100.0));
        }
        row
    }));
    aligned(&rows)
}

fn grouped<K: Ord>(outcomes: &[&Outcome], key: impl Fn(&Outcome) -> K, seed: u64) -> BTreeMap<K, Scores> {
    let mut groups: BTreeMap<K, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        groups.entry(key(outcome)).or_default().push(outcome);
    }
    groups.into_iter().filter_map(|(key, group)| Some((key, Scores::of(&group, seed)?))).collect()
}

fn group_json<K: Display>(groups: &BTreeMap<K, Scores>) -> Value {
    groups.iter().map(|(key, scores)| (key.to_string(), scores.to_json().into())).collect::<Map<_, Value>>().into()
}

/// Scores before and after; `None` where there was no such group.
type Pair<'a> = (Option<&'a Scores>, Option<&'a Scores>);

/// The rows of a table: labels with scores, and headings without.
fn paired_rows<'a>(before: &'a Summary, after: &'a Summary) -> Vec<(String, Option<Pair<'a>>)> {
    let mut rows = vec![("all".into(), Some((Some(&before.overall), Some(&after.overall))))];
    rows.extend(group_rows("by intention", &before.by_intention, &after.by_intention));
    rows.extend(group_rows("by character type", &before.by_character, &after.by_character));
    rows.extend(group_rows("by language", &before.by_language, &after.by_language));
    rows
}

fn group_rows<'a, K: Ord + Display>(
    heading: &str,
    before: &'a BTreeMap<K, Scores>,
    after: &'a BTreeMap<K, Scores>,
) -> Vec<(String, Option<Pair<'a>>)> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let rows = keys.into_iter().map(|key| (format!("  {key}"), Some((before.get(key), after.get(key)))));
    std::iter::once((heading.to_owned(), None)).chain(rows).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// One decimal with its sign; what rounds to zero has none of the negative.
fn signed(change: f64) -> String {
    format!("{change:+.1}").replace("-0.0", "+0.0")
}

pub(super) fn cells<const N: usize>(row: [&str; N]) -> Vec<String> {
    row.map(String::from).to_vec()
}

/// Lines of the rows: the first column to the left, the others to the right, two spaces apart.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..).map_while(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}
