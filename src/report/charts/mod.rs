//! The page's charts, as plotly.js reads them. Colours of text, grid and background are the page's, so that they follow
//! its light and dark modes; a trace's `meta` tells the page which colours to fill in.

mod behaviour;
mod capability;
mod curves;
mod groups;
mod strategies;
mod trajectories;

use plotly::Plot;
use plotly::common::{DashType, Line, Mode};
use plotly::traces::Scatter;
use serde::Serialize;
use serde_json::Value;

use super::run::RunDigest;

/// A chart of the page.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Chart {
    /// What it shows.
    pub(super) title: String,
    /// How to read it, in a sentence.
    pub(super) note: String,
    /// Whether it takes a whole row of the page.
    pub(super) wide: bool,
    /// Height in pixels.
    pub(super) height: usize,
    /// plotly's traces.
    pub(super) data: Value,
    /// plotly's layout, without colours.
    pub(super) layout: Value,
}

impl Chart {
    fn new(title: impl Into<String>, note: impl Into<String>, plot: &Plot) -> Chart {
        let mut json: Value = serde_json::to_value(plot).expect("a plot is plain data");
        Chart {
            title: title.into(),
            note: note.into(),
            wide: false,
            height: 260,
            data: json["data"].take(),
            layout: json["layout"].take(),
        }
    }

    fn wide(mut self) -> Chart {
        self.wide = true;
        self
    }

    fn high(mut self, height: usize) -> Chart {
        self.height = height;
        self
    }
}

/// A heading with the charts below it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Section {
    /// Short name for the table of contents.
    pub(super) id: &'static str,
    /// The heading.
    pub(super) title: &'static str,
    /// What the section answers and where its numbers come from.
    pub(super) note: String,
    /// The charts.
    pub(super) charts: Vec<Chart>,
}

/// All sections that have something to show.
pub(super) fn sections(runs: &[RunDigest]) -> Vec<Section> {
    [
        groups::section(runs),
        curves::section(runs),
        trajectories::section(runs),
        behaviour::section(runs),
        capability::section(runs),
    ]
    .into_iter()
    .filter(|section| !section.charts.is_empty())
    .collect()
}

/// One colour per run, readable on light and dark.
const RUN_COLOURS: [&str; 8] = ["#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#ca8a04", "#0891b2", "#db2777"];

fn colour(index: usize) -> &'static str {
    RUN_COLOURS[index % RUN_COLOURS.len()]
}

/// Text for plotly, which reads some markup in labels.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A line through points; a value that is not finite interrupts it.
fn line(name: &str, points: &[(f64, f64)], colour: &'static str, dash: DashType) -> Box<Scatter<f64, Option<f64>>> {
    let (x, y) = points.iter().map(|(x, y)| (*x, Some(*y).filter(|y| y.is_finite()))).unzip();
    Scatter::new(x, y)
        .mode(if points.len() > 1 { Mode::Lines } else { Mode::LinesMarkers })
        .name(plain(name))
        .line(Line::new().color(colour).width(2.0).dash(dash))
}
