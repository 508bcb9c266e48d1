use burn::tensor::{Device, Tensor};
use rlver_kernels::ShapeError;

use crate::qwen2::Qwen2Config;

/// Keys and values of every layer, `[rows, capacity, kv_heads, head_dim]` each, allocated once and written in place.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<Option<(Tensor<4>, Tensor<4>)>>,
    rows: usize,
    capacity: usize,
}

impl KvCache {
    /// Room for `rows` sequences of up to `capacity` tokens.
    pub fn new(config: &Qwen2Config, rows: usize, capacity: usize, device: &Device) -> KvCache {
        let shape = [rows, capacity, config.num_key_value_heads, config.head_dim];
        let zeros = || Tensor::<4>::zeros(shape, device);
        let layers = (0..config.num_hidden_layers).map(|_| Some((zeros(), zeros()))).collect();
        KvCache { layers, rows, capacity }
    }

    /// Number of sequences it can hold.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Tokens per sequence.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes it occupies (f32).
    pub fn bytes(config: &Qwen2Config, rows: usize, capacity: usize) -> usize {
        2 * 4 * config.num_hidden_layers * rows * capacity * config.num_key_value_heads * config.head_dim
    }

    /// Hands a layer's keys and values to `f` by value, so that it can write in place, and takes them back.
    pub(crate) fn update(
        &mut self,
        layer: usize,
        f: impl FnOnce(Tensor<4>, Tensor<4>) -> Result<(Tensor<4>, Tensor<4>), ShapeError>,
    ) -> Result<(), ShapeError> {
        let (keys, values) = self.layers[layer].take().expect("every layer is put back, or the cache is dropped");
        self.layers[layer] = Some(f(keys, values)?);
        Ok(())
    }

    /// A layer's keys and values, for reading.
    pub(crate) fn layer(&self, layer: usize) -> (Tensor<4>, Tensor<4>) {
        self.layers[layer].clone().expect("every layer is put back")
    }
}
