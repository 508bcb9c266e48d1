//! SAGE's repetition rate (SSRR): how alike the strategy sequences of adjacent replies are, by Needleman and Wunsch's
//! global alignment (1970). The paper does not print its scores; ours are +1 for a match, −1 for a mismatch, −1 for a
//! gap, and the similarity is the share of aligned columns that match.

const MATCH: i32 = 1;
const MISMATCH: i32 = -1;
const GAP: i32 = -1;

/// Share of matching columns in an optimal alignment, 0–1; among equally good alignments the one with most matches
/// counts. `None` when both sequences are empty: nothing is then compared.
pub fn alignment_similarity<T: PartialEq>(a: &[T], b: &[T]) -> Option<f64> {
    if a.is_empty() && b.is_empty() {
        return None;
    }
    // Per cell the best (score, matches, −columns) of aligning the prefixes; tuples compare in that order.
    type Cell = (i32, i32, i32);
    let step = |from: Cell, score: i32, matched: i32| (from.0 + score, from.1 + matched, from.2 - 1);
    let mut above: Vec<Cell> = (0..=b.len() as i32).map(|j| (j * GAP, 0, -j)).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(above.len());
        row.push(((i as i32 + 1) * GAP, 0, -(i as i32 + 1)));
        for (j, y) in b.iter().enumerate() {
            let (score, matched) = if x == y { (MATCH, 1) } else { (MISMATCH, 0) };
            let diagonal = step(above[j], score, matched);
            row.push(diagonal.max(step(above[j + 1], GAP, 0)).max(step(row[j], GAP, 0)));
        }
        above = row;
    }
    let (_, matches, columns) = above[b.len()];
    Some(f64::from(matches) / f64::from(-columns))
}

/// The similarity of each reply's sequence to the one before it.
pub fn adjacent_similarity<T: PartialEq>(replies: &[Vec<T>]) -> Vec<f64> {
    replies.windows(2).filter_map(|pair| alignment_similarity(&pair[0], &pair[1])).collect()
}

/// Mean similarity over the adjacent replies of all dialogues (SSRR); `None` without a pair to compare.
pub fn repetition_rate<'a, T: PartialEq + 'a>(dialogues: impl IntoIterator<Item = &'a [Vec<T>]>) -> Option<f64> {
    let all: Vec<f64> = dialogues.into_iter().flat_map(adjacent_similarity).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(a: &str, b: &str) -> Option<f64> {
        alignment_similarity(a.as_bytes(), b.as_bytes())
    }

    #[test]
    fn known_alignments() {
        assert_eq!(similarity("abc", "abc"), Some(1.0));
        assert_eq!(similarity("abc", "xyz"), Some(0.0));
        // a b c over a – c: two of three columns.
        assert_eq!(similarity("abc", "ac"), Some(2.0 / 3.0));
        assert_eq!(similarity("ab", ""), Some(0.0));
        assert_eq!(similarity("", ""), None);
        // The textbook pair: score 0, GCATG-CG over G-ATTACA style alignments hold four matches in eight columns.
        assert_eq!(similarity("GCATGCG", "GATTACA"), Some(0.5));
        assert_eq!(similarity("abcd", "bcda"), similarity("bcda", "abcd"));
    }

    #[test]
    fn the_rate_is_the_mean_over_adjacent_pairs() {
        let first: Vec<Vec<u8>> = vec![b"ab".to_vec(), b"ab".to_vec(), b"xy".to_vec()];
        let second: Vec<Vec<u8>> = vec![b"a".to_vec()];
        assert_eq!(repetition_rate([first.as_slice(), second.as_slice()]), Some(0.5));
        assert_eq!(repetition_rate([second.as_slice()]), None);
    }
}
