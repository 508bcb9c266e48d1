//! Heat maps of strategies by step: how often each is used and what follows.

use plotly::layout::{Axis, AxisType};
use plotly::traces::HeatMap;
use plotly::{Layout, Plot};
use serde::Serialize;
use serde_json::json;

use super::Chart;
use crate::dialogue::Strategy;
use crate::evaluate::Behaviour;
use crate::evaluate::strategy::{RlverGroup, SageGroup, SageStrategy, StrategyTable, rlver_group};
use crate::report::digest::Digest;
use crate::report::run::{RunDigest, span};

/// Most columns of a heat map; more steps share one.
const COLUMNS: usize = 40;
/// Least uses for a mean worth a colour.
const LEAST: usize = 3;

/// Use and contribution of our strategies, and the use of SAGE's.
pub(super) fn heat_maps(run: &RunDigest, named: bool) -> Vec<Chart> {
    let steps = run.steps();
    if steps.is_empty() {
        return Vec::new();
    }
    let prefix = if named { format!("{}: ", run.name) } else { String::new() };
    let ours = Map::new(&steps, |b| &b.strategies, &Strategy::ALL, name, |s| rlver_group(s).is_some());
    let sage = Map::new(&steps, |b| &b.sage, &SageStrategy::ALL, sage_name, |_| true);
    let follows = format!("Mean emotion change right after a use; cells with fewer than {LEAST} uses are empty.");
    vec![
        ours.used(format!("{prefix}How often"), "Share of the step's replies that use a strategy."),
        ours.follows(format!("{prefix}What follows"), &follows),
        sage.used(
            format!("{prefix}How often, in SAGE's taxonomy"),
            "Seven groups, 24 strategies; share of the step's replies.",
        ),
    ]
}

/// The numbers behind heat maps over one taxonomy.
struct Map<S: Ord> {
    /// Strategies from bottom to top, with the names shown.
    rows: Vec<(S, String)>,
    columns: Vec<String>,
    /// One per column.
    tables: Vec<StrategyTable<S>>,
}

impl<S: Ord + Copy> Map<S> {
    fn new(
        steps: &[&Digest],
        table: fn(&Behaviour) -> &StrategyTable<S>,
        all: &[S],
        name: fn(S) -> String,
        always: fn(S) -> bool,
    ) -> Map<S> {
        let bins: Vec<&[&Digest]> = steps.chunks(steps.len().div_ceil(COLUMNS)).collect();
        let merged = |bin: &[&Digest]| {
            let mut sum = StrategyTable::default();
            bin.iter().for_each(|digest| sum.merge(table(&digest.behaviour)));
            sum
        };
        let total = merged(steps);
        let shown = all.iter().filter(|s| always(**s) || total.usage(**s).replies > 0);
        Map {
            rows: shown.rev().map(|s| (*s, name(*s))).collect(),
            columns: bins.iter().map(|bin| span(bin).replace("steps ", "").replace("step ", "")).collect(),
            tables: bins.into_iter().map(merged).collect(),
        }
    }

    fn used(&self, title: String, note: &str) -> Chart {
        self.chart(title, note, "sequential", (0.0, None), |table, s| table.frequency(s))
    }

    fn follows(&self, title: String, note: &str) -> Chart {
        self.chart(title, note, "diverging", (-10.0, Some(10.0)), |table, s| {
            let usage = table.usage(s);
            usage.contribution().filter(|_| usage.answered >= LEAST)
        })
    }

    fn chart(
        &self,
        title: String,
        note: &str,
        colours: &str,
        (least, most): (f64, Option<f64>),
        value: fn(&StrategyTable<S>, S) -> Option<f64>,
    ) -> Chart {
        let cells =
            self.rows.iter().map(|(s, _)| self.tables.iter().map(|t| value(t, *s)).collect::<Vec<_>>()).collect();
        let labels: Vec<String> = self.rows.iter().map(|(_, name)| name.clone()).collect();
        let mut map = HeatMap::new(self.columns.clone(), labels, cells)
            .hover_template("%{y}<br>steps %{x}<br>%{text}<extra></extra>")
            .text_matrix(self.hover())
            .zmin(least);
        if let Some(most) = most {
            map = map.zmax(most).zmid(0.0);
        }
        let mut plot = Plot::new();
        plot.add_trace(map);
        plot.set_layout(
            Layout::new()
                .x_axis(Axis::new().title("step").type_(AxisType::Category).n_ticks(12))
                .y_axis(Axis::new().auto_margin(true)),
        );
        let mut chart = Chart::new(title, note, &plot).wide().high(120 + 22 * self.rows.len());
        chart.data[0]["meta"] = json!(colours);
        chart
    }

    fn hover(&self) -> Vec<Vec<String>> {
        let text = |table: &StrategyTable<S>, s: S| {
            let (usage, share) = (table.usage(s), table.frequency(s).unwrap_or(0.0));
            let follows = usage.contribution().map_or("–".into(), |c| format!("{c:+.2}"));
            format!("{} of {} replies ({:.1} %), then {follows}", usage.replies, table.replies(), 100.0 * share)
        };
        self.rows.iter().map(|(s, _)| self.tables.iter().map(|t| text(t, *s)).collect()).collect()
    }
}

/// A strategy's kebab-case name in words.
fn words(strategy: impl Serialize) -> String {
    let name = serde_json::to_value(strategy).ok().and_then(|v| v.as_str().map(|s| s.replace('-', " ")));
    name.unwrap_or_default()
}

fn name(strategy: Strategy) -> String {
    let own = words(strategy);
    match rlver_group(strategy) {
        Some(RlverGroup::DeepEmpathy) => format!("empathy · {own}"),
        Some(RlverGroup::EmotionalVenting) => format!("venting · {own}"),
        Some(RlverGroup::Praise) => own.replacen("praise", "praise ·", 1),
        Some(group) if group.name() == own => own,
        Some(group) => format!("{} · {own}", group.name()),
        None => own,
    }
}

fn sage_name(strategy: SageStrategy) -> String {
    let group = match strategy.group() {
        SageGroup::Question => "question",
        SageGroup::EmotionalEmpathy => "empathy",
        SageGroup::SelfDisclosure => "disclosure",
        SageGroup::EmotionalComfort => "comfort",
        SageGroup::Affirmation => "affirmation",
        SageGroup::Suggestions => "suggestion",
        SageGroup::Information => "information",
    };
    format!("{group} · {}", words(strategy))
}
