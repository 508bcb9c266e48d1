use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use half::{bf16, f16};
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};

use crate::ModelError;
use crate::qwen2::{HeadKind, Qwen2, Qwen2Config};

/// Loads a model folder as f32.
///
/// With [`HeadKind::Value`] a policy's folder is accepted too: its vocabulary head is left aside and the value head
/// starts at zero.
///
/// # Errors
/// When a file is missing or damaged, a tensor is missing, unknown, of another shape or type, or not finite; the
/// error names file and tensor.
pub fn load(folder: &Path, head: HeadKind, device: &Device) -> Result<Qwen2, ModelError> {
    build(Qwen2Config::load(folder)?, &Shards::open(folder)?, head, device)
}

/// Loads a model whose files are part of the program; `name` is what errors call it.
///
/// # Errors
/// As [`load`].
pub fn load_embedded(
    name: &Path,
    config: &[u8],
    weights: &'static [u8],
    head: HeadKind,
    device: &Device,
) -> Result<Qwen2, ModelError> {
    let config = Qwen2Config::from_json(&name.join("config.json"), config)?;
    let files = vec![(name.join("model.safetensors"), Bytes::Embedded(weights))];
    build(config, &Shards { folder: name.into(), files }, head, device)
}

fn build(config: Qwen2Config, shards: &Shards, head: HeadKind, device: &Device) -> Result<Qwen2, ModelError> {
    let mut tensors = shards.parse()?;
    let mut model = Qwen2::skeleton(config, head, device);
    let mut failure = None;
    model.visit(&mut |name, shape, mut slot| {
        if failure.is_some() {
            return;
        }
        let values = match tensors.remove(name) {
            Some(tensor) => tensor.values(name, shape),
            None if name.starts_with("score.") => Ok(vec![0.0; shape.iter().product()]),
            None => Err(ModelError::Missing {
                path: shards.path_of_absent(),
                tensor: name.into(),
                expected: shape.to_vec(),
            }),
        };
        match values {
            Ok(values) => slot.set(values, shape, device),
            Err(error) => failure = Some(error),
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let tied = model.config().tie_word_embeddings;
    for (name, tensor) in tensors {
        let ignorable =
            name.ends_with("rotary_emb.inv_freq") || name == "lm_head.weight" && (tied || head == HeadKind::Value);
        if !ignorable {
            return Err(ModelError::Extra { path: tensor.path.to_path_buf(), tensor: name });
        }
    }
    Ok(model)
}

/// The weight files of a folder, mapped into memory.
struct Shards {
    folder: PathBuf,
    files: Vec<(PathBuf, Bytes)>,
}

/// A weight file's bytes.
enum Bytes {
    Mapped(Mmap),
    Embedded(&'static [u8]),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Embedded(bytes) => bytes,
        }
    }
}

struct Stored<'a> {
    path: &'a Path,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl Shards {
    fn open(folder: &Path) -> Result<Shards, ModelError> {
        let (single, index) = (folder.join("model.safetensors"), folder.join("model.safetensors.index.json"));
        let paths = if single.exists() {
            vec![single]
        } else if index.exists() {
            shard_files(folder, &index)?
        } else {
            return Err(ModelError::NoWeights { folder: folder.into() });
        };
        let files = paths
            .into_iter()
            .map(|path| {
                let file = File::open(&path).map_err(|e| ModelError::read(&path, e))?;
                // SAFETY: the map is read-only and lives only while loading; a file changed under us gives wrong
                // values, which the finiteness check or the user's eyes catch, never undefined types.
                let map = unsafe { Mmap::map(&file) }.map_err(|e| ModelError::read(&path, e))?;
                Ok((path, Bytes::Mapped(map)))
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Shards { folder: folder.into(), files })
    }

    fn parse(&self) -> Result<BTreeMap<String, Stored<'_>>, ModelError> {
        let mut all = BTreeMap::new();
        for (path, map) in &self.files {
            let file = SafeTensors::deserialize(map.as_ref())
                .map_err(|e| ModelError::Corrupt { path: path.clone(), problem: e.to_string() })?;
            for (name, view) in file.iter() {
                let stored = Stored { path, dtype: view.dtype(), shape: view.shape().to_vec(), bytes: view.data() };
                all.insert(name.to_string(), stored);
            }
        }
        Ok(all)
    }

    /// The file an absent tensor was looked for in.
    fn path_of_absent(&self) -> PathBuf {
        match self.files.as_slice() {
            [(path, _)] => path.clone(),
            _ => self.folder.join("model.safetensors.index.json"),
        }
    }
}

/// The distinct files an index names, in name order.
fn shard_files(folder: &Path, index: &Path) -> Result<Vec<PathBuf>, ModelError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let text = std::fs::read_to_string(index).map_err(|e| ModelError::read(index, e))?;
    let index_file: Index =
        serde_json::from_str(&text).map_err(|e| ModelError::Corrupt { path: index.into(), problem: e.to_string() })?;
    let mut names: Vec<String> = index_file.weight_map.into_values().collect();
    names.sort();
    names.dedup();
    if let Some(name) = names.iter().find(|n| Path::new(n).components().count() != 1) {
        let problem = format!("shard name \"{name}\" leaves the folder");
        return Err(ModelError::Corrupt { path: index.into(), problem });
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

impl Stored<'_> {
    fn values(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, ModelError> {
        let path = self.path.to_path_buf();
        if self.shape != expected {
            return Err(ModelError::Misshapen {
                path,
                tensor: name.into(),
                found: self.shape.clone(),
                expected: expected.to_vec(),
            });
        }
        let values: Vec<f32> = match self.dtype {
            Dtype::F32 => self.convert(|b: [u8; 4]| f32::from_le_bytes(b)),
            Dtype::F16 => self.convert(|b: [u8; 2]| f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => self.convert(|b: [u8; 2]| bf16::from_le_bytes(b).to_f32()),
            other => {
                return Err(ModelError::DType { path, tensor: name.into(), found: format!("{other:?}") });
            }
        };
        match values.par_iter().filter(|v| !v.is_finite()).count() {
            0 => Ok(values),
            count => Err(ModelError::NotFinite { path, tensor: name.into(), count }),
        }
    }

    fn convert<const N: usize>(&self, f: impl Fn([u8; N]) -> f32 + Sync + Send) -> Vec<f32> {
        self.bytes.par_chunks_exact(N).map(|b| f(b.try_into().expect("chunks of N bytes"))).collect()
    }
}
