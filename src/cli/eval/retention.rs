use std::path::Path;

use anyhow::Context;
use rlver::evaluate::retention::RetentionSet;
use rlver::evaluate::{AnswerSettings, NEUTRAL_SYSTEM, answer_questions};
use serde_json::{Value, json};

use super::Bench;
use crate::cli::Ended;

/// The sets `--retention` names.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<RetentionSet>> {
    let mut sets = Vec::new();
    for name in names {
        if name == "builtin" {
            sets.extend([RetentionSet::builtin_mathematics(), RetentionSet::builtin_instructions()]);
        } else {
            sets.push(RetentionSet::load(Path::new(name))?);
        }
    }
    Ok(sets)
}

pub(super) fn run(bench: &Bench<'_>, sets: &[RetentionSet]) -> anyhow::Result<Ended> {
    let settings = AnswerSettings {
        sampling: bench.settings.sampling,
        max_new_tokens: bench.settings.max_new_tokens,
        seed: bench.args.seed,
    };
    let (mut scores, mut answers) = (Vec::new(), Vec::new());
    for set in sets {
        let questions: Vec<&str> = set.items.iter().map(|item| item.prompt.as_str()).collect();
        let bar = indicatif::ProgressBar::new(questions.len() as u64);
        let mut engine = bench.engine(questions.len());
        let given =
            answer_questions(&bench.policy, &mut engine, &questions, settings, |done| bar.set_position(done as u64))?;
        bar.finish_and_clear();
        let checked = set.check(&given);
        scores.push(set.score(&checked));
        answers.extend(checked);
    }
    let mut written = bench.written();
    for key in ["system_zh", "system_en", "mode", "start_emotion", "max_turns", "seeds"] {
        written.remove(key);
    }
    written.insert("system".into(), NEUTRAL_SYSTEM.into());
    bench.write_json(&json!({ "retention": scores, "answers": answers, "settings": written }))?;
    for score in &scores {
        let a = score.accuracy;
        say!(
            "{}: {:.1} % [{:.1}, {:.1}] of {} tasks, {:.1} % of their parts",
            score.set,
            100.0 * a.mean,
            100.0 * a.low,
            100.0 * a.high,
            score.n,
            100.0 * score.parts
        );
    }
    Ok(Ended::Done)
}

/// A before/after table when both files are retention results; `None` when neither is.
pub(super) fn compare(first: &Path, second: &Path) -> anyhow::Result<Option<String>> {
    let (Some(a), Some(b)) = (read(first)?, read(second)?) else { return Ok(None) };
    let of = |scores: &[Value], set: &Value| {
        let score = scores.iter().find(|s| s["set"] == *set)?;
        Some((100.0 * score["accuracy"]["mean"].as_f64()?, 100.0 * score["parts"].as_f64()?))
    };
    let mut table = format!("{:<28} {:>8} {:>8} {:>8}   parts\n", "", "before", "after", "change");
    for score in &a {
        let set = &score["set"];
        let (Some((before, parts_before)), Some((after, parts_after))) = (of(&a, set), of(&b, set)) else { continue };
        let change = after - before;
        let name = set.as_str().unwrap_or_default();
        table.push_str(&format!(
            "{name:<28} {before:>6.1} % {after:>6.1} % {change:>+8.1}   {parts_before:.1} % to {parts_after:.1} %\n"
        ));
    }
    Ok(Some(table))
}

fn read(path: &Path) -> anyhow::Result<Option<Vec<Value>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let json: Value = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    Ok(json.get("retention").and_then(Value::as_array).cloned())
}
