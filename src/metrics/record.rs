use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::error::{MetricsError, io};

/// The key every record starts with.
const STEP: &str = "step";

/// The numbers of one step, in the order they were inserted. [`super::KEYS`] says what each key means.
///
/// As JSON: one object, `step` first; a value that is NaN or infinite is `null`, and reads back as NaN.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    step: u64,
    values: Vec<(String, f64)>,
}

impl Metrics {
    /// An empty record of `step`.
    pub fn new(step: u64) -> Metrics {
        Metrics { step, values: Vec::new() }
    }

    /// The training step the numbers belong to.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Sets `key`; a key that is already there keeps its place and gets the new value.
    ///
    /// # Panics
    /// When `key` is `step`, which is set once, by [`Metrics::new`].
    pub fn insert(&mut self, key: impl Into<String>, value: f64) {
        let key = key.into();
        assert_ne!(key, STEP, "the step of a record is set by Metrics::new");
        match self.values.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.values.push((key, value)),
        }
    }

    /// The value of `key`, if it was inserted.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| *value)
    }

    /// All keys but the step, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(key, value)| (key.as_str(), *value))
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.values.len()))?;
        map.serialize_entry(STEP, &self.step)?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, &Some(value).filter(|v| v.is_finite()))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
        let mut map = Map::deserialize(deserializer)?;
        let step = map.shift_remove(STEP).ok_or_else(|| D::Error::missing_field(STEP))?;
        let step = step
            .as_u64()
            .ok_or_else(|| D::Error::custom(format!("key `step` is {step}, expected a whole number from 0")))?;
        let values = map.into_iter().map(|(key, value)| match value {
            Value::Null => Ok((key, f64::NAN)),
            Value::Number(number) if number.as_f64().is_some() => Ok((key, number.as_f64().unwrap_or(f64::NAN))),
            other => Err(D::Error::custom(format!("key `{key}` is {other}, expected a number or null"))),
        });
        Ok(Metrics { step, values: values.collect::<Result<_, _>>()? })
    }
}

/// `metrics.jsonl`: one record a line, each written in one piece.
///
/// A process that dies while writing can leave a last line without its end. Reading and continuing both expect that:
/// such a *torn* line was never a record and is left out. A damaged line elsewhere is an error.
#[derive(Debug)]
pub struct MetricsLog {
    file: File,
    path: PathBuf,
}

impl MetricsLog {
    /// Starts a new log.
    ///
    /// # Errors
    /// When the file exists already or cannot be made.
    pub fn create(path: impl AsRef<Path>) -> Result<MetricsLog, MetricsError> {
        let path = path.as_ref();
        match OpenOptions::new().append(true).create_new(true).open(path) {
            Ok(file) => Ok(MetricsLog { file, path: path.to_path_buf() }),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(MetricsError::Exists { path: path.to_path_buf() }),
            Err(e) => Err(io("create", path)(e)),
        }
    }

    /// Continues a log, or starts one; a torn last line is removed first.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else than records.
    pub fn append(path: impl AsRef<Path>) -> Result<MetricsLog, MetricsError> {
        let path = path.as_ref();
        MetricsLog::truncate_after(path, u64::MAX)?;
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(io("open", path))?;
        Ok(MetricsLog { file, path: path.to_path_buf() })
    }

    /// Writes one record and hands it to the operating system.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, metrics: &Metrics) -> Result<(), MetricsError> {
        let line = line_of(metrics).map_err(io("write", &self.path))?;
        self.file.write_all(&line).map_err(io("write", &self.path))
    }

    /// Prepares a log for a run that resumes after `step`: drops records of later steps and a torn last line. Kept
    /// records keep their bytes, and the old file stays in place until the new one is complete. Returns how many
    /// lines were dropped; a missing file has none.
    ///
    /// # Errors
    /// When the file cannot be read or replaced, or a complete line is not a record.
    pub fn truncate_after(path: impl AsRef<Path>, step: u64) -> Result<usize, MetricsError> {
        let path = path.as_ref();
        let old = match std::fs::read(path) {
            Ok(old) => old,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
            Err(e) => return Err(io("read", path)(e)),
        };
        let mut kept = Vec::with_capacity(old.len() + 1);
        let mut dropped = 0;
        for line in lines(&old, path) {
            match line? {
                (line, Some(metrics)) if metrics.step <= step => {
                    kept.extend_from_slice(line);
                    if !line.ends_with(b"\n") {
                        kept.push(b'\n');
                    }
                }
                _ => dropped += 1,
            }
        }
        if kept != old {
            let mut name = path.as_os_str().to_owned();
            name.push(".tmp");
            let fresh = PathBuf::from(name);
            let mut file = File::create(&fresh).map_err(io("create", &fresh))?;
            file.write_all(&kept).and_then(|()| file.sync_all()).map_err(io("write", &fresh))?;
            std::fs::rename(&fresh, path).map_err(io("replace", path))?;
        }
        Ok(dropped)
    }

    /// Reads all records; a torn last line is left out.
    ///
    /// # Errors
    /// When the file cannot be read, or a complete line is not a record.
    pub fn read(path: impl AsRef<Path>) -> Result<Vec<Metrics>, MetricsError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(io("read", path))?;
        lines(&bytes, path).filter_map(|line| line.map(|(_, metrics)| metrics).transpose()).collect()
    }
}

/// The record with its line end.
fn line_of(metrics: &Metrics) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(metrics)?;
    line.push(b'\n');
    Ok(line)
}

/// Each line that is not blank, end included, with its record; no record for a torn last line.
///
/// The beginning of an object is never an object, so a last line that parses is whole even without its line end.
fn lines<'a>(
    bytes: &'a [u8],
    path: &'a Path,
) -> impl Iterator<Item = Result<(&'a [u8], Option<Metrics>), MetricsError>> {
    let numbered = bytes.split_inclusive(|b| *b == b'\n').enumerate();
    numbered.filter(|(_, line)| !line.trim_ascii().is_empty()).map(move |(index, line)| {
        match serde_json::from_slice(line) {
            Ok(metrics) => Ok((line, Some(metrics))),
            Err(_) if !line.ends_with(b"\n") => Ok((line, None)),
            Err(e) => Err(MetricsError::Line { path: path.to_path_buf(), line: index + 1, problem: format!("{e}") }),
        }
    })
}
