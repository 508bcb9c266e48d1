//! TensorBoard's event files, written by hand: a file is a row of records
//! `length: u64 ▸ masked crc of the length ▸ data ▸ masked crc of the data`, all little-endian, and each record's data
//! is one `Event` message in the protobuf wire format.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Metrics;
use super::crc32c::masked_crc32c;
use super::error::{MetricsError, io};

/// What the first event of each file says.
const FILE_VERSION: &str = "brain.Event:2";

/// Writes one event file of scalars into a run's folder.
#[derive(Debug)]
pub struct EventWriter {
    file: File,
    path: PathBuf,
}

impl EventWriter {
    /// Starts an event file in `dir`, which is made when missing. Files already there stay as they are.
    ///
    /// # Errors
    /// When the folder or file cannot be made or written.
    pub fn create(dir: impl AsRef<Path>) -> Result<EventWriter, MetricsError> {
        let dir = dir.as_ref();
        std::fs::create_dir_all(dir).map_err(io("create", dir))?;
        let now = seconds_now();
        let (file, path) = fresh_file(dir, now as u64)?;
        let mut writer = EventWriter { file, path };
        writer.record(Event { wall_time: now, step: 0, content: field_bytes(3, FILE_VERSION.as_bytes()) })?;
        Ok(writer)
    }

    /// Starts an event file for a run that resumes with `next_step`: readers then forget what earlier files say about
    /// that step and later ones.
    ///
    /// # Errors
    /// As [`EventWriter::create`].
    pub fn resume(dir: impl AsRef<Path>, next_step: u64) -> Result<EventWriter, MetricsError> {
        let mut writer = EventWriter::create(dir)?;
        // SessionLog { status: START }
        let start = field_varint(1, 1);
        writer.record(Event { wall_time: seconds_now(), step: next_step, content: field_bytes(7, &start) })?;
        Ok(writer)
    }

    /// Writes all values of a record as scalars (f32) of its step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn scalars(&mut self, metrics: &Metrics) -> Result<(), MetricsError> {
        let summary = metrics.iter().flat_map(|(key, value)| {
            let mut scalar = field_bytes(1, key.as_bytes());
            scalar.extend(field_f32(2, value as f32));
            field_bytes(1, &scalar)
        });
        let content = field_bytes(5, &summary.collect::<Vec<u8>>());
        self.record(Event { wall_time: seconds_now(), step: metrics.step(), content })
    }

    /// The event file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn record(&mut self, event: Event) -> Result<(), MetricsError> {
        self.file.write_all(&framed(&event.encode())).map_err(io("write", &self.path))
    }
}

/// A file of a name no other writer has; readers order a run's files by name, hence the time first.
fn fresh_file(dir: &Path, seconds: u64) -> Result<(File, PathBuf), MetricsError> {
    let mut number = 0;
    loop {
        let path = dir.join(format!("events.out.tfevents.{seconds:010}.rlver.{}.{number}", std::process::id()));
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(io("create", &path)(e)),
        }
    }
}

/// Seconds since 1970.
fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The `Event` message; `content` is its one variable field, already encoded.
struct Event {
    wall_time: f64,
    step: u64,
    content: Vec<u8>,
}

impl Event {
    fn encode(&self) -> Vec<u8> {
        let mut message = vec![tag(1, WireType::Fixed64)];
        message.extend(self.wall_time.to_le_bytes());
        message.extend(field_varint(2, self.step));
        message.extend_from_slice(&self.content);
        message
    }
}

/// One record of the file.
fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked_crc32c(&length).to_le_bytes());
    record.extend_from_slice(data);
    record.extend(masked_crc32c(data).to_le_bytes());
    record
}

/// How a protobuf field's value is laid out.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

/// The byte before a value; enough for field numbers below 16.
fn tag(field: u8, wire: WireType) -> u8 {
    field << 3 | wire as u8
}

fn field_varint(field: u8, value: u64) -> Vec<u8> {
    let mut bytes = vec![tag(field, WireType::Varint)];
    push_varint(&mut bytes, value);
    bytes
}

fn field_f32(field: u8, value: f32) -> Vec<u8> {
    let mut bytes = vec![tag(field, WireType::Fixed32)];
    bytes.extend(value.to_le_bytes());
    bytes
}

fn field_bytes(field: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag(field, WireType::Bytes)];
    push_varint(&mut bytes, value.len() as u64);
    bytes.extend_from_slice(value);
    bytes
}

/// Seven bits a byte, lowest first; the high bit says that more follow.
fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
