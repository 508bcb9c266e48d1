//! What replies do: strategies by step and what follows them, and how varied replies are.

use plotly::common::DashType;
use plotly::layout::{Axis, HoverMode};
use plotly::traces::HeatMap;
use plotly::{Layout, Plot};
use serde_json::json;

use super::{Chart, Section, colour, line, plain};
use crate::dialogue::Strategy;
use crate::evaluate::diversity::Diversity;
use crate::evaluate::strategy::{RlverGroup, StrategyTable, rlver_group};
use crate::report::digest::Digest;
use crate::report::run::{RunDigest, span};

/// Most columns of a heat map; more steps share one.
const COLUMNS: usize = 40;

pub(super) fn section(runs: &[RunDigest]) -> Section {
    let mut charts = Vec::new();
    for run in runs {
        charts.extend(heat_maps(run, runs.len() > 1));
    }
    charts.extend(measure(
        runs,
        "Variety",
        "Share of distinct bigrams (higher is more varied) and self-BLEU (lower is more varied) of a step's replies.",
        "share",
        &[
            ("distinct-2", DashType::Solid, |d| d.diversity.distinct_2),
            ("self-BLEU", DashType::Dash, |d| d.diversity.self_bleu),
        ],
    ));
    charts.extend(measure(runs, "Repetition of strategies", "SSRR: how alike the strategies of adjacent replies are; SAGE calls less than 0.4 acceptable. Alignment scores are ours.", "similarity", &[
        ("SSRR", DashType::Solid, |d| d.repetition),
    ]));
    charts.extend(measure(
        runs,
        "Length of replies",
        "Characters (Chinese) or words (English).",
        "length",
        &[("length", DashType::Solid, |d| Some(d.diversity.length).filter(|_| d.diversity != Diversity::default()))],
    ));
    charts.extend(measure(
        runs,
        "Language drift",
        "Share of replies mostly in another language than the user's.",
        "share",
        &[("wrong language", DashType::Solid, |d| Some(d.diversity.wrong_language))],
    ));
    Section {
        id: "behaviour",
        title: "What the replies do",
        note: "Strategies as the built-in recogniser reads them from cues: an estimate. The first eleven rows are RLVER's \
               taxonomy, grouped as in its Table 4; the others are ours. Contribution is the mean change of the emotion \
               right after a reply that uses the strategy."
            .into(),
        charts,
    }
}

/// Rows of the heat maps from bottom to top, with the names shown.
fn rows(total: &StrategyTable<Strategy>) -> Vec<(Strategy, String)> {
    let used = Strategy::ALL.into_iter().filter(|s| rlver_group(*s).is_some() || total.usage(*s).replies > 0);
    let mut rows: Vec<(Strategy, String)> = used.map(|s| (s, name(s))).collect();
    rows.reverse();
    rows
}

fn name(strategy: Strategy) -> String {
    let own = serde_json::to_value(strategy).ok().and_then(|v| v.as_str().map(|s| s.replace('-', " ")));
    let own = own.unwrap_or_default();
    match rlver_group(strategy) {
        Some(RlverGroup::DeepEmpathy) => format!("empathy · {own}"),
        Some(RlverGroup::EmotionalVenting) => format!("venting · {own}"),
        Some(RlverGroup::Praise) => own.replacen("praise", "praise ·", 1),
        Some(group) if group.name() == own => own,
        Some(group) => format!("{} · {own}", group.name()),
        None => own,
    }
}

fn heat_maps(run: &RunDigest, named: bool) -> Vec<Chart> {
    let steps = run.steps();
    if steps.is_empty() {
        return Vec::new();
    }
    let bins: Vec<&[&Digest]> = steps.chunks(steps.len().div_ceil(COLUMNS)).collect();
    let tables: Vec<StrategyTable<Strategy>> = bins
        .iter()
        .map(|bin| {
            let mut table = StrategyTable::default();
            bin.iter().for_each(|digest| table.merge(&digest.strategies));
            table
        })
        .collect();
    let mut total = StrategyTable::default();
    tables.iter().for_each(|t| total.merge(t));
    let rows = rows(&total);
    let columns: Vec<String> = bins.iter().map(|bin| span(bin).replace("steps ", "").replace("step ", "")).collect();
    let labels: Vec<String> = rows.iter().map(|(_, name)| name.clone()).collect();
    let cells = |value: &dyn Fn(&StrategyTable<Strategy>, Strategy) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        rows.iter().map(|(s, _)| tables.iter().map(|t| value(t, *s)).collect()).collect()
    };
    let hover: Vec<Vec<String>> = rows
        .iter()
        .map(|(s, _)| {
            let text = |t: &StrategyTable<Strategy>| {
                let (usage, share) = (t.usage(*s), t.frequency(*s).unwrap_or(0.0));
                let follows = usage.contribution().map_or("–".into(), |c| format!("{c:+.2}"));
                format!("{} of {} replies ({:.1} %), then {follows}", usage.replies, t.replies(), 100.0 * share)
            };
            tables.iter().map(text).collect()
        })
        .collect();
    let map = |z: Vec<Vec<Option<f64>>>| {
        HeatMap::new(columns.clone(), labels.clone(), z)
            .hover_template("%{y}<br>steps %{x}<br>%{text}<extra></extra>")
            .text_matrix(hover.clone())
    };
    let layout = || {
        Layout::new()
            .x_axis(Axis::new().title("step").type_(plotly::layout::AxisType::Category).n_ticks(12))
            .y_axis(Axis::new().auto_margin(true))
    };
    let prefix = if named { format!("{}: ", plain(&run.name)) } else { String::new() };
    let height = 120 + 22 * rows.len();
    let mut used = Plot::new();
    // Least uses for a mean worth a colour.
    const LEAST: usize = 3;
    used.add_trace(map(cells(&|t, s| t.frequency(s))).zmin(0.0));
    used.set_layout(layout());
    let mut follows = Plot::new();
    let contribution = |t: &StrategyTable<Strategy>, s| {
        let usage = t.usage(s);
        usage.contribution().filter(|_| usage.answered >= LEAST)
    };
    follows.add_trace(map(cells(&contribution)).zmin(-10.0).zmax(10.0).zmid(0.0));
    follows.set_layout(layout());
    let mut used = Chart::new(format!("{prefix}How often"), "Share of the step's replies that use a strategy.", &used)
        .wide()
        .high(height);
    used.data[0]["meta"] = json!("sequential");
    let note = format!("Mean emotion change right after a use; cells with fewer than {LEAST} uses are empty.");
    let mut follows = Chart::new(format!("{prefix}What follows"), note, &follows).wide().high(height);
    follows.data[0]["meta"] = json!("diverging");
    vec![used, follows]
}

type Measure = (&'static str, DashType, fn(&Digest) -> Option<f64>);

fn measure(runs: &[RunDigest], title: &str, note: &str, axis: &str, measures: &[Measure]) -> Option<Chart> {
    let mut plot = Plot::new();
    for (r, run) in runs.iter().enumerate() {
        for (s, (name, dash, value)) in measures.iter().enumerate() {
            let points: Vec<(f64, f64)> = run
                .steps()
                .iter()
                .filter_map(|d| match d.stage {
                    crate::report::digest::Stage::Step(step) => Some((step as f64, value(d)?)),
                    _ => None,
                })
                .collect();
            if points.is_empty() {
                continue;
            }
            let (label, tint) = if runs.len() > 1 {
                (format!("{} · {name}", run.name), colour(r))
            } else {
                ((*name).to_string(), colour(s))
            };
            plot.add_trace(line(&label, &points, tint, dash.clone()));
        }
    }
    (plot.data().len() > 0).then(|| {
        plot.set_layout(
            Layout::new()
                .x_axis(Axis::new().title("step"))
                .y_axis(Axis::new().title(axis))
                .hover_mode(HoverMode::XUnified),
        );
        Chart::new(title, note, &plot)
    })
}
