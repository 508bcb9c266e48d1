//! Drawing tokens where the logits are: only ids and log-probabilities leave the device.

use burn::tensor::{DType, Int, Tensor, TensorData};
use rlver_kernels::sample::{SampleConfig, sample};

use super::sampler::Choice;
use super::{Sampler, SamplingSettings};
use crate::ModelError;

/// One token per row of `logits` (`[rows, ≥ vocabulary]`), or `None` where a sampler is restricted to some ids, which
/// only the host can do. Rows of the same settings share a launch.
///
/// A draw comes from the sampler's seed and the number of draws before it, so it does not depend on the batch; it is
/// another draw than the host's.
pub(super) fn draw(
    logits: &Tensor<2>,
    samplers: &mut [&mut Sampler],
    vocabulary: usize,
) -> Result<Option<Vec<Choice>>, ModelError> {
    if samplers.iter().any(|s| s.is_restricted()) {
        return Ok(None);
    }
    let mut groups: Vec<(SamplingSettings, Vec<usize>)> = Vec::new();
    for (row, sampler) in samplers.iter().enumerate() {
        match groups.iter_mut().find(|(settings, _)| *settings == sampler.settings()) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((sampler.settings(), vec![row])),
        }
    }
    let mut choices = vec![None; samplers.len()];
    for (settings, rows) in groups {
        let logits = if rows.len() == samplers.len() { logits.clone() } else { select(logits, &rows) };
        let streams: Vec<_> = rows.iter().map(|&row| samplers[row].next_stream()).collect();
        let config = SampleConfig {
            temperature: settings.temperature,
            top_k: settings.top_k,
            top_p: settings.top_p,
            min_p: settings.min_p,
            vocabulary,
        };
        let drawn = sample(logits, config, &streams)?;
        let ids: Vec<i64> = drawn.ids.into_data().convert_dtype(DType::I64).try_into_vec().expect("just converted");
        let logprobs: Vec<f32> = drawn.logprob.into_data().convert_dtype(DType::F32).try_into_vec().expect("the same");
        for ((row, id), logprob) in rows.into_iter().zip(ids).zip(logprobs) {
            choices[row] = Some(Choice { id: id as u32, logprob, filtered: settings.filters(vocabulary) });
        }
    }
    Ok(choices.into_iter().collect())
}

fn select(logits: &Tensor<2>, rows: &[usize]) -> Tensor<2> {
    let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
    let data = TensorData::new(rows.clone(), [rows.len()]);
    logits.clone().select(0, Tensor::<1, Int>::from_data(data, &logits.device()))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    const LOGITS: [[f32; 5]; 3] = [[2.0, 1.0, 0.5, -1.0, 9.0], [0.0, 3.0, 3.0, 1.0, 9.0], [-1.0, 0.25, 0.5, 4.0, 9.0]];

    fn drawn(samplers: &mut [Sampler]) -> Option<Vec<Choice>> {
        let logits = Tensor::<2>::from_floats(LOGITS, &Device::flex());
        draw(&logits, &mut samplers.iter_mut().collect::<Vec<_>>(), 4).unwrap()
    }

    #[test]
    fn greedy_draws_are_the_host_s_and_the_last_id_is_none_of_the_vocabulary() {
        let make = || [1, 2, 3].map(|seed| Sampler::new(SamplingSettings::GREEDY, seed));
        let choices = drawn(&mut make()).unwrap();
        for ((choice, mut sampler), logits) in choices.iter().zip(make()).zip(LOGITS) {
            let host = sampler.choose(&logits[..4]);
            assert_eq!((choice.id, choice.filtered), (host.id, false));
            assert!((choice.logprob - host.logprob).abs() < 1e-6, "{choice:?}, {host:?}");
        }
    }

    #[test]
    fn rows_of_other_settings_do_not_disturb_each_other() {
        let all = SamplingSettings::at(1.0);
        let one = SamplingSettings { top_k: 1, ..all };
        let mut plain = [Sampler::new(all, 7), Sampler::new(all, 8), Sampler::new(all, 9)];
        let mut mixed = [Sampler::new(all, 7), Sampler::new(one, 8), Sampler::new(all, 9)];
        for _ in 0..50 {
            let (plain, mixed) = (drawn(&mut plain).unwrap(), drawn(&mut mixed).unwrap());
            assert_eq!((plain[0], plain[2]), (mixed[0], mixed[2]));
            assert!(mixed[1].filtered && !mixed[0].filtered);
        }
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let mut samplers = [1, 2, 3].map(|seed| Sampler::new(SamplingSettings::at(1.0), seed));
        let mut counts = [0f64; 4];
        for _ in 0..20_000 {
            counts[drawn(&mut samplers).unwrap()[0].id as usize] += 1.0 / 20_000.0;
        }
        for (count, logprob) in counts.iter().zip([-0.495_182f64, -1.495_182, -1.995_182, -3.495_182]) {
            assert!((count - logprob.exp()).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn restricted_samplers_are_left_to_the_host() {
        let free = || Sampler::new(SamplingSettings::at(1.0), 1);
        assert_eq!(drawn(&mut [free(), free().among(vec![1]), free()]), None);
    }
}
