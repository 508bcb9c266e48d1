/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A shape that cannot be read.
    #[error(
        "--shape {given}: {problem}; expected small, smollm2, or sizes such as h=256,layers=4,heads=8,kv=2,ffn=704,vocab=4096"
    )]
    Shape {
        /// What was given.
        given: String,
        /// What is wrong.
        problem: String,
    },
    /// A stage that does not exist.
    #[error(
        "--stage {0}: unknown; expected gemm, prefill, decode-1, decode-8, update, step, dialogue-N or packed-N (N tokens)"
    )]
    Stage(String),
    /// The child process of a stage.
    #[error("the process that measures {stage} {problem}")]
    Child {
        /// The stage.
        stage: String,
        /// What happened.
        problem: String,
    },
    /// The file system.
    #[error("cannot use {path} while measuring: {source}; check that it is writable and the disk has room")]
    Io {
        /// The file or folder.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// What is measured failed.
    #[error(transparent)]
    Run(#[from] crate::Error),
}

impl From<rlver_models::ModelError> for BenchError {
    fn from(error: rlver_models::ModelError) -> BenchError {
        BenchError::Run(error.into())
    }
}
