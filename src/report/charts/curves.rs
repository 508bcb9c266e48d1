//! Numbers of every step, all runs overlaid.

use plotly::common::{DashType, Fill, Line, Marker, MarkerSymbol, Mode};
use plotly::layout::{Axis, HoverMode, RangeMode};
use plotly::traces::Scatter;
use plotly::{Layout, Plot};

use super::{Chart, Section, colour, line, plain};
use crate::report::run::RunDigest;

/// A metric in a chart: its key, what the legend calls it, the dash it is drawn with.
type Series = (&'static str, &'static str, DashType);

struct Curve {
    title: &'static str,
    note: &'static str,
    axis: &'static str,
    series: &'static [Series],
}

const CURVES: &[Curve] = &[
    Curve {
        title: "Final emotion",
        note: "Mean over the step's scored dialogues, 0–100; diamonds are evaluations with held-out people.",
        axis: "points",
        series: &[("emotion/mean", "training", DashType::Solid)],
    },
    Curve {
        title: "Success and failure",
        note: "Shares of dialogues that ended at 100 and below 10.",
        axis: "share",
        series: &[
            ("emotion/success_rate", "success", DashType::Solid),
            ("emotion/failure_rate", "failure", DashType::Dot),
        ],
    },
    Curve {
        title: "Reward",
        note: "Mean reward of a dialogue, 0–1; the band is one standard deviation.",
        axis: "reward",
        series: &[("reward/mean", "reward", DashType::Solid)],
    },
    Curve {
        title: "KL divergence",
        note: "How far a step moved the policy (old to new), and how far it is from the reference policy.",
        axis: "nats per token",
        series: &[
            ("policy/approx_kl", "old to new", DashType::Solid),
            ("policy/kl_reference", "to the reference", DashType::Dash),
        ],
    },
    Curve {
        title: "Clip fraction",
        note: "Share of action tokens whose loss the clip range decided.",
        axis: "share",
        series: &[
            ("policy/clip_fraction", "policy", DashType::Solid),
            ("policy/clip_fraction_lower", "dual clip", DashType::Dot),
            ("critic/clip_fraction", "critic", DashType::Dash),
        ],
    },
    Curve {
        title: "Entropy",
        note: "Mean entropy of the policy at action tokens. A fall towards zero is a collapse.",
        axis: "nats",
        series: &[("policy/entropy", "entropy", DashType::Solid)],
    },
    Curve {
        title: "Value fit",
        note: "Explained variance of the returns by the critic, at most 1.",
        axis: "share",
        series: &[("critic/explained_variance", "explained variance", DashType::Solid)],
    },
    Curve {
        title: "Tokens per reply",
        note: "Mean length of a reply in tokens, thoughts included.",
        axis: "tokens",
        series: &[("rollout/tokens_per_turn", "tokens per reply", DashType::Solid)],
    },
    Curve {
        title: "Replies per dialogue",
        note: "Short dialogues are quick successes or quick failures.",
        axis: "replies",
        series: &[("rollout/turns_per_dialogue", "replies", DashType::Solid)],
    },
    Curve {
        title: "Losses",
        note: "Policy and critic losses, means over the step's updates.",
        axis: "loss",
        series: &[
            ("policy/loss", "policy", DashType::Solid),
            ("critic/loss", "critic", DashType::Dash),
            ("sft/loss", "warm start", DashType::Solid),
            ("sft/heldout_loss", "warm start, held out", DashType::Dash),
        ],
    },
    Curve {
        title: "Gradient norm",
        note: "Global norms before clipping.",
        axis: "L2 norm",
        series: &[("grad_norm/policy", "policy", DashType::Solid), ("grad_norm/critic", "critic", DashType::Dash)],
    },
    Curve {
        title: "What went wrong",
        note: "Shares of replies a guard of the user caught, and of dialogues that broke the format or were cut off.",
        axis: "share",
        series: &[
            ("emotion/guard_rate", "guarded replies", DashType::Solid),
            ("rollout/malformed", "malformed", DashType::Dash),
            ("rollout/truncated", "truncated", DashType::Dot),
        ],
    },
];

/// The section with all curves that some run has numbers for.
pub(super) fn section(runs: &[RunDigest]) -> Section {
    let mut charts: Vec<Chart> = CURVES.iter().filter_map(|curve| chart(curve, runs)).collect();
    let at = charts.len().min(9);
    charts.splice(at..at, time(runs));
    Section {
        id: "curves",
        title: "Training curves",
        note:
            "One point a step. Where there are more than twenty, the strong line is a moving average and the faint one \
               the numbers themselves."
                .into(),
        charts,
    }
}

fn chart(curve: &Curve, runs: &[RunDigest]) -> Option<Chart> {
    let mut plot = Plot::new();
    for (r, run) in runs.iter().enumerate() {
        let several = runs.len() > 1;
        for (s, (key, name, dash)) in curve.series.iter().enumerate() {
            let points = points(run, key);
            // A line at zero all along says nothing here.
            if points.is_empty() || s > 0 && points.iter().all(|(_, y)| *y == 0.0) {
                continue;
            }
            let label = match (several, curve.series.len() > 1) {
                (false, _) => (*name).to_string(),
                (true, false) => run.name.clone(),
                (true, true) => format!("{} · {name}", run.name),
            };
            let tint = if several { colour(r) } else { colour(s) };
            if *key == "reward/mean" {
                for edge in band(run, &points, tint) {
                    plot.add_trace(edge);
                }
            }
            let smooth = smoothed(&points);
            if smooth != points {
                plot.add_trace(
                    line(&label, &points, tint, DashType::Solid)
                        .line(Line::new().color(tint).width(1.0))
                        .opacity(0.3)
                        .show_legend(false),
                );
            }
            plot.add_trace(line(&label, &smooth, tint, dash.clone()));
        }
        if curve.title == "Final emotion" {
            let evaluated = points_of(run, "eval/emotion_mean");
            if !evaluated.is_empty() {
                let (x, y): (Vec<f64>, Vec<f64>) = evaluated.into_iter().unzip();
                let name = if several { format!("{} · held out", run.name) } else { "held out".into() };
                let marker = Marker::new().color(if several { colour(r) } else { colour(1) }).size(11);
                plot.add_trace(
                    Scatter::new(x, y)
                        .mode(Mode::Markers)
                        .name(plain(&name))
                        .marker(marker.symbol(MarkerSymbol::Diamond)),
                );
            }
        }
    }
    (!plot.data().is_empty()).then(|| {
        let shares = if curve.axis == "share" { RangeMode::ToZero } else { RangeMode::Normal };
        plot.set_layout(layout().y_axis(Axis::new().title(curve.axis).range_mode(shares)));
        Chart::new(curve.title, curve.note, &plot)
    })
}

fn layout() -> Layout {
    Layout::new().x_axis(Axis::new().title("step")).hover_mode(HoverMode::XUnified)
}

/// The metric's points, from step 1.
fn points(run: &RunDigest, key: &str) -> Vec<(f64, f64)> {
    run.metrics
        .iter()
        .filter(|m| m.step() > 0)
        .filter_map(|m| Some((m.step() as f64, m.get(key)?)))
        .filter(|(_, y)| y.is_finite())
        .collect()
}

/// Held-out results: those in the metrics, and the one after the last step from its episodes.
fn points_of(run: &RunDigest, key: &str) -> Vec<(f64, f64)> {
    use crate::train::Stage;
    let recorded = run.metrics.iter().filter_map(|m| Some((m.step() as f64, m.get(key)?)));
    let after = run.stage(Stage::After).and_then(|d| {
        let last = run.metrics.last()?.step() as f64;
        Some((last, crate::report::run::summary(&[d])?.overall.mean_final_emotion.mean))
    });
    recorded.chain(after).filter(|(_, y)| y.is_finite()).collect()
}

/// A centred moving average over about a twentieth of the points; few points stay as they are.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 20 {
        return points.to_vec();
    }
    let reach = (points.len() / 40).max(2);
    (0..points.len())
        .map(|i| {
            // The same reach to both sides keeps the ends unbiased.
            let reach = reach.min(i).min(points.len() - 1 - i);
            let window = &points[i - reach..=i + reach];
            // Taken from the point itself, so that what does not change stays the same to the last digit.
            let off: f64 = window.iter().map(|(_, y)| y - points[i].1).sum();
            (points[i].0, points[i].1 + off / window.len() as f64)
        })
        .collect()
}

fn band(run: &RunDigest, mean: &[(f64, f64)], tint: &'static str) -> [Box<Scatter<f64, Option<f64>>>; 2] {
    let std: std::collections::HashMap<u64, f64> =
        points(run, "reward/std").into_iter().map(|(x, y)| (x as u64, y)).collect();
    let edge = |sign: f64| -> Vec<(f64, f64)> {
        mean.iter().map(|(x, y)| (*x, y + sign * std.get(&(*x as u64)).copied().unwrap_or(0.0))).collect()
    };
    [-1.0, 1.0].map(|sign| {
        let line = line("", &smoothed(&edge(sign)), tint, DashType::Solid)
            .line(Line::new().width(0.0).color(tint))
            .show_legend(false)
            .hover_info(plotly::common::HoverInfo::Skip);
        if sign > 0.0 { line.fill(Fill::ToNextY).fill_color(format!("{tint}22")) } else { line }
    })
}

/// Where a step's time goes, stacked for one run, as lines for several.
fn time(runs: &[RunDigest]) -> Option<Chart> {
    let mut plot = Plot::new();
    for (r, run) in runs.iter().enumerate() {
        for (s, (key, name)) in [("time/rollout_s", "dialogues"), ("time/update_s", "update")].into_iter().enumerate() {
            let points = points(run, key);
            if points.is_empty() {
                continue;
            }
            plot.add_trace(if runs.len() == 1 {
                line(name, &points, colour(s), DashType::Solid)
                    .stack_group("time")
                    .line(Line::new().color(colour(s)).width(0.5))
            } else {
                let dash = if s == 0 { DashType::Solid } else { DashType::Dash };
                line(&format!("{} · {name}", run.name), &smoothed(&points), colour(r), dash)
            });
        }
    }
    (!plot.data().is_empty()).then(|| {
        plot.set_layout(layout().y_axis(Axis::new().title("seconds").range_mode(RangeMode::ToZero)));
        Chart::new("Time of a step", "Dialogues and update, without evaluation and checkpoint.", &plot)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_keeps_ends_and_means() {
        let line: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), 2.0 * f64::from(i))).collect();
        let smooth = smoothed(&line);
        assert!(line.iter().zip(&smooth).all(|(a, b)| (a.1 - b.1).abs() < 1e-9), "a straight line stays");
        assert_eq!(smoothed(&line[..20]), line[..20]);
    }

    #[test]
    fn every_key_of_a_curve_is_a_documented_metric() {
        for (key, ..) in CURVES.iter().flat_map(|c| c.series) {
            assert!(crate::metrics::documented(key).is_some(), "{key}");
        }
    }
}
