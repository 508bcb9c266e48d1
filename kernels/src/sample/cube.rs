//! The CubeCL kernel: a cube per row, several passes over its logits. Thresholds are found by bisecting the bits of
//! z, which in the right order are 32-bit integers: 32 counts for top-k, 32 sums of probability for top-p.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::random::{PARITY, ROTATIONS};
use super::{SampleConfig, Stream};
use crate::cube::{Limits, Numbers, arg, cube_count, dims, element, empty};

/// What the kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Draw {
    pub(crate) greedy: bool,
    pub(crate) top_k: bool,
    pub(crate) top_p: bool,
    pub(crate) min_p: bool,
    pub(crate) units: usize,
}

const LOWEST: f32 = -3.0e38;
/// Distance of random numbers; see [`super::random::uniform`].
const STEP: f32 = 1.0 / 8_388_608.0;

pub(crate) mod kernels {
    use super::*;

    /// Bits whose order as unsigned integers is the order of the numbers.
    #[cube]
    fn ordered(value: f32) -> u32 {
        let bits = u32::reinterpret(value);
        select(bits >= 0x8000_0000u32, !bits, bits | 0x8000_0000u32)
    }

    #[cube]
    fn rotate(word: u32, #[comptime] by: u32) -> u32 {
        (word << by) | (word >> comptime!(32 - by))
    }

    /// First word of Threefry-2x32-20.
    #[cube]
    fn random(key0: u32, key1: u32, counter0: u32, counter1: u32) -> u32 {
        let key2 = PARITY ^ key0 ^ key1;
        let mut a = counter0 + key0;
        let mut b = counter1 + key1;
        #[unroll]
        for round in 0..20u32 {
            a += b;
            b = rotate(b, comptime!(ROTATIONS[(round % 8) as usize])) ^ a;
            if comptime!(round % 4 == 3) {
                let s = comptime!(round / 4 + 1);
                if comptime!(s % 3 == 0) {
                    a += key0;
                    b += key1 + s;
                } else if comptime!(s % 3 == 1) {
                    a += key1;
                    b += key2 + s;
                } else {
                    a += key2;
                    b += key0 + s;
                }
            }
        }
        a
    }

    /// Sum over the cube, seen by every unit. `shared` has a slot per unit.
    #[cube]
    fn total(value: f32, shared: &mut Shared<[f32]>, #[comptime] units: usize) -> f32 {
        sync_cube();
        shared[UNIT_POS as usize] = value;
        sync_cube();
        let mut sum = f32::new(0.0);
        for u in 0..units {
            sum += shared[u];
        }
        sum
    }

    /// Largest value over the cube.
    #[cube]
    fn largest(value: f32, shared: &mut Shared<[f32]>, #[comptime] units: usize) -> f32 {
        sync_cube();
        shared[UNIT_POS as usize] = value;
        sync_cube();
        let mut top = f32::new(LOWEST);
        for u in 0..units {
            top = top.max(shared[u]);
        }
        top
    }

    /// Draws an id per row. `streams` holds seed (low, high) and draw of every row.
    #[cube(launch)]
    pub(crate) fn sample_rows<E: Float>(
        logits: &[E],
        streams: &[u32],
        ids: &mut [i32],
        logprob: &mut [f32],
        inverse_temperature: f32,
        columns: u32,
        vocabulary: u32,
        top_k: u32,
        top_p: f32,
        log_min_p: f32,
        #[comptime] draw: Draw,
        #[define(E)] _dtype: ElemType,
    ) {
        let row = CUBE_POS;
        if row < ids.len() {
            let units = comptime!(draw.units);
            let vocabulary = vocabulary as usize;
            let base = row * columns as usize;
            let mut shared = Shared::<[f32]>::new_slice(units);

            let mut value = f32::new(LOWEST);
            let mut i = UNIT_POS as usize;
            while i < vocabulary {
                value = value.max(f32::cast_from(logits[base + i]) * inverse_temperature);
                i += CUBE_DIM as usize;
            }
            let top = largest(value, &mut shared, units);
            let mut value = f32::new(0.0);
            let mut i = UNIT_POS as usize;
            while i < vocabulary {
                value += (f32::cast_from(logits[base + i]) * inverse_temperature - top).exp();
                i += CUBE_DIM as usize;
            }
            let sum = total(value, &mut shared, units);

            let mut threshold = 0u32;
            if comptime!(draw.min_p) {
                threshold = threshold.max(ordered(top + log_min_p));
            }
            if comptime!(draw.top_k) {
                // The largest number that at least k values reach.
                let mut found = 0u32;
                for step in 0..32u32 {
                    let trial = found | (1u32 << (31u32 - step));
                    let mut count = f32::new(0.0);
                    let mut i = UNIT_POS as usize;
                    while i < vocabulary {
                        let z = f32::cast_from(logits[base + i]) * inverse_temperature;
                        count += select(ordered(z) >= trial, f32::new(1.0), f32::new(0.0));
                        i += CUBE_DIM as usize;
                    }
                    let count = total(count, &mut shared, units);
                    found = select(count >= f32::cast_from(top_k), trial, found);
                }
                threshold = threshold.max(found);
            }
            if comptime!(draw.top_p) {
                // The largest number above which the probability still reaches p.
                let goal = top_p * sum;
                let mut found = 0u32;
                for step in 0..32u32 {
                    let trial = found | (1u32 << (31u32 - step));
                    let mut mass = f32::new(0.0);
                    let mut i = UNIT_POS as usize;
                    while i < vocabulary {
                        let z = f32::cast_from(logits[base + i]) * inverse_temperature;
                        mass += select(ordered(z) >= trial, (z - top).exp(), f32::new(0.0));
                        i += CUBE_DIM as usize;
                    }
                    let mass = total(mass, &mut shared, units);
                    found = select(mass >= goal, trial, found);
                }
                threshold = threshold.max(found);
            }

            let key0 = streams[row * 3];
            let key1 = streams[row * 3 + 1];
            let counter = streams[row * 3 + 2];
            let mut best = f32::new(LOWEST);
            let mut best_id = 0u32;
            let mut i = UNIT_POS as usize;
            while i < vocabulary {
                let z = f32::cast_from(logits[base + i]) * inverse_temperature;
                if ordered(z) >= threshold {
                    let mut score = z;
                    if comptime!(!draw.greedy) {
                        let word = random(key0, key1, counter, i as u32);
                        let u = (f32::cast_from(word >> 9u32) + 0.5) * STEP;
                        score -= (f32::new(0.0) - u.ln()).ln();
                    }
                    if score > best {
                        best = score;
                        best_id = i as u32;
                    }
                }
                i += CUBE_DIM as usize;
            }
            let mut winners = Shared::<[u32]>::new_slice(units);
            sync_cube();
            shared[UNIT_POS as usize] = best;
            winners[UNIT_POS as usize] = best_id;
            sync_cube();
            if UNIT_POS == 0 {
                // Equal scores: the lowest id, as a sequential scan would have it.
                for u in 1..units {
                    let (score, id) = (shared[u], winners[u]);
                    if score > best || (score == best && id < best_id) {
                        best = score;
                        best_id = id;
                    }
                }
                ids[row] = best_id as i32;
                let z = f32::cast_from(logits[base + best_id as usize]) * inverse_temperature;
                logprob[row] = z - top - sum.ln();
            }
        }
    }
}

/// Ids (i32) and log-probabilities.
pub(crate) fn sample(logits: &CubeTensor, config: SampleConfig, streams: &[Stream]) -> (CubeTensor, CubeTensor) {
    let [batch, columns] = dims(logits);
    let (ids, logprob) = (empty(logits, [batch], DType::I32), empty(logits, [batch], DType::F32));
    if batch > 0 {
        let client = &logits.client;
        let limits = Limits::of(client);
        let units = if limits.wide() { limits.units.min(256) } else { limits.narrow_units() };
        let (top_k, top_p, min_p) = config.filters();
        let draw = Draw { greedy: config.temperature == 0.0, top_k, top_p, min_p, units };
        let keys: Vec<u32> = streams.iter().flat_map(|s| [s.seed as u32, (s.seed >> 32) as u32, s.draw]).collect();
        kernels::sample_rows::launch(
            client,
            cube_count(client, batch),
            CubeDim::new_1d(units as u32),
            arg(logits),
            Numbers::u32(client, &keys).arg(),
            arg(&ids),
            arg(&logprob),
            config.inverse_temperature(),
            columns as u32,
            config.vocabulary as u32,
            config.top_k as u32,
            config.top_p,
            config.min_p.ln(),
            draw,
            element(logits.dtype),
        );
    }
    (ids, logprob)
}
