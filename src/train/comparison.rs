//! Finished runs side by side: a table and a picture.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Error;
use crate::metrics::{Metrics, MetricsLog, Series, learning_curve_svg};

/// Steps that a point of a curve is the mean of.
const SMOOTHED: usize = 5;

/// What a finished run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Held-out people before training: mean final emotion.
    pub before: f64,
    /// The same people after it.
    pub after: f64,
    /// Share of them that ended at 100.
    pub success: f64,
    /// Share of them that ended below 10.
    pub failure: f64,
    /// Mean length of a reply in the last steps.
    pub tokens_per_turn: f64,
    /// Dialogues trained on.
    pub dialogues: f64,
    /// Time of all steps in seconds, without evaluation.
    pub seconds: f64,
    /// Training dialogues so far and their mean final emotion over the last five steps, step by step.
    pub curve: Vec<(f64, f64)>,
}

impl RunResult {
    /// Whether a folder holds a run that was evaluated at its end.
    pub fn is_there(folder: &Path) -> bool {
        folder.join("eval-after.json").exists()
    }

    /// Reads a finished run's folder.
    ///
    /// # Errors
    /// When it is not a finished run, or its files are damaged.
    pub fn read(folder: &Path) -> Result<RunResult, Error> {
        let before = Evaluation::read(&folder.join("eval-before.json"))?;
        let after = Evaluation::read(&folder.join("eval-after.json"))?;
        let records: Vec<Metrics> =
            MetricsLog::read(folder.join("metrics.jsonl"))?.into_iter().filter(|m| m.step() > 0).collect();
        let last = &records[records.len().saturating_sub(SMOOTHED)..];
        let sum = |records: &[Metrics], key: &str| records.iter().filter_map(|m| m.get(key)).sum::<f64>();
        let (mut dialogues, mut curve) = (0.0, Vec::new());
        for at in 0..records.len() {
            dialogues += records[at].get("rollout/dialogues").unwrap_or(0.0);
            let window = &records[(at + 1).saturating_sub(SMOOTHED)..=at];
            let known = window.iter().filter_map(|m| m.get("emotion/mean"));
            let n = known.clone().count();
            if n > 0 {
                curve.push((dialogues, known.sum::<f64>() / n as f64));
            }
        }
        Ok(RunResult {
            before: before.emotion,
            after: after.emotion,
            success: after.success,
            failure: after.failure,
            tokens_per_turn: sum(last, "rollout/tokens_per_turn") / last.len().max(1) as f64,
            dialogues,
            seconds: sum(&records, "time/total_s"),
            curve,
        })
    }

    /// The first step, from 1, at which the last five steps' mean final emotion is `emotion` or more.
    pub fn steps_to(&self, emotion: f64) -> Option<usize> {
        (SMOOTHED.min(self.curve.len()).max(1)..=self.curve.len()).find(|step| self.curve[step - 1].1 >= emotion)
    }
}

struct Evaluation {
    emotion: f64,
    success: f64,
    failure: f64,
}

impl Evaluation {
    fn read(path: &PathBuf) -> Result<Evaluation, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::read(path, e))?;
        let damaged = |problem: String| Error::Damaged { path: path.clone(), problem };
        let json: Value = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        let number = |key: &str| json[key].as_f64().ok_or_else(|| damaged(format!("no number `{key}`")));
        Ok(Evaluation {
            emotion: number("mean_final_emotion")?,
            success: number("success_rate")?,
            failure: number("failure_rate")?,
        })
    }
}

/// A recipe's runs, one per seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Contestant {
    /// The recipe's name.
    pub name: String,
    /// One result per seed.
    pub results: Vec<RunResult>,
}

impl Contestant {
    /// Mean and, with several seeds, standard deviation (Bessel) of a number of its runs.
    fn over_seeds(&self, of: impl Fn(&RunResult) -> f64) -> (f64, Option<f64>) {
        let values: Vec<f64> = self.results.iter().map(of).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
    }
}

/// A Markdown table, one line per recipe: means over seeds, ± their standard deviation.
pub fn comparison_table(contestants: &[Contestant], goal: f64) -> String {
    let mut table = format!(
        "| recipe | seeds | held-out emotion before | after | success | failure | tokens/turn | steps to {goal} \
         | dialogues | minutes |\n|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for one in contestants.iter().filter(|c| !c.results.is_empty()) {
        let number = |(mean, deviation): (f64, Option<f64>), digits: usize| match deviation {
            Some(deviation) => format!("{mean:.digits$} ± {deviation:.digits$}"),
            None => format!("{mean:.digits$}"),
        };
        let percent = |of: fn(&RunResult) -> f64| number(one.over_seeds(|r| 100.0 * of(r)), 1) + " %";
        let reached: Vec<usize> = one.results.iter().filter_map(|r| r.steps_to(goal)).collect();
        let steps = match reached.len() {
            0 => "never".into(),
            n if n == one.results.len() => format!("{:.0}", reached.iter().sum::<usize>() as f64 / n as f64),
            n => format!("{:.0} ({n} of {})", reached.iter().sum::<usize>() as f64 / n as f64, one.results.len()),
        };
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} | {steps} | {:.0} | {} |",
            one.name,
            one.results.len(),
            number(one.over_seeds(|r| r.before), 1),
            number(one.over_seeds(|r| r.after), 1),
            percent(|r| r.success),
            percent(|r| r.failure),
            number(one.over_seeds(|r| r.tokens_per_turn), 1),
            one.over_seeds(|r| r.dialogues).0,
            number(one.over_seeds(|r| r.seconds / 60.0), 1),
        );
    }
    table
}

/// The learning curves, one per recipe: mean over seeds, against the dialogues trained on.
pub fn comparison_svg(contestants: &[Contestant]) -> String {
    let series: Vec<Series> = contestants
        .iter()
        .map(|one| {
            let steps = one.results.iter().map(|r| r.curve.len()).min().unwrap_or(0);
            let n = one.results.len() as f64;
            let mean =
                |step: usize, of: fn((f64, f64)) -> f64| one.results.iter().map(|r| of(r.curve[step])).sum::<f64>() / n;
            Series {
                name: one.name.clone(),
                points: (0..steps).map(|step| (mean(step, |p| p.0), mean(step, |p| p.1))).collect(),
            }
        })
        .collect();
    learning_curve_svg("Objectives side by side", &series, "training dialogues", "mean final emotion", None, &[])
}
