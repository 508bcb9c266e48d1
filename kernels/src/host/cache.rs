use std::cell::RefCell;
use std::sync::{Mutex, RwLock, RwLockReadGuard};

use super::packed::{Aligned, PANEL, Product, ROWS, Rows, padded, product};
use super::team::Team;
use crate::attention::block::softmax;
use crate::simd::{LONGEST_BLOCK, vectorised};

thread_local! {
    pub(super) static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// A new token's place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) row: usize,
    pub(super) position: usize,
}

/// Rows of numbers, one for each token.
#[derive(Clone, Copy)]
pub(super) struct Strided<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
}

/// Keys and values of one sequence and one key/value head of a layer.
///
/// Keys are panels of [`PANEL`] positions, a weight whose outputs are positions; values are panels of [`PANEL`] columns, a
/// weight whose inputs are positions. The memory of a sequence is taken with its first token.
#[derive(Debug, Default)]
pub(super) struct Slab {
    lanes: Option<(Aligned<f32>, Aligned<f32>)>,
}

/// What all slabs have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) capacity: usize,
    pub(super) head_dim: usize,
}

impl Slab {
    pub(super) fn write(&mut self, extent: Extent, position: usize, key: &[f32], value: &[f32]) {
        let Extent { capacity, head_dim } = extent;
        let (keys, values) = self.lanes.get_or_insert_with(|| {
            (Aligned::zeros(padded(capacity) * head_dim), Aligned::zeros(padded(head_dim) * capacity))
        });
        let panel = &mut keys.all_mut()[position / PANEL * PANEL * head_dim..][..PANEL * head_dim];
        for (row, k) in panel.chunks_exact_mut(PANEL).zip(key) {
            row[position % PANEL] = *k;
        }
        let panels = values.all_mut().chunks_exact_mut(capacity * PANEL);
        for (panel, value) in panels.zip(value.chunks(PANEL)) {
            panel[position * PANEL..][..value.len()].copy_from_slice(value);
        }
    }

    /// Attention of query rows, of which row r sees `first` + r·`step` positions: rows of `out`, `stride` apart.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn attend(
        &self,
        extent: Extent,
        q: Rows<'_>,
        first: usize,
        step: usize,
        out: &mut [f32],
        stride: usize,
        scratch: &mut Vec<f32>,
    ) {
        let Extent { capacity, head_dim } = extent;
        let Some((keys, values)) = &self.lanes else { return };
        let scale = 1.0 / (head_dim as f32).sqrt();
        for begin in (0..q.count).step_by(ROWS) {
            let rows = ROWS.min(q.count - begin);
            let visible = first + (begin + rows - 1) * step;
            let (width, mixed) = (padded(visible), padded(head_dim));
            scratch.resize((width + mixed) * ROWS, 0.0);
            let (scores, local) = scratch.split_at_mut(width * ROWS);
            let x = Rows { data: &q.data[begin * q.stride..], count: rows, ..q };
            product(Product {
                x,
                depth: head_dim,
                block: LONGEST_BLOCK,
                panels: keys.all(),
                stride: head_dim * PANEL,
                count: width / PANEL,
                out: scores,
                out_stride: width,
                add: false,
            });
            let mut inverse = [0f32; ROWS];
            vectorised!({
                for (r, row) in scores.chunks_exact_mut(width).take(rows).enumerate() {
                    let (seen, unseen) = row.split_at_mut(first + (begin + r) * step);
                    seen.iter_mut().for_each(|s| *s *= scale);
                    inverse[r] = 1.0 / softmax(seen).1;
                    unseen.fill(0.0);
                }
            });
            product(Product {
                x: Rows { data: scores, stride: width, count: rows },
                depth: visible,
                block: LONGEST_BLOCK,
                panels: values.all(),
                stride: capacity * PANEL,
                count: mixed / PANEL,
                out: local,
                out_stride: mixed,
                add: false,
            });
            for (r, local) in local.chunks_exact(mixed).take(rows).enumerate() {
                let out = &mut out[(begin + r) * stride..][..head_dim];
                out.iter_mut().zip(local).for_each(|(o, l)| *o = l * inverse[r]);
            }
        }
    }
}

/// The slabs of all layers, rows and heads.
#[derive(Debug)]
pub(super) struct Cache {
    slabs: Vec<RwLock<Slab>>,
    rows: usize,
    kv_heads: usize,
    pub(super) extent: Extent,
}

impl Cache {
    pub(super) fn new([layers, rows, kv_heads]: [usize; 3], extent: Extent) -> Cache {
        let slabs = (0..layers * rows * kv_heads).map(|_| RwLock::default()).collect();
        Cache { slabs, rows, kv_heads, extent }
    }

    fn slab(&self, layer: usize, row: usize, kv_head: usize) -> &RwLock<Slab> {
        &self.slabs[(layer * self.rows + row) * self.kv_heads + kv_head]
    }

    pub(super) fn read(&self, layer: usize, row: usize, kv_head: usize) -> RwLockReadGuard<'_, Slab> {
        self.slab(layer, row, kv_head).read().expect("a panic ends the process's use of the cache")
    }

    /// Keeps a token's keys and values of all heads.
    pub(super) fn write(&self, layer: usize, row: usize, position: usize, keys: &[f32], values: &[f32]) {
        let width = self.extent.head_dim;
        let heads = keys.chunks_exact(width).zip(values.chunks_exact(width)).take(self.kv_heads);
        for (kv_head, (key, value)) in heads.enumerate() {
            let mut slab = self.slab(layer, row, kv_head).write().expect("a panic ends the process's use of the cache");
            slab.write(self.extent, position, key, value);
        }
    }

    /// Attention of tokens that are alone in their rows, whose keys and values are kept already: rows of `out`, as far apart as
    /// those of `q`. Threads take a token's key/value head each.
    pub(super) fn attend(
        &self,
        team: &mut Team,
        layer: usize,
        tokens: &[Token],
        heads: usize,
        q: Strided<'_>,
        out: &mut [f32],
    ) {
        let (Extent { head_dim, .. }, kv_heads) = (self.extent, self.kv_heads);
        let group = heads / kv_heads * head_dim;
        let outs: Vec<Mutex<&mut [f32]>> = out
            .chunks_exact_mut(q.stride)
            .flat_map(|row| row.chunks_exact_mut(group).take(kv_heads))
            .map(Mutex::new)
            .collect();
        team.run(outs.len(), |task| {
            let (token, kv_head) = (task / kv_heads, task % kv_heads);
            let Token { row, position } = tokens[token];
            let mut out = outs[task].lock().expect("a panic ends the step");
            let q = &q.data[token * q.stride + kv_head * group..];
            let q = Rows { data: q, stride: head_dim, count: heads / kv_heads };
            let slab = self.read(layer, row, kv_head);
            SCRATCH.with_borrow_mut(|s| slab.attend(self.extent, q, position + 1, 0, &mut out, head_dim, s));
        });
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }
}

/// The decoder's keys and values, and its attention of new tokens against them.
#[derive(Debug)]
pub struct KeyValueCache {
    cache: Cache,
    team: Team,
}

impl KeyValueCache {
    /// An empty cache `[layers, rows, capacity, kv_heads, head_dim]` for as many threads as rayon has; `None` where
    /// [`super::Decoder::available`] is false.
    pub fn new([layers, rows, capacity, kv_heads, head_dim]: [usize; 5]) -> Option<KeyValueCache> {
        super::packed::available().then(|| KeyValueCache {
            cache: Cache::new([layers, rows, kv_heads], Extent { capacity, head_dim }),
            team: Team::new(rayon::current_num_threads()),
        })
    }

    /// Keeps the keys and values `[kv_heads, head_dim]` of a token.
    ///
    /// # Panics
    /// Outside of the cache.
    pub fn write(&mut self, layer: usize, row: usize, position: usize, keys: &[f32], values: &[f32]) {
        self.cache.write(layer, row, position, keys, values);
    }

    /// Attention `[rows, heads, head_dim]` of one token in every row, queries `[rows, heads, head_dim]`, each against the first
    /// `lengths[row]` positions, of which those never written count as zeros.
    ///
    /// # Panics
    /// When a length is zero or beyond the capacity, or the heads are no multiple of the key/value heads.
    pub fn attend(&mut self, layer: usize, q: &[f32], heads: usize, lengths: &[usize]) -> Vec<f32> {
        let stride = heads * self.cache.extent.head_dim;
        assert_eq!(q.len(), lengths.len() * stride, "queries of one token per row");
        assert!(heads.is_multiple_of(self.cache.kv_heads), "heads come in groups");
        assert!(lengths.iter().all(|n| *n <= self.cache.extent.capacity), "a length is beyond the cache");
        let token = |(row, length): (usize, &usize)| Token { row, position: length.checked_sub(1).expect("not empty") };
        let tokens: Vec<Token> = lengths.iter().enumerate().map(token).collect();
        let mut out = vec![0.0; q.len()];
        self.cache.attend(&mut self.team, layer, &tokens, heads, Strided { data: q, stride }, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::block::{Block, ROWS as BLOCK_ROWS};
    use crate::host::packed::available;
    use crate::simd::View;

    /// Around every cut: a tile's rows, a panel of keys, a block of the depth; alone, as in decoding, and many, as in a prompt.
    #[test]
    fn attention_has_the_bits_of_packed_attention() {
        const TOKENS: usize = 640;
        if !available() {
            return;
        }
        let value = |i: usize| ((i * 2_654_435_761) % 1000) as f32 / 250.0 - 2.0;
        for head_dim in [8, 32, 48, 128] {
            let extent = Extent { capacity: TOKENS, head_dim };
            let [q, keys, values] =
                [0, 7, 31].map(|salt| (0..TOKENS * head_dim).map(|i| value(i + salt)).collect::<Vec<f32>>());
            let mut slab = Slab::default();
            for (position, (k, v)) in keys.chunks_exact(head_dim).zip(values.chunks_exact(head_dim)).enumerate() {
                slab.write(extent, position, k, v);
            }
            // The trainer's blocks, for dialogues that end here and there.
            for end in [5, 64, 65, 513, 514, 515, TOKENS] {
                let mut expected = vec![0.0; TOKENS * head_dim];
                for start in (0..end).step_by(BLOCK_ROWS) {
                    let rows = BLOCK_ROWS.min(end - start);
                    let [k, v] = [&keys, &values].map(|data| View::rows(data, head_dim));
                    let q = View::rows(&q[start * head_dim..], head_dim);
                    let block = Block { q, rows, k, v, first_visible: start + 1, step: 1, head_dim };
                    block.forward(&mut expected[start * head_dim..], head_dim, None, &mut Vec::new());
                }
                for (from, rows) in
                    (0..end).map(|at| (at, 1)).chain([(0, end), (1, 3), (end - 3, 3), (end / 2, end / 3)])
                {
                    let mut ours = vec![0.0; rows * head_dim];
                    let x = Rows { data: &q[from * head_dim..], stride: head_dim, count: rows };
                    slab.attend(extent, x, from + 1, 1, &mut ours, head_dim, &mut Vec::new());
                    let expected = &expected[from * head_dim..][..rows * head_dim];
                    assert!(ours == expected, "{rows} from {from} of {end}, width {head_dim}");
                }
            }
        }
    }
}
