use std::collections::HashSet;

use plotly::Plot;
use serde_json::{Map, Value, json};

use super::digest::{Digest, Ending};
use super::error::ReportError;
use super::run::{RunDigest, summary};
use super::sample::{self, Place, Sample};
use super::{charts, view};
use crate::dialogue::{CharacterType, HiddenIntention};
use crate::evaluate::{Interval, Scores};
use crate::train::Stage;

const STYLE: &str = include_str!("page/report.css");
const SCRIPT: &str = include_str!("page/report.js");
const BODY: &str = include_str!("page/report.html");

/// Bytes of token numbers a page carries at most; dialogues beyond keep their text and lose the numbers.
const TOKEN_BYTES: usize = 12 << 20;

/// What a page is made of beside the runs.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions {
    /// Most dialogues the page carries; of more, a sample is taken and the page says so.
    pub max_dialogues: usize,
    /// Whether the page asks its server for news.
    pub live: bool,
}

impl Default for ReportOptions {
    fn default() -> ReportOptions {
        ReportOptions { max_dialogues: 400, live: false }
    }
}

/// A finished page.
#[derive(Debug, Clone)]
pub struct Report {
    /// The whole HTML file.
    pub html: String,
    /// Dialogues in it.
    pub shown: usize,
    /// Dialogues of the runs.
    pub total: usize,
}

/// Makes the page about `runs`.
///
/// # Errors
/// When an episode that was listed cannot be read any more.
pub fn render(runs: &[RunDigest], options: &ReportOptions) -> Result<Report, ReportError> {
    let (data, shown, total) = data(runs, options)?;
    let names: Vec<&str> = runs.iter().map(|r| r.name.as_str()).collect();
    let connect = if options.live { "'self'" } else { "'none'" };
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
         style-src 'unsafe-inline'; img-src data: blob:; connect-src {connect}\">\n\
         <title>{title} · rlver report</title>\n<style>{STYLE}</style>\n</head>\n{BODY}\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script type=\"text/plain\" id=\"plotly\">{plotly}</script>\n<script>{SCRIPT}</script>\n</html>\n",
        title = escape(&names.join(", ")),
        data = in_script(&data),
        plotly = plotly_script(),
    );
    Ok(Report { html, shown, total })
}

/// The page's data alone, as a live page asks for it.
pub(super) fn render_data(runs: &[RunDigest], options: &ReportOptions) -> Result<String, ReportError> {
    data(runs, options).map(|(data, ..)| data.to_string())
}

/// plotly.js as its crate embeds it, without the formula renderer that comes with it: no label here is a formula.
fn plotly_script() -> String {
    let sources = Plot::offline_js_sources();
    let inside = sources.split_once('>').and_then(|(_, rest)| rest.split_once("</script>"));
    inside.map(|(script, _)| script.to_string()).unwrap_or_default()
}

/// JSON that cannot end the script element it stands in.
fn in_script(json: &Value) -> String {
    json.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn data(runs: &[RunDigest], options: &ReportOptions) -> Result<(Value, usize, usize), ReportError> {
    let sample = sample::choose(runs, options.max_dialogues);
    let mut notes = Vec::new();
    let dialogues = dialogues(runs, &sample, &mut notes)?;
    let shown = dialogues.len();
    if shown < sample.total {
        notes.insert(
            0,
            format!(
                "{shown} of {} dialogues are in this page: the best, the worst and the most improved, and from every step \
                 its best, its worst and others evenly spread over its final emotions. Charts count all dialogues.",
                sample.total
            ),
        );
    }
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "live": options.live,
        "runs": runs.iter().map(about).collect::<Vec<_>>(),
        "sections": charts::sections(runs),
        "dialogues": dialogues,
        "best": ids(runs, &sample.best),
        "worst": ids(runs, &sample.worst),
        "improved": sample.improved.iter().map(|(a, b)| ids(runs, &[*a, *b])).collect::<Vec<_>>(),
        "endings": Ending::ALL.map(Ending::name),
        "intentions": HiddenIntention::ALL.map(HiddenIntention::name),
        "characters": CharacterType::ALL.map(|c| c.to_string()),
        "notes": notes,
    });
    Ok((value, shown, sample.total))
}

/// The dialogue's name within the page; it stays the same while a run grows.
fn id(runs: &[RunDigest], place: Place) -> String {
    let stem = runs[place.0].digests[place.1].path.file_stem().unwrap_or_default().to_string_lossy();
    format!("{}.{stem}.{}", place.0, place.2)
}

fn ids(runs: &[RunDigest], places: &[Place]) -> Vec<String> {
    places.iter().map(|place| id(runs, *place)).collect()
}

fn dialogues(runs: &[RunDigest], sample: &Sample, notes: &mut Vec<String>) -> Result<Vec<Value>, ReportError> {
    let episodes = sample::load(runs, &sample.places)?;
    let mut views: Vec<Value> = sample
        .places
        .iter()
        .zip(&episodes)
        .map(|(place, episode)| {
            let run = &runs[place.0];
            view::dialogue(&id(runs, *place), place.0, run.digests[place.1].stage, episode, run.tokens.as_ref())
        })
        .collect();
    let first: HashSet<Place> = sample
        .best
        .iter()
        .chain(&sample.worst)
        .chain(sample.improved.iter().flat_map(|(early, late)| [early, late]))
        .copied()
        .collect();
    let mut order: Vec<usize> = (0..views.len()).collect();
    order.sort_by_key(|i| !first.contains(&sample.places[*i]));
    let (mut bytes, mut bare) = (0, 0);
    for i in order {
        let turns = views[i]["turns"].as_array_mut().expect("a view has turns");
        let size: usize = turns.iter().filter_map(|t| t.get("tk")).map(|tk| tk.to_string().len()).sum();
        if bytes + size > TOKEN_BYTES {
            turns.iter_mut().filter_map(Value::as_object_mut).for_each(|turn| drop(turn.remove("tk")));
            bare += 1;
        } else {
            bytes += size;
        }
    }
    if bare > 0 {
        notes.push(format!("{bare} long dialogues are here without their tokens' numbers, to keep the page small."));
    }
    Ok(views)
}

/// A run's header: facts and figures.
fn about(run: &RunDigest) -> Value {
    let mut facts: Vec<(&str, String)> = Vec::new();
    for (label, section, key) in [
        ("algorithm", "run", "algorithm"),
        ("policy", "model", "policy"),
        ("user", "user", "engine"),
        ("mode", "rollout", "mode"),
        ("dialogues a step", "rollout", "dialogues"),
        ("learning rate", "optimizer", "lr"),
        ("seed", "run", "seed"),
        ("device", "run", "device"),
    ] {
        facts.extend(run.key(section, key).map(|value| (label, value)));
    }
    let done = run.metrics.iter().map(|m| m.step()).max().unwrap_or(0);
    let planned = run.key("run", "steps").and_then(|s| s.parse::<u64>().ok());
    let steps = match planned {
        Some(planned) if planned > done => format!("{done} of {planned}"),
        _ => done.to_string(),
    };
    let unscored: usize =
        run.digests.iter().flat_map(|d| &d.dialogues).filter(|b| b.ending == Ending::Unscored).count();
    let seconds: f64 = run.metrics.iter().filter_map(|m| m.get("time/total_s")).filter(|s| s.is_finite()).sum();
    let mut figures = figures(run);
    figures.push(json!({ "label": "steps", "value": steps, "detail": crate::metrics::human_duration(seconds) }));
    if unscored > 0 {
        figures.push(json!({ "label": "unscored dialogues", "value": unscored.to_string(), "detail": "their user failed; left out of every score" }));
    }
    let mut value = Map::new();
    value.insert("name".into(), json!(run.name));
    value.insert("facts".into(), json!(facts));
    value.insert("figures".into(), figures.into());
    value.into()
}

fn figures(run: &RunDigest) -> Vec<Value> {
    let Some([(early, first), (late, last)]) = run.ends() else {
        return run.stage(Stage::Before).map(|d| alone("before training", &[d])).unwrap_or_default();
    };
    let (Some(before), Some(after)) = (summary(&first), summary(&last)) else { return Vec::new() };
    let pair = |label: &str, value: fn(&Scores) -> Interval, scale: f64, unit: &str, better: f64| {
        let (a, b) = (value(&before.overall), value(&after.overall));
        let change = scale * (b.mean - a.mean);
        json!({
            "label": label,
            "value": format!("{:.1}{unit}", scale * b.mean),
            "from": format!("{:.1}{unit}", scale * a.mean),
            "change": format!("{change:+.1}").replace("-0.0", "+0.0"),
            "good": (change.abs() >= 0.05).then_some(change * better > 0.0),
            "detail": format!("{late}, 95 % [{:.1}, {:.1}]; compared with {early}", scale * b.low, scale * b.high),
        })
    };
    vec![
        pair("final emotion", |s| s.mean_final_emotion, 1.0, "", 1.0),
        pair("success", |s| s.success_rate, 100.0, " %", 1.0),
        pair("failure", |s| s.failure_rate, 100.0, " %", -1.0),
    ]
}

fn alone(label: &str, digests: &[&Digest]) -> Vec<Value> {
    summary(digests)
        .map(|s| {
            let emotion = s.overall.mean_final_emotion;
            json!({ "label": "final emotion", "value": format!("{:.1}", emotion.mean), "detail": format!("{label}; 95 % [{:.1}, {:.1}]", emotion.low, emotion.high) })
        })
        .into_iter()
        .collect()
}
