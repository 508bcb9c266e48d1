//! How a measuring process and whoever drives it talk: one JSON object a line.
//!
//! The process prepares, does one run to warm up, and says `{"ready": true}`. For every line it then reads it does one run
//! and answers with a [`Sample`]. At the end of its input it says `{"peak_rss_bytes": …}` and ends.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{BenchError, ModelSource, Stage, peak_rss_bytes};

/// One timed run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Wall time.
    pub seconds: f64,
    /// Tokens of the batch.
    pub tokens: usize,
    /// What else is known of it, by name.
    #[serde(default)]
    pub parts: BTreeMap<String, f64>,
}

impl Sample {
    pub(super) fn new(seconds: f64, tokens: usize) -> Sample {
        Sample { seconds, tokens, parts: BTreeMap::new() }
    }

    pub(super) fn note(&mut self, name: &str, value: f64) {
        self.parts.insert(name.into(), value);
    }
}

/// The measuring process.
///
/// # Errors
/// When the stage cannot be prepared or run, or nobody listens.
pub fn serve(
    stage: Stage,
    source: &ModelSource,
    device_name: &str,
    device: &Device,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), BenchError> {
    let mut say = |value: serde_json::Value| {
        writeln!(output, "{value}")
            .and_then(|()| output.flush())
            .map_err(|source| BenchError::Io { path: Path::new("standard output").into(), source })
    };
    let mut measured = stage.prepare(source, device_name, device)?;
    measured.once()?;
    say(json!({"ready": true}))?;
    for line in input.lines() {
        line.map_err(|source| BenchError::Io { path: Path::new("standard input").into(), source })?;
        say(json!(measured.once()?))?;
    }
    say(json!({"peak_rss_bytes": peak_rss_bytes()}))
}
