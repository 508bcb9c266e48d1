use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rlver::evaluate::NEUTRAL_SYSTEM;
use rlver::evaluate::retention::{CodeRunner, RetentionSet};
use serde_json::{Value, json};

use super::{Args, Bench};
use crate::cli::Ended;

/// The sets `--retention` names, and what runs their programs.
pub(super) struct Chosen {
    sets: Vec<RetentionSet>,
    runner: Option<CodeRunner>,
}

/// Reads what `--retention` and `--run-code` ask for; `None` without them.
pub(super) fn chosen(args: &Args) -> anyhow::Result<Option<Chosen>> {
    if args.retention.is_empty() {
        return Ok(None);
    }
    let limit = Duration::try_from_secs_f64(args.run_seconds).ok().filter(|limit| !limit.is_zero());
    let limit = limit.with_context(|| format!("--run-seconds {} must be more than 0", args.run_seconds))?;
    let runner = args.run_code.as_deref().map(|command| CodeRunner::new(command, limit)).transpose()?;
    let mut sets = Vec::new();
    for name in &args.retention {
        if name == "builtin" {
            sets.extend([RetentionSet::builtin_mathematics(), RetentionSet::builtin_instructions()]);
            sets.extend(runner.is_some().then(RetentionSet::builtin_programs));
        } else {
            sets.push(RetentionSet::load(Path::new(name))?);
        }
    }
    if let (Some(set), None) = (sets.iter().find(|set| set.runs_code()), &runner) {
        anyhow::bail!(
            "{} asks for programs, and checking them runs what the policy wrote: allow it with --run-code and the command \
             that runs one, such as --run-code \"python3 {{file}}\"; prefer a command that locks programs in",
            set.name
        );
    }
    Ok(Some(Chosen { sets, runner }))
}

pub(super) fn run(bench: &Bench<'_>, chosen: &Chosen) -> anyhow::Result<Ended> {
    let (mut scores, mut answers) = (Vec::new(), Vec::new());
    for set in &chosen.sets {
        let questions: Vec<&str> = set.items.iter().map(|item| item.prompt.as_str()).collect();
        let checked = set.check(&bench.answer(&questions)?, chosen.runner.as_ref())?;
        scores.push(set.score(&checked));
        answers.extend(checked);
    }
    bench.tell_usage();
    let mut written = bench.written();
    for key in ["system_zh", "system_en", "mode", "start_emotion", "max_turns", "seeds"] {
        written.remove(key);
    }
    written.insert("system".into(), NEUTRAL_SYSTEM.into());
    if let Some(command) = &bench.args.run_code {
        written.insert("run_code".into(), command.clone().into());
        written.insert("run_seconds".into(), bench.args.run_seconds.into());
    }
    bench.write_json(&json!({ "retention": scores, "answers": answers, "settings": written }))?;
    for score in &scores {
        let a = score.accuracy;
        let skipped = match score.skipped {
            0 => String::new(),
            n => format!("; {n} tasks that call functions were not asked"),
        };
        say!(
            "{}: {:.1} % [{:.1}, {:.1}] of {} tasks, {:.1} % of their parts{skipped}",
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
