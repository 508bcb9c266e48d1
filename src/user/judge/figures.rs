//! How well a judge agrees with recorded judgements.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// One recorded change with what the views predicted.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The profile, the unit of resampling.
    pub profile: String,
    /// Who replied.
    pub model: String,
    /// Number of the dialogue.
    pub dialogue: usize,
    /// Emotion before and after, as recorded.
    pub recorded: (i32, i32),
    /// Emotion before and after, as the model's own run has them (after: not yet kept within the scale).
    pub own: (i32, i32),
    /// Whether each view predicts a rise.
    pub rises: Rises,
}

/// A view's direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rises {
    /// With the recorded history.
    pub teacher_forced: bool,
    /// With the model's own.
    pub free_running: bool,
    /// From reply and profile alone.
    pub reply_only: bool,
    /// From everything but the reply.
    pub state_only: bool,
}

/// The figures of a set of dialogues.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Recorded changes compared.
    pub n: usize,
    /// Share of changes whose sign is predicted.
    pub sign_agreement: Agreement,
    /// Spearman's rank correlation over reply models of the free-running mean change; `None` below three models.
    pub model_spearman: Option<f64>,
    /// How often a free-running change has the sign of the one before.
    pub sign_continuation: f64,
    /// Standard deviation of the free-running final emotions.
    pub final_sd: f64,
    /// Shares of −10, −5, +5 and +10 in free running, by band of the model's own emotion.
    pub marginals: BTreeMap<String, [f64; 4]>,
    /// The same of the recorded judgements.
    pub recorded: RecordedFigures,
}

/// What the recorded judge did itself.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedFigures {
    /// Median rank correlation over reply models between the recorded mean changes of one random half of the profiles and of
    /// the other: how far the recorded judge's own ranking repeats itself. `None` below three models or four profiles.
    pub model_spearman_of_halves: Option<f64>,
    /// As in [`Figures`].
    pub sign_continuation: f64,
    /// As in [`Figures`].
    pub final_sd: f64,
    /// As in [`Figures`].
    pub marginals: BTreeMap<String, [f64; 4]>,
}

/// A share per view.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Agreement {
    /// With recorded emotions.
    pub teacher_forced: f64,
    /// With its own.
    pub free_running: f64,
    /// Reply and profile alone.
    pub reply_only: f64,
    /// Without the reply.
    pub state_only: f64,
}

impl Figures {
    /// Computes the figures; `None` when nothing was recorded.
    pub fn of(all: &[Compared]) -> Option<Figures> {
        if all.is_empty() {
            return None;
        }
        let own: Vec<_> = all.iter().map(|c| (c.dialogue, c.own)).collect();
        let recorded: Vec<_> = all.iter().map(|c| (c.dialogue, c.recorded)).collect();
        Some(Figures {
            n: all.len(),
            sign_agreement: Agreement::of(all.iter()),
            model_spearman: model_spearman(all),
            sign_continuation: continuation(&own),
            final_sd: final_sd(&own),
            marginals: marginals(&own),
            recorded: RecordedFigures {
                model_spearman_of_halves: spearman_of_halves(all),
                sign_continuation: continuation(&recorded),
                final_sd: final_sd(&recorded),
                marginals: marginals(&recorded),
            },
        })
    }
}

impl Agreement {
    fn of<'a>(all: impl Iterator<Item = &'a Compared>) -> Agreement {
        let mut right = [0usize; 4];
        let mut n = 0usize;
        for c in all {
            let rose = c.recorded.1 > c.recorded.0;
            let r = c.rises;
            let views = [r.teacher_forced, r.free_running, r.reply_only, r.state_only];
            right.iter_mut().zip(views).for_each(|(n, view)| *n += usize::from(view == rose));
            n += 1;
        }
        let share = |i: usize| right[i] as f64 / n.max(1) as f64;
        Agreement { teacher_forced: share(0), free_running: share(1), reply_only: share(2), state_only: share(3) }
    }

    fn views(&self) -> [f64; 4] {
        [self.teacher_forced, self.free_running, self.reply_only, self.state_only]
    }
}

/// 95 % intervals of the four views' agreement, and of teacher-forced minus state-only: percentiles over 1000 resamples
/// of the profiles.
pub fn intervals(all: &[Compared]) -> [(f64, f64); 5] {
    let mut by_profile: BTreeMap<&str, Vec<&Compared>> = BTreeMap::new();
    for c in all {
        by_profile.entry(&c.profile).or_default().push(c);
    }
    let profiles: Vec<Vec<&Compared>> = by_profile.into_values().collect();
    let mut values: [Vec<f64>; 5] = Default::default();
    for round in 0..1000u64 {
        let chosen = (0..profiles.len() as u64).flat_map(|slot| {
            let at = crate::user::builtin::text::draw(17, round, slot) % profiles.len() as u64;
            profiles[at as usize].iter().copied()
        });
        let views = Agreement::of(chosen).views();
        views.iter().chain([&(views[0] - views[3])]).zip(&mut values).for_each(|(v, all)| all.push(*v));
    }
    values.map(|mut v| {
        v.sort_unstable_by(f64::total_cmp);
        (v[25], v[974])
    })
}

fn model_spearman(all: &[Compared]) -> Option<f64> {
    let mut sums: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
    for c in all {
        let sum = sums.entry(&c.model).or_default();
        sum.0 += f64::from(c.own.1 - c.own.0);
        sum.1 += f64::from(c.recorded.1 - c.recorded.0);
        sum.2 += 1.0;
    }
    let (own, recorded): (Vec<f64>, Vec<f64>) = sums.values().map(|s| (s.0 / s.2, s.1 / s.2)).unzip();
    (own.len() >= 3).then(|| spearman(&own, &recorded))
}

fn spearman_of_halves(all: &[Compared]) -> Option<f64> {
    let number = |of: fn(&Compared) -> &str| -> BTreeMap<&str, usize> {
        all.iter().map(of).collect::<BTreeSet<_>>().into_iter().enumerate().map(|(at, name)| (name, at)).collect()
    };
    let (profiles, models) = (number(|c| &c.profile), number(|c| &c.model));
    if models.len() < 3 || profiles.len() < 4 {
        return None;
    }
    let mut sums = vec![vec![(0.0f64, 0.0f64); models.len()]; profiles.len()];
    for c in all {
        let sum = &mut sums[profiles[c.profile.as_str()]][models[c.model.as_str()]];
        sum.0 += f64::from(c.recorded.1 - c.recorded.0);
        sum.1 += 1.0;
    }
    let means = |half: &[usize]| -> Vec<f64> {
        let mean = |model: usize| {
            let (sum, n) = half.iter().map(|p| sums[*p][model]).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            sum / n
        };
        (0..models.len()).map(mean).collect()
    };
    let mut order: Vec<usize> = (0..profiles.len()).collect();
    let mut rhos: Vec<f64> = (0..HALVES)
        .map(|round| {
            order.sort_unstable_by_key(|p| (crate::user::builtin::text::draw(23, round, *p as u64), *p));
            let (one, other) = order.split_at(order.len() / 2);
            (means(one), means(other))
        })
        // A model without a dialogue in one of the halves has no mean there.
        .filter(|(one, other)| one.iter().chain(other).all(|mean| mean.is_finite()))
        .map(|(one, other)| spearman(&one, &other))
        .collect();
    rhos.sort_unstable_by(f64::total_cmp);
    rhos.get(rhos.len() / 2).copied()
}

/// Random halves drawn.
const HALVES: u64 = 1000;

/// Spearman's rank correlation; ties share their mean rank.
pub(super) fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |x: &[f64]| -> Vec<f64> {
        x.iter()
            .map(|v| {
                let below = x.iter().filter(|w| *w < v).count() as f64;
                let equal = x.iter().filter(|w| *w == v).count() as f64;
                below + (equal - 1.0) / 2.0
            })
            .collect()
    };
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    if spread > 0.0 { product(&a, &b) / spread } else { 0.0 }
}

type Steps = [(usize, (i32, i32))];

fn continuation(steps: &Steps) -> f64 {
    let pairs: Vec<bool> =
        steps.windows(2).filter(|w| w[0].0 == w[1].0).map(|w| (w[0].1.1 > w[0].1.0) == (w[1].1.1 > w[1].1.0)).collect();
    pairs.iter().filter(|same| **same).count() as f64 / pairs.len().max(1) as f64
}

fn final_sd(steps: &Steps) -> f64 {
    let last: BTreeMap<usize, f64> = steps.iter().map(|(d, e)| (*d, f64::from(e.1.clamp(0, 100)))).collect();
    let n = last.len() as f64;
    let mean = last.values().sum::<f64>() / n;
    (last.values().map(|e| (e - mean).powi(2)).sum::<f64>() / n).sqrt()
}

fn marginals(steps: &Steps) -> BTreeMap<String, [f64; 4]> {
    let mut counts: BTreeMap<String, [f64; 4]> = BTreeMap::new();
    for (_, (before, after)) in steps {
        let band = match before {
            70.. => "A",
            40..=69 => "B",
            _ => "C",
        };
        let place = match after - before {
            6.. => 3,
            1..=5 => 2,
            -5..=0 => 1,
            _ => 0,
        };
        counts.entry(band.into()).or_default()[place] += 1.0;
    }
    for shares in counts.values_mut() {
        let n: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|s| *s /= n);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(dialogue: usize, model: &str, recorded: (i32, i32), own: (i32, i32)) -> Compared {
        let rises = Rises { free_running: own.1 > own.0, ..Rises::default() };
        Compared { profile: format!("p{dialogue}"), model: model.into(), dialogue, recorded, own, rises }
    }

    #[test]
    fn figures_of_a_small_set_are_what_one_counts_by_hand() {
        let all = [
            step(0, "a", (40, 50), (40, 45)),
            step(0, "a", (50, 55), (45, 55)),
            step(1, "b", (40, 35), (40, 45)),
            step(1, "b", (35, 25), (45, 40)),
            step(2, "c", (40, 45), (40, 50)),
        ];
        let figures = Figures::of(&all).unwrap();
        assert_eq!(figures.n, 5);
        assert!((figures.sign_agreement.free_running - 0.8).abs() < 1e-12);
        assert!((figures.sign_agreement.state_only - 0.4).abs() < 1e-12, "never a rise: the two falls");
        assert_eq!(figures.sign_continuation, 0.5);
        assert_eq!(figures.recorded.sign_continuation, 1.0);
        // Own mean changes 7.5, 0, 10; recorded 7.5, −7.5, 5: ranks 1 0 2 and 2 0 1.
        assert!((figures.model_spearman.unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(figures.marginals["B"], [0.0, 0.2, 0.4, 0.4]);
        let finals = [55.0f64, 40.0, 50.0];
        let mean = finals.iter().sum::<f64>() / 3.0;
        let sd = (finals.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
        assert!((figures.final_sd - sd).abs() < 1e-12);
        assert!(Figures::of(&[]).is_none());
    }

    #[test]
    fn a_ranking_that_holds_for_everybody_repeats_itself_in_every_half() {
        let of = |shuffled: bool| -> Vec<Compared> {
            let people = (0..40).flat_map(|p| (0..5).map(move |m| (p, m)));
            let change = |(p, m): (i32, i32)| if shuffled { (p * 7 + m * 11 + p * m) % 13 } else { 2 * m };
            people
                .map(|(p, m)| Compared {
                    profile: format!("p{p}"),
                    ..step(p as usize, &format!("m{m}"), (40, 40 + change((p, m))), (40, 45))
                })
                .collect()
        };
        assert_eq!(spearman_of_halves(&of(false)), Some(1.0));
        assert!(spearman_of_halves(&of(true)).unwrap() < 0.9);
        assert_eq!(spearman_of_halves(&of(false)[..15]), None, "three people");
    }

    #[test]
    fn spearman_shares_tied_ranks() {
        assert!((spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]) - 0.866).abs() < 1e-3);
    }
}
