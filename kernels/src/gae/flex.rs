use rayon::prelude::*;

use crate::Segments;

/// Advantages and returns.
pub(crate) fn gae(
    rewards: &[f32],
    values: &[f32],
    segments: &Segments,
    gamma: f32,
    lambda: f32,
) -> (Vec<f32>, Vec<f32>) {
    let n = values.len();
    let (mut advantages, mut returns) = (vec![0.0; n], vec![0.0; n]);
    let (mut rest_a, mut rest_r) = (advantages.as_mut_slice(), returns.as_mut_slice());
    let mut rows = Vec::with_capacity(segments.ranges().len());
    for range in segments.ranges() {
        let (a, others_a) = rest_a.split_at_mut(range.len());
        let (r, others_r) = rest_r.split_at_mut(range.len());
        (rest_a, rest_r) = (others_a, others_r);
        rows.push((range, a, r));
    }
    rows.into_par_iter().for_each(|(range, advantages, returns)| {
        let (rewards, values) = (&rewards[range.clone()], &values[range]);
        let (mut next_value, mut next_advantage) = (0.0, 0.0);
        for t in (0..values.len()).rev() {
            let delta = rewards[t] + gamma * next_value - values[t];
            next_advantage = delta + gamma * lambda * next_advantage;
            next_value = values[t];
            advantages[t] = next_advantage;
            returns[t] = next_advantage + values[t];
        }
    });
    (advantages, returns)
}
