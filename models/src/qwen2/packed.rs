use rlver_kernels::Segments;

/// Sequences laid end to end along one token axis, without padding.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Each token's position in its sequence.
    pub positions: Vec<usize>,
    /// Where sequences begin and end.
    pub segments: Segments,
}

impl Packed {
    /// Packs sequences, counting positions from 0.
    pub fn new<'a>(sequences: impl IntoIterator<Item = &'a [u32]>) -> Packed {
        let (mut ids, mut positions, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for sequence in sequences {
            ids.extend_from_slice(sequence);
            positions.extend(0..sequence.len());
            lengths.push(sequence.len());
        }
        Packed { ids, positions, segments: Segments::from_lengths(lengths) }
    }

    /// Packs the rows of a padded batch: tokens whose mask is 0 are left out, on whichever side they are.
    ///
    /// `positions` gives the position of every slot, padding included; without it they count the kept tokens.
    pub fn from_padded(rows: &[Vec<u32>], mask: &[Vec<bool>], positions: Option<&[Vec<usize>]>) -> Packed {
        let kept: Vec<Vec<u32>> = rows
            .iter()
            .zip(mask)
            .map(|(row, mask)| row.iter().zip(mask).filter(|(_, m)| **m).map(|(id, _)| *id).collect())
            .collect();
        let mut packed = Packed::new(kept.iter().map(Vec::as_slice));
        if let Some(positions) = positions {
            packed.positions = positions
                .iter()
                .zip(mask)
                .flat_map(|(row, mask)| row.iter().zip(mask).filter(|(_, m)| **m).map(|(p, _)| *p))
                .collect();
        }
        packed
    }
}
