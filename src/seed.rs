//! Seeds derived from what they are for, so that any subset of a run can be reproduced.

/// Mixes several numbers into one seed (SplitMix64's finaliser after each).
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x5e_ed0f_e307_1045, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// What a seed is for; keeps streams apart that would otherwise share their numbers.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub enum Purpose {
    /// The order of profiles.
    Order = 1,
    /// A simulated user's choices.
    User = 2,
    /// Sampling of tokens.
    Sampling = 3,
    /// The order of dialogues within an update.
    Shuffle = 4,
    /// Evaluation.
    Evaluation = 5,
    /// The supervised corpus.
    Corpus = 6,
    /// Initial weights.
    Weights = 7,
    /// The states people come in.
    Curriculum = 8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_part_matter() {
        assert_ne!(mix(&[1, 2]), mix(&[2, 1]));
        assert_ne!(mix(&[1, 2, 0]), mix(&[1, 2]));
        assert_eq!(mix(&[1, 2]), mix(&[1, 2]));
    }
}
