//! The five capabilities as a radar, and the path of training through the Social Cognition Coordinate.

use plotly::common::{DashType, Line, Marker, Mode, Position};
use plotly::layout::{Axis, HoverMode};
use plotly::traces::{Scatter, ScatterPolar};
use plotly::{Layout, Plot};
use serde_json::json;

use super::{Chart, Section, colour, plain};
use crate::evaluate::capability::{Capability, CapabilityScores, Coordinate, ESTIMATE};
use crate::report::digest::Digest;
use crate::report::run::{RunDigest, span};

/// Points of the path.
const PLACES: usize = 10;

pub(super) fn section(runs: &[RunDigest]) -> Section {
    Section {
        id: "capabilities",
        title: "Capabilities and social cognition",
        note: format!(
            "A {ESTIMATE}, not a judgement of quality: no model read the dialogues. Levels end at 4, and the numbers \
             are not comparable with published ones, which a language model judged."
        ),
        charts: radar(runs).into_iter().chain(path(runs)).collect(),
    }
}

fn scores(digests: &[&Digest]) -> Option<CapabilityScores> {
    let all: Vec<CapabilityScores> = digests.iter().filter_map(|d| d.behaviour.capabilities).collect();
    CapabilityScores::mean(&all)
}

fn radar(runs: &[RunDigest]) -> Option<Chart> {
    let mut plot = Plot::new();
    for (r, run) in runs.iter().enumerate() {
        for (end, (label, digests)) in run.ends().into_iter().flatten().enumerate() {
            let Some(scores) = scores(&digests) else { continue };
            let mut theta: Vec<String> = Capability::ALL.map(|c| c.name().to_string()).to_vec();
            let mut radius: Vec<f64> = Capability::ALL.map(|c| scores.get(c)).to_vec();
            theta.push(theta[0].clone());
            radius.push(radius[0]);
            let name = if runs.len() > 1 { format!("{} · {label}", run.name) } else { label };
            let tint = if runs.len() > 1 || end == 1 { colour(r) } else { "#94a3b8" };
            let dash = if end == 0 { DashType::Dot } else { DashType::Solid };
            plot.add_trace(
                ScatterPolar::new(theta, radius)
                    .mode(Mode::LinesMarkers)
                    .fill(plotly::common::Fill::ToSelf)
                    .fill_color(format!("{tint}{}", if end == 0 { "11" } else { "2a" }))
                    .line(Line::new().color(tint).dash(dash).width(2.5))
                    .name(plain(&name)),
            );
        }
    }
    (!plot.data().is_empty()).then(|| {
        let mut chart = Chart::new("Five capabilities (estimate)", "1 to 5, means over dialogues.", &plot).high(400);
        chart.layout["polar"] = json!({ "radialaxis": { "range": [1, 5], "dtick": 1, "angle": 90, "tickangle": 90 } });
        chart
    })
}

fn path(runs: &[RunDigest]) -> Option<Chart> {
    let mut plot = Plot::new();
    for (r, run) in runs.iter().enumerate() {
        let steps = run.steps();
        if steps.is_empty() {
            continue;
        }
        let places: Vec<(String, Coordinate)> = steps
            .chunks(steps.len().div_ceil(PLACES))
            .filter_map(|bin| {
                let at: Vec<Coordinate> = bin.iter().filter_map(|d| d.behaviour.coordinate).collect();
                let mean = |axis: fn(&Coordinate) -> f64| at.iter().map(axis).sum::<f64>() / at.len() as f64;
                (!at.is_empty()).then(|| (span(bin), Coordinate { x: mean(|c| c.x), y: mean(|c| c.y) }))
            })
            .collect();
        let last = places.len().saturating_sub(1);
        let size = |i: usize| 7 + 9 * i / last.max(1);
        let text = |i: usize| if i == 0 || i == last { places[i].0.clone() } else { String::new() };
        plot.add_trace(
            Scatter::new(places.iter().map(|p| p.1.x).collect(), places.iter().map(|p| p.1.y).collect())
                .mode(Mode::LinesMarkersText)
                .name(plain(&run.name))
                .line(Line::new().color(colour(r)).width(1.5))
                .marker(Marker::new().color(colour(r)).size_array((0..places.len()).map(size).collect()))
                .text_array((0..places.len()).map(text).collect())
                .text_position(Position::TopCenter)
                .hover_text_array(places.iter().map(|p| p.0.clone()).collect())
                .hover_template("%{hovertext}<br>%{x:.2}, %{y:.2}<extra></extra>"),
        );
    }
    (!plot.data().is_empty()).then(|| {
        plot.set_layout(
            Layout::new()
                .x_axis(Axis::new().title("← structured · creative →").range(vec![-5.3, 5.3]))
                .y_axis(Axis::new().title("← solution · empathy →").range(vec![-5.3, 5.3]))
                .show_legend(runs.len() > 1)
                .hover_mode(HoverMode::Closest),
        );
        Chart::new("Social Cognition Coordinate (estimate)", "The path of training; larger points are later.", &plot)
            .high(400)
    })
}
