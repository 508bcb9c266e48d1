//! Numbers that training computes, beside the tokens they belong to.

use super::batch::TrainRow;
use crate::rollout::{Episode, Segment, TokenRow};

/// Which tokens of a row have a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// Those that were sampled.
    Actions,
    /// All of [`TrainRow::response`]: from the first action on.
    Response,
}

impl Tokens {
    /// Whether a segment's tokens have one; `begun` is whether an action came before it or it is one.
    pub(crate) fn includes(self, segment: &Segment, begun: bool) -> bool {
        match self {
            Tokens::Actions => segment.is_action(),
            Tokens::Response => begun,
        }
    }
}

/// Writes one list of numbers per row into the slot of the segments they belong to. A row without numbers leaves its
/// slots empty.
pub(super) fn note(
    episodes: &mut [Episode],
    rows: &[TrainRow],
    tokens: Tokens,
    numbers: &[Vec<f32>],
    slot: impl Fn(&mut Segment) -> &mut Vec<f32>,
) {
    let mut next = rows.iter().zip(numbers).peekable();
    for (index, episode) in episodes.iter_mut().enumerate() {
        for row in episode.rows.iter_mut().filter(|row| acts(row)) {
            let Some((_, numbers)) = next.next_if(|(r, _)| r.episode == index) else { continue };
            let (mut numbers, mut begun) = (numbers.iter().copied(), false);
            for segment in &mut row.segments {
                begun |= segment.is_action();
                if tokens.includes(segment, begun) {
                    *slot(segment) = numbers.by_ref().take(segment.ids.len()).collect();
                }
            }
        }
    }
}

/// Reads what [`note`] wrote, or other numbers beside the same tokens: one list per row.
pub(crate) fn noted(
    episodes: &[Episode],
    rows: &[TrainRow],
    tokens: Tokens,
    slot: impl Fn(&Segment) -> &Vec<f32>,
) -> Vec<Vec<f32>> {
    let mut next = rows.iter().peekable();
    let mut numbers = Vec::with_capacity(rows.len());
    for (index, episode) in episodes.iter().enumerate() {
        for row in episode.rows.iter().filter(|row| acts(row)) {
            if next.next_if(|r| r.episode == index).is_none() {
                continue;
            }
            let (mut of_row, mut begun) = (Vec::new(), false);
            for segment in &row.segments {
                begun |= segment.is_action();
                if tokens.includes(segment, begun) {
                    of_row.extend_from_slice(slot(segment));
                }
            }
            numbers.push(of_row);
        }
    }
    numbers
}

/// Whether anything in the row was sampled; other rows are not trained on.
fn acts(row: &TokenRow) -> bool {
    row.segments.iter().any(Segment::is_action)
}
