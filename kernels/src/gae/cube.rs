use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::Segments;
use crate::cube::{Limits, Numbers, arg, cube_count, dims, empty};

pub(crate) mod kernels {
    use super::*;

    /// A cube per segment; `offsets` are its bounds.
    #[cube(launch)]
    pub(crate) fn gae_scan(
        rewards: &[f32],
        values: &[f32],
        offsets: &[i32],
        advantages: &mut [f32],
        returns: &mut [f32],
        gamma: f32,
        decay: f32,
        #[comptime] units: usize,
    ) {
        if CUBE_POS + 1 < offsets.len() {
            let from = offsets[CUBE_POS] as usize;
            let to = offsets[CUBE_POS + 1] as usize;
            let stretch = (to - from).div_ceil(units);
            let start = (from + UNIT_POS as usize * stretch).min(to);
            let end = (start + stretch).min(to);
            // What a stretch hands to the one before it: its first advantage if nothing followed, and how much of
            // what does follow arrives there.
            let mut heads = Shared::<[f32]>::new_slice(units);
            let mut factors = Shared::<[f32]>::new_slice(units);
            let mut advantage = f32::new(0.0);
            let mut factor = f32::new(1.0);
            for i in 0..end - start {
                let t = end - 1 - i;
                let mut next = f32::new(0.0);
                if t + 1 < to {
                    next = values[t + 1];
                }
                advantage = rewards[t] + gamma * next - values[t] + decay * advantage;
                factor *= decay;
                advantages[t] = advantage;
            }
            heads[UNIT_POS as usize] = advantage;
            factors[UNIT_POS as usize] = factor;
            sync_cube();
            let mut carry = f32::new(0.0);
            for i in 0..units {
                let u = units - 1 - i;
                if u > UNIT_POS as usize {
                    carry = heads[u] + factors[u] * carry;
                }
            }
            for i in 0..end - start {
                let t = end - 1 - i;
                carry *= decay;
                let value = advantages[t] + carry;
                advantages[t] = value;
                returns[t] = value + values[t];
            }
        }
    }
}

/// Advantages and returns.
pub(crate) fn gae(
    rewards: &CubeTensor,
    values: &CubeTensor,
    segments: &Segments,
    gamma: f32,
    lambda: f32,
) -> (CubeTensor, CubeTensor) {
    let [n] = dims(rewards);
    let (advantages, returns) = (empty(rewards, [n], DType::F32), empty(rewards, [n], DType::F32));
    if n > 0 {
        let client = &rewards.client;
        let limits = Limits::of(client);
        let units = if limits.wide() { 64 } else { limits.narrow_units() };
        let offsets: Vec<i32> = std::iter::once(0)
            .chain(segments.ranges().map(|r| i32::try_from(r.end).expect("tokens that fit the device")))
            .collect();
        kernels::gae_scan::launch(
            client,
            cube_count(client, segments.ranges().len()),
            CubeDim::new_1d(units as u32),
            arg(rewards),
            arg(values),
            Numbers::i32(client, &offsets).arg(),
            arg(&advantages),
            arg(&returns),
            gamma,
            gamma * lambda,
            units,
        );
    }
    (advantages, returns)
}
