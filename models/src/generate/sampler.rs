use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rlver_kernels::sample::Stream;

/// How the next token is chosen. The recipe's settings are the only ones: a checkpoint's `generation_config.json` is
/// never consulted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingSettings {
    /// Logits are divided by this; 0 means greedy (the reported log-probability is then that at temperature 1).
    pub temperature: f32,
    /// Keep the k most likely ids; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of ids whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Keep ids at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
}

impl SamplingSettings {
    /// Greedy decoding.
    pub const GREEDY: SamplingSettings = SamplingSettings { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0 };

    /// Plain sampling at a temperature.
    pub fn at(temperature: f32) -> SamplingSettings {
        SamplingSettings { temperature, ..SamplingSettings::GREEDY }
    }

    /// The temperature log-probabilities are taken at.
    pub fn logprob_temperature(&self) -> f32 {
        if self.temperature == 0.0 { 1.0 } else { self.temperature }
    }

    /// Whether some id may be removed before drawing among `vocabulary`.
    pub(crate) fn filters(&self, vocabulary: usize) -> bool {
        let cuts = (self.top_k > 0 && self.top_k < vocabulary) || self.top_p < 1.0 || self.min_p > 0.0;
        self.temperature != 0.0 && cuts
    }

    /// Refuses settings outside their range.
    ///
    /// # Errors
    /// Names the setting.
    pub fn check(&self) -> Result<(), SamplingError> {
        let fail = |setting, value, expected| Err(SamplingError { setting, value, expected });
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return fail("temperature", self.temperature, "0 (greedy) or above");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return fail("top_p", self.top_p, "above 0, at most 1");
        }
        if !(0.0..1.0).contains(&self.min_p) {
            return fail("min_p", self.min_p, "at least 0, below 1");
        }
        Ok(())
    }
}

/// A sampling setting outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("sampling setting {setting} = {value} must be {expected}")]
pub struct SamplingError {
    setting: &'static str,
    value: f32,
    expected: &'static str,
}

/// Draws tokens for one turn of one dialogue, from a stream of its own, so that any subset of a run reproduces.
#[derive(Debug, Clone)]
pub struct Sampler {
    settings: SamplingSettings,
    rng: ChaCha8Rng,
    /// For draws on a device.
    stream: Stream,
    /// The only ids that may be drawn, if not all may.
    among: Option<Vec<u32>>,
}

/// The chosen token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) id: u32,
    /// Natural log-probability at the settings' temperature, before any filter.
    pub(crate) logprob: f32,
    /// Whether a filter removed some id.
    pub(crate) filtered: bool,
}

impl Sampler {
    /// A sampler whose stream depends on `seed` alone.
    pub fn new(settings: SamplingSettings, seed: u64) -> Sampler {
        Sampler { settings, rng: ChaCha8Rng::seed_from_u64(seed), stream: Stream { seed, draw: 0 }, among: None }
    }

    pub(crate) fn settings(&self) -> SamplingSettings {
        self.settings
    }

    /// Whether only some ids may be drawn.
    pub(crate) fn is_restricted(&self) -> bool {
        self.among.is_some()
    }

    /// The random numbers of the next draw on a device.
    pub(crate) fn next_stream(&mut self) -> Stream {
        let next = self.stream;
        self.stream.draw += 1;
        next
    }

    /// The same sampler, restricted to `ids`: all others are as good as impossible, also for the log-probability.
    pub fn among(self, ids: Vec<u32>) -> Sampler {
        Sampler { among: Some(ids), ..self }
    }

    /// Chooses among `logits`, which hold only ids the tokenizer knows.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> Choice {
        let Some(ids) = &self.among else { return self.draw(logits) };
        let mut restricted = vec![f32::NEG_INFINITY; logits.len()];
        for &id in ids {
            if let Some(slot) = restricted.get_mut(id as usize) {
                *slot = logits[id as usize];
            }
        }
        self.draw(&restricted)
    }

    fn draw(&mut self, logits: &[f32]) -> Choice {
        let temperature = self.settings.logprob_temperature();
        let scale = 1.0 / temperature;
        let (best, top) = logits
            .iter()
            .enumerate()
            .fold((0, f32::NEG_INFINITY), |(b, t), (i, &z)| if z > t { (i, z) } else { (b, t) });
        let weights: Vec<f32> = logits.iter().map(|z| ((z - top) * scale).exp()).collect();
        let total: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        let logprob = |id: usize| rlver_kernels::logprob::logprob_of(logits, temperature, id);
        if self.settings.temperature == 0.0 {
            return Choice { id: best as u32, logprob: logprob(best), filtered: false };
        }
        // One draw per token whatever the filters do, so that streams stay aligned.
        let draw = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let kept = self.filter(&weights, total);
        let id = match &kept {
            None => pick((0..weights.len()).map(|i| (i, weights[i])), total, draw),
            Some(ids) => {
                let total = ids.iter().map(|&i| f64::from(weights[i])).sum();
                pick(ids.iter().map(|&i| (i, weights[i])), total, draw)
            }
        };
        Choice { id: id.unwrap_or(best) as u32, logprob: logprob(id.unwrap_or(best)), filtered: kept.is_some() }
    }

    /// The ids the filters keep, most likely first, or `None` when nothing is cut.
    fn filter(&self, weights: &[f32], total: f64) -> Option<Vec<usize>> {
        let s = &self.settings;
        if !s.filters(weights.len()) {
            return None;
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        // Ties are broken by id, so that the result does not depend on the sort.
        let by_weight = |a: &usize, b: &usize| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b));
        if s.top_k > 0 && s.top_k < order.len() {
            order.select_nth_unstable_by(s.top_k - 1, by_weight);
            order.truncate(s.top_k);
        }
        order.sort_unstable_by(by_weight);
        if s.min_p > 0.0 {
            let least = weights[order[0]] * s.min_p;
            order.truncate(order.partition_point(|&i| weights[i] >= least));
        }
        if s.top_p < 1.0 {
            let mut mass = 0.0;
            let enough = order.iter().position(|&i| {
                mass += f64::from(weights[i]) / total;
                mass >= f64::from(s.top_p)
            });
            order.truncate(enough.map_or(order.len(), |last| last + 1));
        }
        (order.len() < weights.len()).then_some(order)
    }
}

/// The item at which the running weight passes `draw`·`total`.
fn pick(items: impl Iterator<Item = (usize, f32)>, total: f64, draw: f64) -> Option<usize> {
    let goal = draw * total;
    let mut mass = 0.0;
    let mut last = None;
    for (id, weight) in items {
        mass += f64::from(weight);
        if weight > 0.0 {
            last = Some(id);
            if mass > goal {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [2.0, 1.0, 0.5, -1.0];

    #[test]
    fn logprobs_have_the_golden_values_at_any_temperature() {
        for (temperature, golden) in [
            (1.0, [-0.495_182, -1.495_182, -1.995_182, -3.495_182]),
            (0.7, [-0.315_346, -1.743_918, -2.458_203, -4.601_061]),
        ] {
            let mut seen = [false; 4];
            for seed in 0..400 {
                let c = Sampler::new(SamplingSettings::at(temperature), seed).choose(&LOGITS);
                assert!((c.logprob - golden[c.id as usize]).abs() < 2e-6, "{c:?}");
                seen[c.id as usize] = true;
            }
            assert_eq!(seen, [true; 4]);
        }
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let mut sampler = Sampler::new(SamplingSettings::at(1.0), 7);
        let mut counts = [0f64; 4];
        for _ in 0..20_000 {
            counts[sampler.choose(&LOGITS).id as usize] += 1.0 / 20_000.0;
        }
        for (count, logprob) in counts.iter().zip([-0.495_182f64, -1.495_182, -1.995_182, -3.495_182]) {
            assert!((count - logprob.exp()).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn filters_cut_what_they_should_and_report_it_without_touching_the_logprob() {
        for (settings, kept) in [
            (SamplingSettings { top_k: 1, ..SamplingSettings::at(1.0) }, 1),
            (SamplingSettings { top_k: 2, ..SamplingSettings::at(1.0) }, 2),
            (SamplingSettings { top_p: 0.6, ..SamplingSettings::at(1.0) }, 1),
            (SamplingSettings { top_p: 0.62, ..SamplingSettings::at(1.0) }, 2),
            (SamplingSettings { min_p: 0.3, ..SamplingSettings::at(1.0) }, 2),
            (SamplingSettings { top_k: 4, ..SamplingSettings::at(1.0) }, 4),
        ] {
            let mut seen = std::collections::BTreeSet::new();
            for seed in 0..500 {
                let c = Sampler::new(settings, seed).choose(&LOGITS);
                assert_eq!(c.filtered, kept < 4, "{settings:?}");
                let golden = [-0.495_182, -1.495_182, -1.995_182, -3.495_182];
                assert!((c.logprob - golden[c.id as usize]).abs() < 2e-6);
                seen.insert(c.id);
            }
            assert_eq!(seen.len(), kept, "{settings:?}");
        }
    }

    #[test]
    fn greedy_takes_the_first_of_the_best() {
        assert_eq!(Sampler::new(SamplingSettings::GREEDY, 1).choose(&[0.0, 3.0, 3.0]).id, 1);
        assert!(SamplingSettings::at(f32::NAN).check().is_err());
        assert!(SamplingSettings { top_p: 0.0, ..SamplingSettings::at(1.0) }.check().is_err());
    }
}
