//! Results per hidden intention, early and late.

use plotly::common::{ErrorData, ErrorType, Marker};
use plotly::layout::{Axis, BarMode};
use plotly::traces::Bar;
use plotly::{Layout, Plot};

use super::{Chart, Section, colour, plain};
use crate::dialogue::HiddenIntention;
use crate::evaluate::{Interval, Scores};
use crate::report::run::{RunDigest, summary};

pub(super) fn section(runs: &[RunDigest]) -> Section {
    let emotion = |s: &Scores| s.mean_final_emotion;
    let success = |s: &Scores| s.success_rate;
    let charts = [
        bars(runs, "Final emotion by hidden intention", "Mean, 0–100.", emotion, 100.0),
        bars(runs, "Success by hidden intention", "Share of dialogues that ended at 100.", success, 1.0),
    ];
    Section {
        id: "intentions",
        title: "By hidden intention",
        note: "Rational intentions first, then emotional ones. Whiskers are 95 % bootstrap intervals over people."
            .into(),
        charts: charts.into_iter().flatten().collect(),
    }
}

fn bars(runs: &[RunDigest], title: &str, note: &str, value: fn(&Scores) -> Interval, top: f64) -> Option<Chart> {
    let (mut plot, mut highest) = (Plot::new(), 0.0f64);
    for (r, run) in runs.iter().enumerate() {
        for (end, (label, digests)) in run.ends().into_iter().flatten().enumerate() {
            let Some(summary) = summary(&digests) else { continue };
            let found: Vec<(HiddenIntention, Interval)> = HiddenIntention::ALL
                .into_iter()
                .filter_map(|i| Some((i, value(summary.by_intention.get(&i)?))))
                .collect();
            highest = found.iter().map(|(_, v)| v.mean).fold(highest, f64::max);
            let name = if runs.len() > 1 { format!("{} · {label}", run.name) } else { label };
            let whiskers = ErrorData::new(ErrorType::Data)
                .array(found.iter().map(|(_, v)| v.high - v.mean).collect())
                .array_minus(found.iter().map(|(_, v)| v.mean - v.low).collect())
                .thickness(1.0)
                .width(3);
            let tint = if runs.len() == 1 && end == 0 { "#94a3b8" } else { colour(r) };
            plot.add_trace(
                Bar::new(
                    found.iter().map(|(i, _)| i.name().replace('-', " ")).collect(),
                    found.iter().map(|(_, v)| v.mean).collect(),
                )
                .name(plain(&name))
                .marker(Marker::new().color(tint).opacity(if end == 0 && runs.len() > 1 { 0.45 } else { 0.95 }))
                .error_y(whiskers),
            );
        }
    }
    // Bars at zero everywhere say nothing; the figures above do.
    (!plot.data().is_empty() && highest > 0.0).then(|| {
        plot.set_layout(
            Layout::new()
                .bar_mode(BarMode::Group)
                .bar_gap(0.25)
                .x_axis(Axis::new().tick_angle(-30.0))
                .y_axis(Axis::new().range(vec![0.0, top])),
        );
        Chart::new(title, note, &plot).high(330)
    })
}
