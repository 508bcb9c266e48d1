use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::Slots;
use crate::cube::{Numbers, arg, cube_count, dense, dense_as, dims, element};

pub(crate) mod kernels {
    use super::*;

    /// Copies token t of `new` to row `rows[t]` of `cache`, both with rows of `width`. A unit per number.
    #[cube(launch)]
    pub(crate) fn cache_scatter<E: Numeric>(
        new: &[E],
        rows: &[i32],
        cache: &mut [E],
        width: u32,
        #[define(E)] _dtype: ElemType,
    ) {
        if ABSOLUTE_POS < new.len() {
            let width = width as usize;
            let row = rows[ABSOLUTE_POS / width] as usize;
            cache[row * width + ABSOLUTE_POS % width] = new[ABSOLUTE_POS];
        }
    }
}

/// Writes `new` `[tokens, kv_heads, head_dim]` into the cache, in place when nobody else holds it.
pub(crate) fn write(cache: CubeTensor, new: CubeTensor, slots: &Slots) -> CubeTensor {
    let cache = dense(cache);
    let cache = if cache.can_mut() { cache } else { cache.copy() };
    let new = dense_as(new, cache.dtype);
    let [_, capacity, kv_heads, head_dim] = dims(&cache);
    let width = kv_heads * head_dim;
    let numbers = slots.0.len() * width;
    if numbers > 0 {
        debug_assert!(matches!(cache.dtype, DType::F32 | DType::F16 | DType::BF16));
        let client = &cache.client;
        let rows: Vec<i32> = slots
            .0
            .iter()
            .map(|(row, position)| i32::try_from(row * capacity + position).expect("a cache that fits the device"))
            .collect();
        kernels::cache_scatter::launch(
            client,
            cube_count(client, numbers.div_ceil(64)),
            CubeDim::new_1d(64),
            arg(&new),
            Numbers::i32(client, &rows).arg(),
            arg(&cache),
            width as u32,
            element(cache.dtype),
        );
    }
    cache
}
