use std::path::{Path, PathBuf};

use rlver_kernels::ShapeError;

/// Why a model cannot be loaded, run or saved. Every message names the input and what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are what the messages say they are
pub enum ModelError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; check that the folder is writable and the disk has room")]
    Write { path: PathBuf, source: std::io::Error },
    /// `config.json` is not what it should be.
    #[error("{path}: key `{key}` {problem}")]
    Config { path: PathBuf, key: String, problem: String },
    /// `config.json` asks for something that is not implemented.
    #[error("{path}: `{key}` = {found} is not implemented; supported: {supported}")]
    Unsupported { path: PathBuf, key: String, found: String, supported: &'static str },
    /// A folder holds no weights.
    #[error("{folder} holds neither model.safetensors nor model.safetensors.index.json")]
    NoWeights { folder: PathBuf },
    /// A weight file is damaged.
    #[error("{path} is damaged or truncated ({problem}); download or save it again")]
    Corrupt { path: PathBuf, problem: String },
    /// A tensor the configuration needs is not there.
    #[error("{path}: tensor `{tensor}` (shape {expected:?}) is missing")]
    Missing { path: PathBuf, tensor: String, expected: Vec<usize> },
    /// A tensor the configuration does not know.
    #[error("{path}: tensor `{tensor}` does not belong to this configuration; is config.json the right one?")]
    Extra { path: PathBuf, tensor: String },
    /// A tensor of another shape.
    #[error("{path}: tensor `{tensor}` has shape {found:?}, config.json asks for {expected:?}")]
    Misshapen { path: PathBuf, tensor: String, found: Vec<usize>, expected: Vec<usize> },
    /// A tensor of a type that cannot be read.
    #[error("{path}: tensor `{tensor}` has type {found}; supported: F32, F16, BF16")]
    DType { path: PathBuf, tensor: String, found: String },
    /// A weight that is not a number.
    #[error("{path}: tensor `{tensor}` holds {count} values that are NaN or infinite; the checkpoint is unusable")]
    NotFinite { path: PathBuf, tensor: String, count: usize },
    /// Token ids the model does not know.
    #[error(
        "token id {id} is outside the model's vocabulary of {vocabulary}; does the tokenizer belong to this model?"
    )]
    TokenId { id: u32, vocabulary: usize },
    /// Tensors that do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl ModelError {
    pub(crate) fn read(path: &Path, source: std::io::Error) -> ModelError {
        ModelError::Read { path: path.to_path_buf(), source }
    }

    pub(crate) fn write(path: &Path, source: std::io::Error) -> ModelError {
        ModelError::Write { path: path.to_path_buf(), source }
    }
}
