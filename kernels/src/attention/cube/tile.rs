use cubecl::prelude::*;

use crate::cube::Limits;

/// Which kernel a tile is for: they keep different things in shared memory and registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Output and log-sum-exp.
    Forward,
    /// dQ.
    Query,
    /// dK and dV.
    Keys,
}

/// How a cube cuts its work. Known when the kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Query rows in shared memory.
    pub(crate) rows: usize,
    /// Keys in shared memory.
    pub(crate) keys: usize,
    /// Units along the rows.
    pub(crate) row_units: usize,
    /// Units along keys and head width.
    pub(crate) key_units: usize,
    /// Width of a head.
    pub(crate) head_dim: usize,
    /// Heads of a group that lie side by side as rows: row r is head r % pack of token r / pack.
    pub(crate) pack: usize,
    /// Whether a unit's patch is unrolled into registers.
    pub(crate) unroll: bool,
}

/// Accumulators a unit may keep without spilling, with room for operands and addresses.
const ACCUMULATORS: usize = 64;

impl Tile {
    /// The largest tile that fits the device, or `None` when none does (heads wider than shared memory allows).
    pub(crate) fn choose(pass: Pass, head_dim: usize, pack: usize, limits: Limits) -> Option<Tile> {
        let tile = |rows, keys, row_units, key_units, unroll| Tile {
            rows,
            keys,
            row_units,
            key_units,
            head_dim,
            pack,
            unroll,
        };
        if !limits.wide() {
            let t = tile(8.max(pack.next_power_of_two()), 8, limits.narrow_units(), 1, false);
            return (t.floats(pass) <= limits.shared).then_some(t);
        }
        // Rows, keys, and the units along each. Chosen so that no unit spills registers (`RESOURCES.md`).
        type Cut = (usize, usize, usize, usize);
        let cuts: &[Cut] = if pack > 1 {
            // Few rows at a time: spend shared memory on keys.
            &[
                (8, 64, 8, 8),
                (8, 32, 8, 8),
                (8, 16, 8, 16),
                (8, 16, 8, 8),
                (8, 8, 8, 8),
                (16, 64, 8, 8),
                (16, 32, 8, 8),
                (16, 16, 8, 8),
                (32, 32, 8, 8),
                (32, 16, 8, 8),
                (32, 8, 8, 8),
                (64, 32, 8, 8),
                (64, 8, 8, 8),
            ]
        } else if pass == Pass::Keys {
            &[(16, 32, 8, 8), (32, 16, 8, 16), (32, 16, 8, 8), (16, 16, 8, 8), (16, 8, 8, 8), (8, 8, 8, 8)]
        } else {
            &[(64, 32, 8, 8), (32, 32, 16, 8), (32, 16, 8, 8), (16, 16, 8, 8), (16, 8, 8, 8), (8, 8, 8, 8)]
        };
        let fits = |t: &Tile| {
            t.rows >= pack
                && t.floats(pass) <= limits.shared
                && t.units() <= limits.units
                && head_dim.is_multiple_of(t.key_units)
        };
        cuts.iter()
            .map(|&(rows, keys, row_units, key_units)| tile(rows, keys, row_units, key_units, true))
            .find(|t| fits(t) && t.accumulators(pass) <= ACCUMULATORS)
            // The widest heads: fewer rows, and as many accumulators as still fit without spilling.
            .or_else(|| Some(tile(4, 8, 4, 8, true)).filter(fits))
    }

    /// Units of a cube.
    pub(crate) fn units(&self) -> usize {
        self.row_units * self.key_units
    }

    /// Query tokens of a tile.
    pub(crate) fn tokens(&self) -> usize {
        self.rows / self.pack
    }

    fn floats(&self, pass: Pass) -> usize {
        let ld = self.head_dim + 1;
        match pass {
            Pass::Forward => (self.rows + 2 * self.keys) * ld + self.rows * self.keys + 3 * self.rows,
            Pass::Query | Pass::Keys => 2 * (self.rows + self.keys) * ld + 2 * self.rows * self.keys + 2 * self.rows,
        }
    }

    fn accumulators(&self, pass: Pass) -> usize {
        match pass {
            Pass::Forward | Pass::Query => self.rows / self.row_units * self.head_dim / self.key_units,
            Pass::Keys => 2 * self.keys / self.row_units * self.head_dim / self.key_units,
        }
    }
}

/// Copies head `head` of the `valid` rows from token `first` on into shared memory, `ld` apart; the other rows become 0.
/// Where heads are packed, `pack` of them are the rows of a token.
#[cube]
pub(super) fn load_rows<E: Float, T: Float>(
    source: &[E],
    target: &mut Shared<[T]>,
    first: usize,
    valid: usize,
    heads: usize,
    head: usize,
    #[comptime] rows: usize,
    #[comptime] head_dim: usize,
    #[comptime] pack: usize,
    #[comptime] ld: usize,
) {
    let mut i = UNIT_POS as usize;
    while i < comptime!(rows * head_dim) {
        let row = i / head_dim;
        let column = i % head_dim;
        let mut value = T::new(0.0);
        if row < valid {
            value = T::cast_from(source[((first + row / pack) * heads + head + row % pack) * head_dim + column]);
        }
        target[row * ld + column] = value;
        i += CUBE_DIM as usize;
    }
}

/// This unit's patch of `rows`·`keys`ᵀ, both `[.., head_dim]` in shared memory.
#[cube]
pub(super) fn products(rows: &Shared<[f32]>, keys: &Shared<[f32]>, patch: &mut Array<f32>, #[comptime] tile: Tile) {
    let ld = comptime!(tile.head_dim + 1);
    let unroll = comptime!(tile.unroll);
    let (ru, ku) = comptime!((tile.row_units, tile.key_units));
    let (mr, mk) = comptime!((tile.rows / tile.row_units, tile.keys / tile.key_units));
    let r0 = UNIT_POS as usize / ku;
    let k0 = UNIT_POS as usize % ku;
    #[unroll(unroll)]
    for i in 0..comptime!(mr * mk) {
        patch[i] = f32::new(0.0);
    }
    let mut left = Array::<f32>::new(mr);
    for c in 0..comptime!(tile.head_dim) {
        #[unroll(unroll)]
        for i in 0..mr {
            left[i] = rows[(r0 + i * ru) * ld + c];
        }
        #[unroll(unroll)]
        for j in 0..mk {
            let right = keys[(k0 + j * ku) * ld + c];
            #[unroll(unroll)]
            for i in 0..mr {
                patch[i * mk + j] += left[i] * right;
            }
        }
    }
}

/// Adds this unit's patch of `weights`·`values` to `sums`: weights `[rows, keys]`, values `[keys, head_dim]`.
#[cube]
pub(super) fn gather(
    weights: &Shared<[f32]>,
    values: &Shared<[f32]>,
    sums: &mut Array<f32>,
    count: usize,
    #[comptime] tile: Tile,
) {
    let ld = comptime!(tile.head_dim + 1);
    let keys = comptime!(tile.keys);
    let unroll = comptime!(tile.unroll);
    let (ru, ku) = comptime!((tile.row_units, tile.key_units));
    let (mr, md) = comptime!((tile.rows / tile.row_units, tile.head_dim / tile.key_units));
    let r0 = UNIT_POS as usize / ku;
    let c0 = UNIT_POS as usize % ku;
    let mut left = Array::<f32>::new(mr);
    for key in 0..count {
        #[unroll(unroll)]
        for i in 0..mr {
            left[i] = weights[(r0 + i * ru) * keys + key];
        }
        #[unroll(unroll)]
        for j in 0..md {
            let right = values[key * ld + c0 + j * ku];
            #[unroll(unroll)]
            for i in 0..mr {
                sums[i * md + j] += left[i] * right;
            }
        }
    }
}

/// Adds this unit's patch of `weights`ᵀ·`values` to `sums`: weights `[rows, keys]`, values `[rows, head_dim]`.
#[cube]
pub(super) fn gather_transposed(
    weights: &Shared<[f32]>,
    values: &Shared<[f32]>,
    sums: &mut Array<f32>,
    count: usize,
    #[comptime] tile: Tile,
) {
    let ld = comptime!(tile.head_dim + 1);
    let keys = comptime!(tile.keys);
    let unroll = comptime!(tile.unroll);
    let (ru, ku) = comptime!((tile.row_units, tile.key_units));
    let (mk, md) = comptime!((tile.keys / tile.row_units, tile.head_dim / tile.key_units));
    let k0 = UNIT_POS as usize / ku;
    let c0 = UNIT_POS as usize % ku;
    let mut left = Array::<f32>::new(mk);
    for row in 0..count {
        #[unroll(unroll)]
        for i in 0..mk {
            left[i] = weights[row * keys + k0 + i * ru];
        }
        #[unroll(unroll)]
        for j in 0..md {
            let right = values[row * ld + c0 + j * ku];
            #[unroll(unroll)]
            for i in 0..mk {
                sums[i * md + j] += left[i] * right;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 KiB is what software Vulkan has, 48 KiB what CUDA grants; 2 units are CubeCL's CPU runtime on two cores.
    #[test]
    fn every_head_of_up_to_256_finds_a_tile_that_divides_evenly() {
        for (units, shared) in [(2, 48), (3, 48), (64, 32), (256, 32), (1024, 48)] {
            let limits = Limits { units, shared: (shared << 10) / 4 };
            for head_dim in (8..=256).step_by(8) {
                for (pass, pack) in [(Pass::Forward, 1), (Pass::Query, 1), (Pass::Keys, 1), (Pass::Forward, 7)] {
                    let Some(t) = Tile::choose(pass, head_dim, pack, limits) else {
                        assert!(pack > 1, "{pass:?}, width {head_dim}, {limits:?}");
                        continue;
                    };
                    assert!(t.floats(pass) <= limits.shared && t.units() <= units && t.tokens() >= 1);
                    assert_eq!((t.rows % t.row_units, t.keys % t.key_units, t.keys % t.row_units), (0, 0, 0));
                    assert_eq!(head_dim % t.key_units, 0);
                    assert!(!t.unroll || t.accumulators(pass) <= 2 * ACCUMULATORS);
                }
            }
        }
    }
}
