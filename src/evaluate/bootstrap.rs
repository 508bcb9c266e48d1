use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// How many resamples an interval is read from.
const RESAMPLES: usize = 2000;

/// A mean with its 95 % bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Mean of the values themselves.
    pub mean: f64,
    /// 2.5th percentile of the resampled means.
    pub low: f64,
    /// 97.5th percentile of the resampled means.
    pub high: f64,
}

/// The percentile interval of a mean, from 2000 resamples (Efron and Tibshirani 1993, section 13.3).
///
/// `clusters` names the cluster of each value, such as the profile of a dialogue: whole clusters are then drawn, as
/// values of one cluster tell less than as many independent ones. A single cluster cannot show how clusters differ;
/// its values are drawn one by one. A single value is its own interval.
///
/// The same values and seed give the same interval everywhere. `None` without values, when one is not finite, or when
/// `clusters` does not name one for each value.
pub fn bootstrap_mean(values: &[f64], clusters: Option<&[&str]>, seed: u64) -> Option<Interval> {
    let mut drawn = match clusters {
        Some(names) if names.len() == values.len() => cluster_sums(values, names),
        Some(_) => return None,
        None => Vec::new(),
    };
    if drawn.len() < 2 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        drawn = sorted.into_iter().map(|value| (value, 1)).collect();
    }
    let mean = ratio(drawn.iter())?;
    if drawn.len() == 1 {
        return Some(Interval { mean, low: mean, high: mean });
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut resample = || {
        let picked: Vec<_> = drawn.iter().map(|_| &drawn[below(&mut rng, drawn.len())]).collect();
        ratio(picked.into_iter())
    };
    let mut means = (0..RESAMPLES).map(|_| resample()).collect::<Option<Vec<_>>>()?;
    means.sort_by(f64::total_cmp);
    Some(Interval { mean, low: quantile(&means, 0.025), high: quantile(&means, 0.975) })
}

/// Sum and size of each cluster, by name.
fn cluster_sums(values: &[f64], names: &[&str]) -> Vec<(f64, usize)> {
    let mut sums: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for (name, value) in names.iter().zip(values) {
        let (sum, size) = sums.entry(name).or_default();
        (*sum, *size) = (*sum + value, *size + 1);
    }
    sums.into_values().collect()
}

/// Mean of all values of clusters given as (sum, size); `None` when it is no number.
fn ratio<'a>(sums: impl Iterator<Item = &'a (f64, usize)>) -> Option<f64> {
    let (sum, count) = sums.fold((0.0, 0), |(sum, count), (s, c)| (sum + s, count + c));
    Some(sum / count as f64).filter(|mean| mean.is_finite())
}

/// A number below `count`, by multiply and shift: written out because results must not depend on how a version of
/// `rand` maps its bits. The bias is below `count / 2^32`.
fn below(rng: &mut ChaCha8Rng, count: usize) -> usize {
    ((u64::from(rng.next_u32()) * count as u64) >> 32) as usize
}

/// Linear interpolation between the two nearest order statistics (Hyndman and Fan 1996, type 7).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.5), 3.0);
        // Place 0.025 · 4 = 0.1 between the first two.
        assert!((quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.025) - 1.1).abs() < 1e-12);
        assert_eq!(quantile(&[7.0], 0.975), 7.0);
    }
}
