use std::sync::Arc;

use crate::ShapeError;

/// Where packed sequences begin and end along the token axis (`cu_seqlens`): offsets `[0, …, tokens]`, never
/// decreasing. A segment may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments(Arc<[usize]>);

impl Segments {
    /// Segments from their lengths.
    pub fn from_lengths(lengths: impl IntoIterator<Item = usize>) -> Segments {
        let mut offsets = vec![0];
        offsets.extend(lengths.into_iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        Segments(offsets.into())
    }

    /// Segments from cumulative offsets.
    ///
    /// # Errors
    /// When the offsets do not start at 0 or decrease.
    pub fn from_offsets(offsets: Vec<usize>) -> Result<Segments, ShapeError> {
        if offsets.first() != Some(&0) || offsets.windows(2).any(|w| w[0] > w[1]) {
            return Err(ShapeError {
                op: "segments",
                what: "cu_seqlens",
                found: offsets,
                expected: "offsets that start at 0 and never decrease".into(),
            });
        }
        Ok(Segments(offsets.into()))
    }

    /// Number of packed tokens.
    pub fn tokens(&self) -> usize {
        *self.0.last().expect("there is always a first offset")
    }

    /// The token ranges, one a segment.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> + '_ {
        self.0.windows(2).map(|w| w[0]..w[1])
    }
}
