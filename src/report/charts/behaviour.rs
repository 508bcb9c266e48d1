//! What replies do: strategies by step, and how varied replies are.

use plotly::common::DashType;
use plotly::layout::{Axis, HoverMode};
use plotly::{Layout, Plot};

use super::{Chart, Section, colour, line, strategies};
use crate::evaluate::diversity::Diversity;
use crate::report::digest::Digest;
use crate::report::run::RunDigest;

pub(super) fn section(runs: &[RunDigest]) -> Section {
    let mut charts = Vec::new();
    for run in runs {
        charts.extend(strategies::heat_maps(run, runs.len() > 1));
    }
    charts.extend(measure(
        runs,
        "Variety",
        "Share of distinct bigrams (higher is more varied) and self-BLEU (lower is more varied) of a step's replies.",
        "share",
        &[
            ("distinct-2", DashType::Solid, |d| d.behaviour.diversity.distinct_2),
            ("self-BLEU", DashType::Dash, |d| d.behaviour.diversity.self_bleu),
        ],
    ));
    charts.extend(measure(runs, "Repetition of strategies", "SSRR: how alike the strategies of adjacent replies are; SAGE calls less than 0.4 acceptable. Alignment scores are ours.", "similarity", &[
        ("SSRR", DashType::Solid, |d| d.behaviour.repetition),
    ]));
    charts.extend(measure(
        runs,
        "Length of replies",
        "Characters (Chinese) or words (English).",
        "length",
        &[("length", DashType::Solid, |d| {
            Some(d.behaviour.diversity).filter(|v| *v != Diversity::default()).map(|v| v.length)
        })],
    ));
    charts.extend(measure(
        runs,
        "Language drift",
        "Share of replies mostly in another language than the user's.",
        "share",
        &[("wrong language", DashType::Solid, |d| Some(d.behaviour.diversity.wrong_language))],
    ));
    Section {
        id: "behaviour",
        title: "What the replies do",
        note: "Strategies as the built-in recogniser reads them from cues: an estimate. The first eleven rows are RLVER's \
               taxonomy, grouped as in its Table 4; the others are ours. Contribution is the mean change of the emotion \
               right after a reply that uses the strategy. SAGE's groups are the paper's, the names within them ours."
            .into(),
        charts,
    }
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
                    crate::train::Stage::Step(step) => Some((step as f64, value(d)?)),
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
    (!plot.data().is_empty()).then(|| {
        plot.set_layout(
            Layout::new()
                .x_axis(Axis::new().title("step"))
                .y_axis(Axis::new().title(axis))
                .hover_mode(HoverMode::XUnified),
        );
        Chart::new(title, note, &plot)
    })
}
