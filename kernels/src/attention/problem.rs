//! The host's side of attention: what fits together, and which query rows meet which keys.

use crate::cache::Spans;
use crate::error::check_heads;
use crate::{Segments, ShapeError};

/// Head layout of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
}

impl Heads {
    /// Query heads that share a key/value head.
    pub(crate) fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    #[cfg_attr(not(feature = "cubecl"), allow(dead_code))]
    pub(crate) fn scale(self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }
}

/// Refuses shapes that do not fit together.
pub(crate) fn check(q: [usize; 3], k: [usize; 3], v: [usize; 3], segments: &Segments) -> Result<(), ShapeError> {
    const OP: &str = "attention";
    check_heads(OP, q, k[1])?;
    let expected = [q[0], k[1], q[2]];
    ShapeError::check(OP, "k", &k, &expected)?;
    ShapeError::check(OP, "v", &v, &expected)?;
    ShapeError::check(OP, "cu_seqlens' last offset", &[segments.tokens()], &[q[0]])
}

/// Consecutive query tokens and the keys they meet: what one cube works on.
#[cfg_attr(not(feature = "cubecl"), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// First query token.
    pub(crate) query: usize,
    /// Number of query tokens.
    pub(crate) queries: usize,
    /// Row of the key tensor that holds position 0.
    pub(crate) base: usize,
    /// First key position to look at.
    pub(crate) from: usize,
    /// End of the key positions to look at.
    pub(crate) to: usize,
    /// Position of the first query token; it sees keys up to itself.
    pub(crate) position: usize,
    /// Row of the output that belongs to the first query token.
    pub(crate) target: usize,
}

#[cfg_attr(not(feature = "cubecl"), allow(dead_code))]
impl Work {
    /// The items as the kernel reads them.
    pub(crate) fn encode(items: &[Work]) -> Vec<i32> {
        let number = |n: usize| i32::try_from(n).expect("positions of tensors that fit the device");
        items
            .iter()
            .flat_map(|w| [w.query, w.queries, w.base, w.from, w.to, w.position, w.target].map(number))
            .collect()
    }

    /// Blocks of at most `rows` consecutive queries of every segment, those with most keys first.
    pub(crate) fn packed(segments: &Segments, rows: usize) -> Vec<Work> {
        let mut items: Vec<Work> = Vec::new();
        for range in segments.ranges() {
            for start in range.clone().step_by(rows) {
                let queries = rows.min(range.end - start);
                let position = start - range.start;
                items.push(Work {
                    query: start,
                    queries,
                    base: range.start,
                    from: 0,
                    to: position + queries,
                    position,
                    target: start,
                });
            }
        }
        items.sort_by_key(|w| std::cmp::Reverse(w.to));
        items
    }

    /// Blocks of keys of every segment with the queries that may see them. `query` and `queries` are the keys here,
    /// `from..to` the query positions.
    pub(crate) fn keys(segments: &Segments, keys: usize) -> Vec<Work> {
        let mut items = Work::packed(segments, keys);
        for w in &mut items {
            let end = segments.ranges().find(|r| r.contains(&w.query)).expect("made from a segment").end;
            (w.from, w.to) = (w.position, end - w.base);
        }
        items.sort_by_key(|w| std::cmp::Reverse(w.to - w.from));
        items
    }

    /// Blocks of at most `rows` queries of every span against its cache row, each cut into `splits` ranges of keys.
    /// Split s writes its output `tokens`·s rows further on.
    pub(crate) fn spans(spans: &Spans, capacity: usize, rows: usize, splits: usize) -> Vec<Work> {
        let tokens = spans.tokens();
        let mut items = Vec::new();
        let mut first = 0;
        for span in spans.0.iter() {
            for start in (0..span.length).step_by(rows) {
                let queries = rows.min(span.length - start);
                let position = span.start + start;
                let seen = position + queries;
                let share = seen.div_ceil(splits);
                for split in 0..splits {
                    items.push(Work {
                        query: first + start,
                        queries,
                        base: span.row * capacity,
                        from: (split * share).min(seen),
                        to: ((split + 1) * share).min(seen),
                        position,
                        target: split * tokens + first + start,
                    });
                }
            }
            first += span.length;
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Span;

    #[test]
    fn packed_work_covers_every_query_once_and_no_key_of_a_neighbour() {
        let segments = Segments::from_lengths([5, 0, 1, 37]);
        let mut seen = vec![0; 43];
        for w in Work::packed(&segments, 8) {
            let segment = segments.ranges().find(|r| r.contains(&w.query)).unwrap();
            assert_eq!((w.base, w.from, w.to), (segment.start, 0, w.position + w.queries));
            assert!(w.base + w.to <= segment.end && w.query == w.base + w.position);
            seen[w.query..w.query + w.queries].iter_mut().for_each(|s| *s += 1);
        }
        assert_eq!(seen, [1; 43]);
    }

    #[test]
    fn key_blocks_meet_all_later_queries_of_their_segment() {
        for w in Work::keys(&Segments::from_lengths([5, 0, 1, 37]), 8) {
            let segment = [0..5, 5..6, 6..43].into_iter().find(|r| r.contains(&w.query)).unwrap();
            assert_eq!((w.base + w.from, w.base + w.to), (w.query, segment.end));
        }
    }

    #[test]
    fn split_spans_cover_every_visible_key_once() {
        let spans = Spans::new(vec![Span { row: 2, start: 9, length: 3 }, Span { row: 0, start: 0, length: 1 }]);
        for splits in [1, 2, 5, 20] {
            for (token, seen) in [(0, 12), (3, 1)] {
                let mut keys: Vec<usize> = Work::spans(&spans, 16, 4, splits)
                    .iter()
                    .filter(|w| w.query == token)
                    .flat_map(|w| w.from..w.to)
                    .collect();
                keys.sort_unstable();
                assert_eq!(keys, (0..seen).collect::<Vec<_>>());
            }
        }
    }
}
