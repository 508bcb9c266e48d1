//! Two evaluations of the same people, dialogue by dialogue: paired differences say more than two means, as people
//! differ far more than policies do.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

use serde::Serialize;
use serde_json::{Value, json};

use super::bootstrap::{Interval, bootstrap_mean};
use super::result::EvalResult;
use super::summary::{Outcome, aligned, cells};

/// Paired differences, second minus first, with 95 % bootstrap intervals over people.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Pairs.
    pub pairs: usize,
    /// Difference of the final emotions, in points.
    pub emotion: Interval,
    /// Difference of the success rates.
    pub success: Interval,
    /// Difference of the failure rates.
    pub failure: Interval,
    /// Pairs the second did better in.
    pub better: usize,
    /// Pairs the second did worse in.
    pub worse: usize,
}

/// What [`compare`] finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Over all pairs.
    pub overall: Difference,
    /// Per hidden intention, character type and language: heading, then rows.
    pub groups: Vec<(&'static str, BTreeMap<String, Difference>)>,
    /// Dialogues of either evaluation without a partner.
    pub unpaired: [usize; 2],
    /// Dialogues of either evaluation without a score.
    pub unscored: [usize; 2],
    /// Settings that differ: name, first value, second value. The model is expected to.
    pub differing: Vec<(String, Value, Value)>,
}

type Pair<'a> = (&'a Outcome, &'a Outcome);

/// Pairs the dialogues of two evaluations by profile and user seed (the n-th dialogue of a profile where seeds differ);
/// `None` when no two dialogues belong together.
pub fn compare(first: &EvalResult, second: &EvalResult, seed: u64) -> Option<Comparison> {
    let pairs = pair(&first.outcomes, &second.outcomes);
    let grouped = |key: &dyn Fn(&Outcome) -> String| {
        let mut groups: BTreeMap<String, Vec<Pair<'_>>> = BTreeMap::new();
        for pair in &pairs {
            groups.entry(key(pair.0)).or_default().push(*pair);
        }
        groups.into_iter().filter_map(|(name, pairs)| Some((name, difference(&pairs, seed)?))).collect()
    };
    Some(Comparison {
        overall: difference(&pairs, seed)?,
        groups: vec![
            ("by_intention", grouped(&|o| o.intention.to_string())),
            ("by_character_type", grouped(&|o| o.character.to_string())),
            ("by_language", grouped(&|o| o.language.to_string())),
        ],
        unpaired: [first.outcomes.len() - pairs.len(), second.outcomes.len() - pairs.len()],
        unscored: [first.unscored, second.unscored],
        differing: differing(first, second),
    })
}

fn pair<'a>(first: &'a [Outcome], second: &'a [Outcome]) -> Vec<Pair<'a>> {
    let mut free: HashMap<(&str, u64), Vec<&Outcome>> = HashMap::new();
    for outcome in second.iter().rev() {
        free.entry((&outcome.profile, outcome.seed)).or_default().push(outcome);
    }
    let (mut pairs, mut left) = (Vec::new(), Vec::new());
    for outcome in first {
        match free.get_mut(&(outcome.profile.as_str(), outcome.seed)).and_then(Vec::pop) {
            Some(partner) => pairs.push((outcome, partner)),
            None => left.push(outcome),
        }
    }
    // Other seeds: a person's n-th dialogue left here with their n-th left there.
    let taken: std::collections::HashSet<*const Outcome> = pairs.iter().map(|(_, b)| std::ptr::from_ref(*b)).collect();
    let mut rest: HashMap<&str, Vec<&Outcome>> = HashMap::new();
    for outcome in second.iter().rev().filter(|o| !taken.contains(&std::ptr::from_ref(*o))) {
        rest.entry(&outcome.profile).or_default().push(outcome);
    }
    for outcome in left {
        pairs.extend(rest.get_mut(outcome.profile.as_str()).and_then(Vec::pop).map(|partner| (outcome, partner)));
    }
    pairs
}

fn difference(pairs: &[Pair<'_>], seed: u64) -> Option<Difference> {
    let people: Vec<&str> = pairs.iter().map(|(a, _)| a.profile.as_str()).collect();
    let change = |value: &dyn Fn(&Outcome) -> f64| {
        let changes: Vec<f64> = pairs.iter().map(|(a, b)| value(b) - value(a)).collect();
        bootstrap_mean(&changes, Some(&people), seed)
    };
    let count = |test: fn(&Pair<'_>) -> bool| pairs.iter().filter(|pair| test(pair)).count();
    Some(Difference {
        pairs: pairs.len(),
        emotion: change(&|o| f64::from(o.final_emotion))?,
        success: change(&|o| f64::from(u8::from(o.final_emotion >= 100)))?,
        failure: change(&|o| f64::from(u8::from(o.final_emotion < 10)))?,
        better: count(|(a, b)| b.final_emotion > a.final_emotion),
        worse: count(|(a, b)| b.final_emotion < a.final_emotion),
    })
}

fn differing(first: &EvalResult, second: &EvalResult) -> Vec<(String, Value, Value)> {
    let keys: std::collections::BTreeSet<&String> = first.settings.keys().chain(second.settings.keys()).collect();
    let of = |result: &EvalResult, key: &str| result.settings.get(key).cloned().unwrap_or(Value::Null);
    keys.into_iter().map(|key| (key.clone(), of(first, key), of(second, key))).filter(|(_, a, b)| a != b).collect()
}

impl Comparison {
    /// The result as JSON.
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "overall": self.overall,
            "unpaired": self.unpaired,
            "unscored": self.unscored,
            "differing_settings": self.differing.iter().map(|(k, a, b)| json!([k, a, b])).collect::<Vec<_>>(),
        });
        for (heading, rows) in &self.groups {
            json[*heading] = json!(rows);
        }
        json
    }

    /// An aligned table for the terminal, and what to know before believing it.
    pub fn table(&self) -> String {
        let mut rows = vec![cells(["", "pairs", "emotion", "95 %", "success", "failure", "better", "worse"])];
        rows.push(row("all", &self.overall));
        for (heading, group) in &self.groups {
            rows.push(vec![heading.replace('_', " ")]);
            rows.extend(group.iter().map(|(name, difference)| row(format!("  {name}"), difference)));
        }
        let mut text = aligned(&rows);
        let [a, b] = self.unpaired;
        if a + b > 0 {
            text.push_str(&format!("\n{a} and {b} dialogues have no partner and are left out\n"));
        }
        let [a, b] = self.unscored;
        if a + b > 0 {
            text.push_str(&format!("\n{a} and {b} dialogues have no score: their user failed\n"));
        }
        if !self.differing.is_empty() {
            text.push_str("\nsettings that differ:\n");
            for (key, a, b) in &self.differing {
                text.push_str(&format!("  {key}: {a} and {b}\n"));
            }
        }
        text
    }
}

fn row(label: impl Display, d: &Difference) -> Vec<String> {
    let signed = |value: f64| format!("{value:+.1}").replace("-0.0", "+0.0");
    vec![
        label.to_string(),
        d.pairs.to_string(),
        signed(d.emotion.mean),
        format!("[{}, {}]", signed(d.emotion.low), signed(d.emotion.high)),
        format!("{} %", signed(100.0 * d.success.mean)),
        format!("{} %", signed(100.0 * d.failure.mean)),
        d.better.to_string(),
        d.worse.to_string(),
    ]
}
