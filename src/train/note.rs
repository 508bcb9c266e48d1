use super::batch::TrainRow;
use crate::rollout::{Episode, Segment};

/// Writes numbers that training computed beside the tokens they belong to: one list per row, one number per action,
/// into the slot of the actions' segments. Rows without numbers leave theirs empty.
pub(super) fn note(
    episodes: &mut [Episode],
    rows: &[TrainRow],
    numbers: &[Vec<f32>],
    slot: impl Fn(&mut Segment) -> &mut Vec<f32>,
) {
    let mut next = rows.iter().zip(numbers).peekable();
    for (index, episode) in episodes.iter_mut().enumerate() {
        for row in &mut episode.rows {
            if row.segments.iter().all(|s| !s.is_action()) {
                continue;
            }
            let Some((_, numbers)) = next.next_if(|(r, _)| r.episode == index) else { continue };
            let mut numbers = numbers.iter().copied();
            for segment in row.segments.iter_mut().filter(|s| s.is_action()) {
                *slot(segment) = numbers.by_ref().take(segment.ids.len()).collect();
            }
        }
    }
}

/// Reads the numbers back that [`note`] wrote, or others beside the actions' tokens.
pub(crate) fn noted(episodes: &[Episode], rows: &[TrainRow], slot: impl Fn(&Segment) -> &Vec<f32>) -> Vec<Vec<f32>> {
    let mut next = rows.iter().peekable();
    let mut numbers = Vec::with_capacity(rows.len());
    for (index, episode) in episodes.iter().enumerate() {
        for row in &episode.rows {
            if row.segments.iter().any(Segment::is_action) && next.next_if(|r| r.episode == index).is_some() {
                let actions = row.segments.iter().filter(|s| s.is_action());
                numbers.push(actions.flat_map(|s| slot(s).iter().copied()).collect());
            }
        }
    }
    numbers
}
