use std::sync::Arc;

use crate::ShapeError;

/// Consecutive new tokens of one cache row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The cache row.
    pub row: usize,
    /// Position of the first new token in the row; everything before it is in the cache already.
    pub start: usize,
    /// Number of new tokens.
    pub length: usize,
}

/// The spans of a step, in the order in which their tokens are packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans(pub(crate) Arc<[Span]>);

/// Where each packed token goes: (row, position).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots(pub(crate) Arc<[(usize, usize)]>);

impl Spans {
    /// Spans in packing order.
    pub fn new(spans: Vec<Span>) -> Spans {
        Spans(spans.into())
    }

    /// Number of packed tokens.
    pub fn tokens(&self) -> usize {
        self.0.iter().map(|s| s.length).sum()
    }

    /// Each packed token's position in its row.
    pub fn positions(&self) -> Vec<usize> {
        self.0.iter().flat_map(|s| s.start..s.start + s.length).collect()
    }

    /// The cache slot of every packed token.
    pub fn slots(&self) -> Slots {
        Slots(self.0.iter().flat_map(|s| (s.start..s.start + s.length).map(|p| (s.row, p))).collect())
    }

    pub(crate) fn check(&self, op: &'static str, cache: [usize; 4], tokens: usize) -> Result<(), ShapeError> {
        ShapeError::check(op, "new tokens", &[tokens], &[self.tokens()])?;
        match self.0.iter().find(|s| s.row >= cache[0] || s.start + s.length > cache[1]) {
            Some(span) => {
                let expected = format!("room for {span:?}");
                Err(ShapeError { op, what: "cache", found: cache.to_vec(), expected })
            }
            None => Ok(()),
        }
    }
}
