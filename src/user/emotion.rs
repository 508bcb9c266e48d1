use serde::{Deserialize, Serialize};

use super::Appraisal;

/// A simulated user's emotion: an integer from 0 to 100.
///
/// The only way to change it is [`Emotion::after`], so every score of a run can be re-derived from the written
/// appraisals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Emotion(u8);

impl Emotion {
    /// The emotion with the given score, or `None` outside 0–100.
    pub fn new(score: i64) -> Option<Emotion> {
        (0..=100).contains(&score).then_some(Emotion(score as u8))
    }

    /// The score, 0–100.
    pub fn score(self) -> u8 {
        self.0
    }

    /// The emotion after an appraisal: its change, clamped to ±10, added and kept within 0–100.
    pub fn after(self, appraisal: &Appraisal) -> Emotion {
        let change = i32::from(appraisal.change).clamp(-Appraisal::MAX_CHANGE, Appraisal::MAX_CHANGE);
        Emotion((i32::from(self.0) + change).clamp(0, 100) as u8)
    }

    /// The band the score lies in.
    pub fn band(self) -> Band {
        match self.0 {
            100.. => Band::S,
            70..=99 => Band::A,
            40..=69 => Band::B,
            10..=39 => Band::C,
            _ => Band::F,
        }
    }

    /// The reward a dialogue earns that ends with this emotion: score / 100 (RLVER, section 2.2).
    pub fn reward(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl TryFrom<i64> for Emotion {
    type Error = String;

    fn try_from(score: i64) -> Result<Emotion, String> {
        Emotion::new(score).ok_or_else(|| format!("emotion {score} is outside 0-100"))
    }
}

impl From<Emotion> for i64 {
    fn from(emotion: Emotion) -> i64 {
        i64::from(emotion.0)
    }
}

impl std::fmt::Display for Emotion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// How an emotion shows: the five bands of SAGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Band {
    /// Below 10: gives up and says goodbye. A failure.
    F,
    /// 10–39: low.
    C,
    /// 40–69: middling.
    B,
    /// 70–99: good.
    A,
    /// 100: content, thanks and says goodbye. A success.
    S,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(change: i8) -> Appraisal {
        Appraisal { change, ..Appraisal::default() }
    }

    #[test]
    fn changes_are_clamped_to_ten_and_scores_to_the_scale() {
        let forty = Emotion::new(40).unwrap();
        assert_eq!(forty.after(&change(127)).score(), 50);
        assert_eq!(forty.after(&change(-128)).score(), 30);
        assert_eq!(Emotion::new(97).unwrap().after(&change(10)).score(), 100);
        assert_eq!(Emotion::new(3).unwrap().after(&change(-10)).score(), 0);
        assert_eq!(Emotion::new(101), None);
    }

    #[test]
    fn bands_have_the_published_edges() {
        let band = |score| Emotion::new(score).unwrap().band();
        assert_eq!([band(100), band(99), band(70), band(69)], [Band::S, Band::A, Band::A, Band::B]);
        assert_eq!([band(40), band(39), band(10), band(9)], [Band::B, Band::C, Band::C, Band::F]);
    }
}
