use std::path::{Path, PathBuf};

/// Why metrics cannot be written or read back.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The file system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A new log was asked for where one already lies.
    #[error("{path} already exists; resume that run or choose another run folder")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A complete line that is not a record.
    #[error("{path}, line {line}: {problem}; mend or remove the line")]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// Adds what was tried, and on which file, to an I/O error.
pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> MetricsError {
    move |source| MetricsError::Io { action, path: path.to_path_buf(), source }
}
