//! The fitted numbers as they are stored: one JSON file of some tens of kilobytes.

use serde::{Deserialize, Serialize};

use super::grams::BUCKETS;
use super::trees::Tree;

/// Everything that was fitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Fingerprint of the measures' names: weights fit one version of the measures only.
    pub(super) measures: u64,
    /// Reads measures only: any language.
    pub(super) plain: Head,
    /// Reads measures and n-grams of the reply.
    pub(super) reply: Head,
    /// Reads the line that is answered as well.
    pub(super) context: Head,
    /// The head that reads recorded history (see [`super::history`]), the recorded state, the reply's measures and those of
    /// the answered line; intercept last.
    pub(super) history: Vec<f32>,
    /// The baseline that never reads the reply; intercept last.
    pub(super) state: Vec<f32>,
    pub(super) gate: Gate,
}

/// A linear score with its cuts into changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) intercept: f32,
    pub(super) measures: Vec<f32>,
    pub(super) grams: Places,
    /// n-grams of how the reply begins.
    pub(super) opening: Places,
    pub(super) line: Places,
    pub(super) line_opening: Places,
    pub(super) context: Vec<f32>,
    /// |score| from which the change is 10: `[band C, B, A][fall, rise]`.
    pub(super) ten: [[f32; 2]; 3],
}

/// Tells honest replies from edited ones; above the threshold a reply counts as edited.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gate {
    pub(super) trees: Vec<Tree>,
    pub(super) threshold: f32,
}

/// One number per place of the n-grams, in 61 levels.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Packed", into = "Packed")]
pub(super) struct Places(pub(super) Vec<f32>);

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    largest: f32,
    levels: String,
}

/// Levels on each side of zero. The step grows with the value, since most values are small.
const LEVELS: f32 = 30.0;
/// The character of level −30; all others follow it, without quotes and backslash.
const FIRST: u8 = b'#';

fn character(level: i8) -> char {
    let code = FIRST + (level + LEVELS as i8) as u8;
    char::from(if code >= b'\\' { code + 1 } else { code })
}

fn level(c: char) -> Option<i8> {
    let code = u8::try_from(c).ok()?;
    let code = if code > b'\\' { code - 1 } else { code };
    let level = i16::from(code) - i16::from(FIRST) - LEVELS as i16;
    (level.abs() <= LEVELS as i16).then_some(level as i8)
}

impl From<Places> for Packed {
    fn from(places: Places) -> Packed {
        let largest = places.0.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let pack = |v: &f32| {
            let size = if largest > 0.0 { (v.abs() / largest).sqrt() * LEVELS } else { 0.0 };
            character((size.round() * v.signum()) as i8)
        };
        Packed { largest, levels: places.0.iter().map(pack).collect() }
    }
}

impl TryFrom<Packed> for Places {
    type Error = String;

    fn try_from(packed: Packed) -> Result<Places, String> {
        let read = |c: char| {
            let level = f32::from(level(c).ok_or_else(|| format!("'{c}' is no level of an n-gram weight"))?);
            Ok::<f32, String>(level.signum() * (level / LEVELS).powi(2) * packed.largest)
        };
        let values: Vec<f32> = packed.levels.chars().map(read).collect::<Result<_, _>>()?;
        if values.is_empty() || values.len() == BUCKETS {
            Ok(Places(values))
        } else {
            Err(format!("{} n-gram weights; expected {BUCKETS} or none", values.len()))
        }
    }
}

impl Places {
    /// Sum over a text's n-grams.
    pub(super) fn product(&self, grams: &[(u32, f32)]) -> f32 {
        if self.0.is_empty() { 0.0 } else { grams.iter().map(|(place, v)| self.0[*place as usize] * v).sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_weights_come_back_within_a_level() {
        let values: Vec<f32> = (0..BUCKETS).map(|i| ((i as f32) * 0.37).sin().powi(3) * 0.8).collect();
        let json = serde_json::to_string(&Places(values.clone())).unwrap();
        assert!(json.len() < BUCKETS + 100, "one byte a weight, no escapes");
        let back: Places = serde_json::from_str(&json).unwrap();
        for (a, b) in values.iter().zip(&back.0) {
            assert!((a - b).abs() <= 0.8 / LEVELS, "{a} {b}");
            assert!(a.signum() == b.signum() || *b == 0.0);
        }
        let wrong = json.replacen("levels\":\"", "levels\":\"é", 1);
        assert!(serde_json::from_str::<Places>(&wrong).is_err());
    }
}
