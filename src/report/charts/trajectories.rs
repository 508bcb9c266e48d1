//! How the emotion moves within dialogues, by the band it ends in.

use plotly::common::{HoverInfo, Line, Mode};
use plotly::layout::{Axis, HoverMode};
use plotly::traces::Scatter;
use plotly::{Layout, Plot};

use super::{Chart, Section};
use crate::report::digest::{Brief, Digest};
use crate::report::run::RunDigest;
use crate::user::{Band, Emotion};

/// The bands from best to worst, with their colours and ranges.
pub(super) const BANDS: [(Band, &str, &str); 5] = [
    (Band::S, "#0d9488", "S: 100"),
    (Band::A, "#65a30d", "A: 70–99"),
    (Band::B, "#ca8a04", "B: 40–69"),
    (Band::C, "#ea580c", "C: 10–39"),
    (Band::F, "#dc2626", "F: below 10"),
];

/// Single dialogues drawn per band.
const DRAWN: usize = 24;

pub(super) fn section(runs: &[RunDigest]) -> Section {
    let mut charts = Vec::new();
    for run in runs {
        for (label, digests) in run.ends().into_iter().flatten() {
            let title = if runs.len() > 1 { format!("{}: {label}", run.name) } else { label };
            charts.extend(chart(&title, &digests));
        }
    }
    Section {
        id: "trajectories",
        title: "Emotion within dialogues",
        note: format!(
            "Each line is a dialogue, coloured by the band it ends in; strong lines are the means of the dialogues still \
             going. At most {DRAWN} single dialogues a band are drawn; the means are over all."
        ),
        charts,
    }
}

fn chart(title: &str, digests: &[&Digest]) -> Option<Chart> {
    let dialogues: Vec<&Brief> =
        digests.iter().flat_map(|d| &d.dialogues).filter(|b| b.counted.is_some() && b.emotions.len() > 1).collect();
    let longest = dialogues.iter().map(|b| b.emotions.len()).max()?;
    let mut plot = Plot::new();
    for (band, colour, name) in BANDS {
        let last = |b: &Brief| b.emotions.last().and_then(|e| Emotion::new(i64::from(*e))).map(Emotion::band);
        let members: Vec<&&Brief> = dialogues.iter().filter(|b| last(b) == Some(band)).collect();
        if members.is_empty() {
            continue;
        }
        let drawn = members.len().min(DRAWN);
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for i in 0..drawn {
            let emotions = &members[i * members.len() / drawn].emotions;
            for (turn, emotion) in emotions.iter().enumerate() {
                x.push(Some(turn));
                y.push(Some(f64::from(*emotion)));
            }
            // A gap between two dialogues.
            x.push(None);
            y.push(None);
        }
        plot.add_trace(
            Scatter::new(x, y)
                .mode(Mode::Lines)
                .line(Line::new().color(colour).width(1.0))
                .opacity(0.28)
                .legend_group(name)
                .show_legend(false)
                .hover_info(HoverInfo::Skip),
        );
        let mean = |turn: usize| {
            let at: Vec<f64> = members.iter().filter_map(|b| b.emotions.get(turn)).map(|e| f64::from(*e)).collect();
            (!at.is_empty()).then(|| at.iter().sum::<f64>() / at.len() as f64)
        };
        let share = 100.0 * members.len() as f64 / dialogues.len() as f64;
        plot.add_trace(
            Scatter::new((0..longest).collect(), (0..longest).map(mean).collect())
                .mode(Mode::LinesMarkers)
                .name(format!("{name} ({share:.0} %)"))
                .legend_group(name)
                .line(Line::new().color(colour).width(3.0)),
        );
    }
    plot.set_layout(
        Layout::new()
            .x_axis(Axis::new().title("reply").dtick(1.0))
            .y_axis(Axis::new().title("emotion").range(vec![-2, 102]))
            .hover_mode(HoverMode::XUnified),
    );
    let note = format!("{} dialogues, start emotion {}", dialogues.len(), starts(&dialogues));
    Some(Chart::new(title, note, &plot).high(330))
}

fn starts(dialogues: &[&Brief]) -> String {
    let all: std::collections::BTreeSet<u8> = dialogues.iter().filter_map(|b| b.emotions.first().copied()).collect();
    all.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}
