use std::path::Path;

use half::bf16;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize_to_file};
use serde_json::json;

use crate::ModelError;
use crate::qwen2::{HeadKind, Qwen2};

/// Largest weight file written; larger models are sharded.
const MAX_SHARD_BYTES: usize = 5_000_000_000;

/// The type weights are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightType {
    /// 32-bit floats: exact.
    F32,
    /// bfloat16: half the size, rounded to nearest even.
    Bf16,
}

impl WeightType {
    fn name(self) -> &'static str {
        match self {
            WeightType::F32 => "float32",
            WeightType::Bf16 => "bfloat16",
        }
    }
}

/// A tensor ready to be written: name, shape and bytes.
type Encoded = (String, Vec<usize>, Vec<u8>);

/// Writes `config.json` and the weights into an existing folder, in Hugging Face's layout. A tied head is not
/// written twice.
///
/// # Errors
/// When a file cannot be written.
pub fn save(model: &Qwen2, folder: &Path, dtype: WeightType) -> Result<(), ModelError> {
    save_sharded(model, folder, dtype, MAX_SHARD_BYTES)
}

fn save_sharded(model: &Qwen2, folder: &Path, dtype: WeightType, max_bytes: usize) -> Result<(), ModelError> {
    let config = model.config().to_json(dtype.name(), model.head_kind() == HeadKind::Value);
    write_text(&folder.join("config.json"), &format!("{config:#}\n"))?;
    let tensors: Vec<Encoded> = model
        .parameters()
        .into_iter()
        .map(|(name, parameter)| (name, parameter.shape(), encode(&parameter.values(), dtype)))
        .collect();
    let mut shards: Vec<Vec<&Encoded>> = vec![vec![]];
    let mut bytes = 0;
    for tensor in &tensors {
        if bytes > 0 && bytes + tensor.2.len() > max_bytes {
            shards.push(vec![]);
            bytes = 0;
        }
        bytes += tensor.2.len();
        shards.last_mut().expect("never empty").push(tensor);
    }
    if let [all] = shards.as_slice() {
        return write_shard(&folder.join("model.safetensors"), all, dtype);
    }
    let mut weight_map = serde_json::Map::new();
    for (i, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", i + 1, shards.len());
        write_shard(&folder.join(&file), shard, dtype)?;
        weight_map.extend(shard.iter().map(|(name, ..)| (name.clone(), json!(file))));
    }
    let total: usize = tensors.iter().map(|t| t.2.len()).sum();
    let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
    write_text(&folder.join("model.safetensors.index.json"), &format!("{index:#}\n"))
}

fn encode(values: &[f32], dtype: WeightType) -> Vec<u8> {
    match dtype {
        WeightType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        WeightType::Bf16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
    }
}

fn write_shard(path: &Path, tensors: &[&Encoded], dtype: WeightType) -> Result<(), ModelError> {
    let dtype = match dtype {
        WeightType::F32 => Dtype::F32,
        WeightType::Bf16 => Dtype::BF16,
    };
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(dtype, shape.clone(), bytes).expect("bytes and shape come from one parameter");
        (name.as_str(), view)
    });
    let metadata = Some([("format".to_string(), "pt".to_string())].into());
    serialize_to_file(views, metadata, path)
        .map_err(|e| ModelError::write(path, std::io::Error::other(e.to_string())))?;
    // The library leaves a file that only its owner may read; weights are as readable as the configuration beside them.
    std::fs::metadata(path.with_file_name("config.json"))
        .and_then(|config| std::fs::set_permissions(path, config.permissions()))
        .map_err(|e| ModelError::write(path, e))
}

fn write_text(path: &Path, text: &str) -> Result<(), ModelError> {
    std::fs::write(path, text).map_err(|e| ModelError::write(path, e))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::qwen2::{Qwen2Config, Qwen2Shape};
    use crate::weights::load;

    #[test]
    fn shards_and_whole_files_load_to_the_same_weights() {
        let shape = Qwen2Shape {
            vocab_size: 40,
            hidden_size: 16,
            intermediate_size: 24,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            max_positions: 64,
        };
        let mut state = 0.1f64;
        let model = Qwen2::init(Qwen2Config::new(shape), &Device::flex(), || {
            state = (state * 977.0).fract();
            state - 0.5
        });
        for max_bytes in [usize::MAX, 2_000] {
            let folder = tempfile::tempdir().unwrap();
            save_sharded(&model, folder.path(), WeightType::F32, max_bytes).unwrap();
            assert_eq!(folder.path().join("model.safetensors").exists(), max_bytes == usize::MAX);
            let back = load(folder.path(), HeadKind::Vocabulary, &Device::flex()).unwrap();
            for ((name, a), (_, b)) in model.parameters().iter().zip(back.parameters()) {
                assert_eq!(a.values(), b.values(), "{name}");
            }
        }
    }
}
