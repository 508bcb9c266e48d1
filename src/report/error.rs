use std::path::PathBuf;

use crate::metrics::MetricsError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not a run's folder.
    #[error(
        "{0} is no run folder: it holds neither metrics.jsonl nor episodes; name a folder that `rlver train` wrote"
    )]
    NotARun(PathBuf),
    /// A file of the run cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// An episode that cannot be read.
    #[error("{path}, line {line}: this is no episode of this version: {problem}; delete the file to leave it out")]
    Episode {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The run's metrics.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The server of `--watch`.
    #[error("cannot serve on {address}: {problem}; choose another port with --port")]
    Serve {
        /// Where it should listen.
        address: String,
        /// The cause.
        problem: String,
    },
}

impl ReportError {
    pub(super) fn read(path: &std::path::Path, source: std::io::Error) -> ReportError {
        ReportError::Read { path: path.to_path_buf(), source }
    }
}
