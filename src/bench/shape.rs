use burn::tensor::Device;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rlver_models::qwen2::{Qwen2, Qwen2Config, Qwen2Shape};

use super::BenchError;
use crate::train::{load_config, load_network};

/// A network's sizes by name or by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// As it was given.
    pub name: String,
    /// The sizes.
    pub sizes: Qwen2Shape,
}

/// About 3.8 million parameters.
const SMALL: Qwen2Shape = Qwen2Shape {
    vocab_size: 4096,
    hidden_size: 256,
    intermediate_size: 704,
    layers: 4,
    heads: 8,
    kv_heads: 2,
    max_positions: 16_384,
};

/// The sizes of SmolLM2-135M.
const SMOLLM2: Qwen2Shape = Qwen2Shape {
    vocab_size: 49_152,
    hidden_size: 576,
    intermediate_size: 1536,
    layers: 30,
    heads: 9,
    kv_heads: 3,
    max_positions: 16_384,
};

impl Shape {
    /// Reads `small`, `smollm2`, or `key=number` pairs that change `small`: `h`, `layers`, `heads`, `kv`, `ffn`, `vocab`.
    ///
    /// # Errors
    /// Names the pair that cannot be read or the sizes that do not fit together.
    pub fn parse(given: &str) -> Result<Shape, BenchError> {
        let wrong = |problem: String| BenchError::Shape { given: given.into(), problem };
        let sizes = match given {
            "small" => SMALL,
            "smollm2" => SMOLLM2,
            _ => {
                let mut sizes = SMALL;
                for pair in given.split(',') {
                    let (key, value) = pair.split_once('=').ok_or_else(|| wrong(format!("\"{pair}\" is no pair")))?;
                    let value: usize = value
                        .parse()
                        .ok()
                        .filter(|n| (1..=1 << 20).contains(n))
                        .ok_or_else(|| wrong(format!("\"{value}\" is no size")))?;
                    *match key {
                        "h" => &mut sizes.hidden_size,
                        "layers" => &mut sizes.layers,
                        "heads" => &mut sizes.heads,
                        "kv" => &mut sizes.kv_heads,
                        "ffn" => &mut sizes.intermediate_size,
                        "vocab" => &mut sizes.vocab_size,
                        _ => return Err(wrong(format!("\"{key}\" is no size of a network"))),
                    } = value;
                }
                sizes
            }
        };
        if !sizes.heads.is_multiple_of(sizes.kv_heads) {
            return Err(wrong(format!("kv = {} does not divide heads = {}", sizes.kv_heads, sizes.heads)));
        }
        if !sizes.hidden_size.is_multiple_of(2 * sizes.heads) {
            return Err(wrong(format!("h = {} gives no even head width for {} heads", sizes.hidden_size, sizes.heads)));
        }
        Ok(Shape { name: given.into(), sizes })
    }
}

/// Which network is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// Random weights of a shape.
    Shape(Shape),
    /// A checkpoint, as recipes name it.
    Checkpoint(String),
}

impl ModelSource {
    /// What to call it.
    pub fn name(&self) -> &str {
        match self {
            ModelSource::Shape(shape) => &shape.name,
            ModelSource::Checkpoint(name) => name,
        }
    }

    /// The network.
    ///
    /// # Errors
    /// When a checkpoint cannot be loaded.
    pub fn network(&self, device: &Device) -> Result<Qwen2, BenchError> {
        match self {
            ModelSource::Shape(shape) => Ok(random_network(Qwen2Config::new(shape.sizes), device)),
            ModelSource::Checkpoint(name) => Ok(load_network(name, "", device)?),
        }
    }

    /// Its architecture, without its weights.
    ///
    /// # Errors
    /// When a checkpoint's `config.json` cannot be read.
    pub fn config(&self) -> Result<Qwen2Config, BenchError> {
        match self {
            ModelSource::Shape(shape) => Ok(Qwen2Config::new(shape.sizes)),
            ModelSource::Checkpoint(name) => Ok(load_config(name, "")?),
        }
    }
}

/// A network of random weights. Uniform instead of normal numbers: a tenth of the time, and speed is all that counts.
pub(crate) fn random_network(config: Qwen2Config, device: &Device) -> Qwen2 {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // Variance 1: uniform on ±√3.
    let unit = 3f64.sqrt() * 2.0 / f64::from(u32::MAX);
    Qwen2::init(config, device, move || f64::from(rng.next_u32()) * unit - 3f64.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_and_impossible_ones_named() {
        assert_eq!(Shape::parse("h=64,heads=4,kv=2").unwrap().sizes.hidden_size, 64);
        for (given, part) in [("h64", "no pair"), ("w=3", "no size of"), ("h=x", "no size"), ("heads=3", "not divide")]
        {
            let said = Shape::parse(given).unwrap_err().to_string();
            assert!(said.contains(part) && said.contains("expected small"), "{said}");
        }
    }
}
