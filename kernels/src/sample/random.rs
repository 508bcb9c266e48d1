//! Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): additions,
//! rotations and exclusive ors of 32-bit words, so that every device computes the same numbers.

/// Rotation distances, by round modulo 8.
pub(crate) const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
/// The key schedule's parity word.
pub(crate) const PARITY: u32 = 0x1BD1_1BDA;

/// Two random words for a key and a counter.
#[inline(always)]
pub(crate) fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], PARITY ^ key[0] ^ key[1]];
    let [mut a, mut b] = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for round in 0..20usize {
        a = a.wrapping_add(b);
        b = b.rotate_left(ROTATIONS[round % 8]) ^ a;
        if round % 4 == 3 {
            let s = round / 4 + 1;
            a = a.wrapping_add(keys[s % 3]);
            b = b.wrapping_add(keys[(s + 1) % 3]).wrapping_add(s as u32);
        }
    }
    [a, b]
}

/// A number strictly between 0 and 1: 23 bits and a half step, all exact in f32.
#[inline(always)]
pub(crate) fn uniform(word: u32) -> f32 {
    ((word >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the generator (Random123, `kat_vectors`, threefry2x32 20).
    #[test]
    fn the_known_answers_come_out() {
        let all = u32::MAX;
        let cases = [
            ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
            ([all, all], [all, all], [0x1cb9_96fc, 0xbb00_2be7]),
            ([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3], [0xc492_3a9c, 0x483d_f7a0]),
        ];
        for (key, counter, expected) in cases {
            assert_eq!(threefry(key, counter), expected);
        }
    }

    #[test]
    fn uniform_numbers_stay_inside() {
        assert!(uniform(0) > 0.0 && uniform(u32::MAX) < 1.0);
    }
}
