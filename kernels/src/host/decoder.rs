use std::sync::Mutex;
use std::sync::atomic::Ordering;

use burn::tensor::Device;

use super::cache::{Cache, Extent, SCRATCH, Strided, Token};
use super::packed::{PANEL, Packed, Rows, available, padded};
use super::team::Team;
use super::weights::{DecoderWeights, Layer, Weights};
use super::{WeightFormat, packed};
use crate::cache::Spans;
use crate::norm::flex::normalise;
use crate::rotary::flex::turn;
use crate::rotary::{angle, frequencies};
use crate::simd::vectorised;
use crate::swiglu::flex::gated;
use crate::{REFERENCE, ShapeError};

/// Sizes of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecoderShape {
    /// Width of a token's state.
    pub hidden: usize,
    /// Width of the feed-forward part.
    pub intermediate: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Added to the mean square.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
}

/// From so many tokens per thread on, threads share out tokens instead of outputs.
const CHUNKED: usize = 16;
/// Most tokens of a chunk: four tiles, whose states stay in the second cache.
const CHUNK: usize = 4 * packed::ROWS;
/// A thread is worth waiting for from about so many weights on.
const WEIGHTS_PER_THREAD: usize = 1 << 18;

/// A Qwen2-like network that generates, with its key/value cache.
#[derive(Debug)]
pub struct Decoder {
    shape: DecoderShape,
    weights: Option<Weights>,
    cache: Cache,
    rotary: Rotary,
    team: Team,
    scratch: Vec<f32>,
}

/// Angles of the positions seen so far.
#[derive(Debug)]
struct Rotary {
    frequencies: Vec<f64>,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rotary {
    fn grow(&mut self, positions: usize) {
        let half = self.frequencies.len();
        for position in self.cos.len() / half..positions {
            for &frequency in &self.frequencies {
                let (cos, sin) = angle(position, frequency);
                self.cos.push(cos);
                self.sin.push(sin);
            }
        }
    }

    fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let half = self.frequencies.len();
        (&self.cos[position * half..][..half], &self.sin[position * half..][..half])
    }
}

/// Consecutive new tokens that go through the layers together, with their states. Rows are whole panels wide.
#[derive(Debug)]
struct Chunk {
    tokens: Vec<Token>,
    x: Vec<f32>,
    h: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    mixed: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

impl Chunk {
    fn new(tokens: Vec<Token>, ids: &[u32], embedding: &[f32], shape: &DecoderShape) -> Chunk {
        let n = tokens.len();
        let [hidden, query, key, inner] = shape.widths();
        let mut x = vec![0.0; n * hidden];
        for (x, &id) in x.chunks_exact_mut(hidden).zip(ids) {
            x[..shape.hidden].copy_from_slice(&embedding[id as usize * shape.hidden..][..shape.hidden]);
        }
        let zeros = |width: usize| vec![0.0; n * width];
        Chunk {
            tokens,
            x,
            h: zeros(hidden),
            q: zeros(query),
            k: zeros(key),
            v: zeros(key),
            mixed: zeros(query),
            gate: zeros(inner),
            up: zeros(inner),
        }
    }
}

impl DecoderShape {
    /// Strides of states, queries, keys and the feed-forward part.
    fn widths(&self) -> [usize; 4] {
        [self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim, self.intermediate].map(padded)
    }

    fn extent(&self, capacity: usize) -> Extent {
        Extent { capacity, head_dim: self.head_dim }
    }
}

impl Decoder {
    /// Whether the decoder computes what the operations on this device do: Flex, on a CPU with the instructions it needs.
    pub fn available(device: &Device) -> bool {
        available() && crate::is_flex(&device.clone().without_autodiff()) && !REFERENCE.load(Ordering::Relaxed)
    }

    /// A decoder without weights, with room for `rows` sequences of up to `capacity` tokens.
    pub fn new(shape: DecoderShape, rows: usize, capacity: usize) -> Decoder {
        let per_layer = 2 * shape.hidden * (shape.head_dim * (shape.heads + shape.kv_heads))
            + 3 * shape.hidden * shape.intermediate;
        let weights = shape.layers * per_layer + shape.hidden * shape.vocabulary;
        let threads = rayon::current_num_threads().min(1 + weights / WEIGHTS_PER_THREAD);
        Decoder {
            cache: Cache::new([shape.layers, rows, shape.kv_heads], shape.extent(capacity)),
            rotary: Rotary { frequencies: frequencies(shape.head_dim, shape.rope_theta), cos: vec![], sin: vec![] },
            team: Team::new(threads),
            scratch: Vec::new(),
            weights: None,
            shape,
        }
    }

    /// Sequences the cache holds.
    pub fn rows(&self) -> usize {
        self.cache.rows()
    }

    /// Tokens per sequence.
    pub fn capacity(&self) -> usize {
        self.cache.extent.capacity
    }

    /// Whether there are weights.
    pub fn is_ready(&self) -> bool {
        self.weights.is_some()
    }

    /// Takes weights; what is cached came from the ones before.
    ///
    /// # Errors
    /// When they are not f32 on Flex.
    pub fn set_weights(&mut self, weights: DecoderWeights, format: WeightFormat) -> Result<(), ShapeError> {
        self.weights = None;
        self.weights = Some(Weights::new(weights, format)?);
        Ok(())
    }

    /// Lets go of the weights.
    pub fn release_weights(&mut self) {
        self.weights = None;
    }

    /// Logits `[ends, vocabulary]` after the new tokens at `ends`; all tokens' keys and values go into the cache.
    ///
    /// # Errors
    /// When the tokens do not fit the cache.
    ///
    /// # Panics
    /// Without weights, or when an id is outside the vocabulary.
    pub fn step(&mut self, ids: &[u32], spans: &Spans, ends: &[usize]) -> Result<Vec<f32>, ShapeError> {
        let shape = self.shape;
        let cache = [self.rows(), self.capacity(), shape.kv_heads, shape.head_dim];
        spans.check("decoder", cache, ids.len())?;
        let tokens: Vec<Token> = spans
            .0
            .iter()
            .flat_map(|s| (s.start..s.start + s.length).map(|position| Token { row: s.row, position }))
            .collect();
        self.rotary.grow(tokens.iter().map(|t| t.position + 1).max().unwrap_or(0));
        let weights = self.weights.as_ref().expect("weights were set");
        let mut pass = Pass {
            shape,
            weights,
            cache: &self.cache,
            rotary: &self.rotary,
            team: &mut self.team,
            scratch: &mut self.scratch,
        };
        let mut last = if tokens.len() < CHUNKED * pass.team.threads() {
            pass.together(tokens, ids, ends)
        } else {
            pass.chunked(tokens, ids, ends)
        };
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        pass.rest_together(&mut last, shape.layers - 1);
        Ok(pass.logits(&mut last))
    }
}

/// One step: what it reads, and the threads that do it.
struct Pass<'a> {
    shape: DecoderShape,
    weights: &'a Weights,
    cache: &'a Cache,
    rotary: &'a Rotary,
    team: &'a mut Team,
    scratch: &'a mut Vec<f32>,
}

impl Pass<'_> {
    /// All layers but the rest of the last one, which only the tokens at `ends` go through: those. Threads share out outputs.
    fn together(&mut self, tokens: Vec<Token>, ids: &[u32], ends: &[usize]) -> Chunk {
        let mut all = Chunk::new(tokens, ids, self.weights.embedding(), &self.shape);
        for layer in 0..self.shape.layers {
            if layer > 0 {
                self.rest_together(&mut all, layer - 1);
            }
            self.start_together(&mut all, layer);
        }
        if ends.len() == all.tokens.len() { all } else { self.at_ends(&[&all], ends) }
    }

    /// The same; threads share out chunks of tokens.
    fn chunked(&mut self, tokens: Vec<Token>, ids: &[u32], ends: &[usize]) -> Chunk {
        let threads = self.team.threads();
        let count = threads * tokens.len().div_ceil(threads * CHUNK);
        let cut = |i: usize| i * tokens.len() / count;
        let chunks: Vec<Mutex<Chunk>> = (0..count)
            .map(|i| {
                let range = cut(i)..cut(i + 1);
                let (tokens, ids) = (tokens[range.clone()].to_vec(), &ids[range]);
                Mutex::new(Chunk::new(tokens, ids, self.weights.embedding(), &self.shape))
            })
            .collect();
        for layer in 0..self.shape.layers {
            let (shape, weights, cache, rotary) = (self.shape, self.weights, self.cache, self.rotary);
            self.team.run(count, |i| {
                let mut chunk = chunks[i].lock().expect("a panic ends the step");
                if layer > 0 {
                    rest(&mut chunk, layer - 1, &weights.layers[layer - 1], cache, &shape);
                }
                start(&mut chunk, layer, &weights.layers[layer], cache, rotary, &shape);
            });
        }
        let chunks: Vec<Chunk> = chunks.into_iter().map(|c| c.into_inner().expect("a panic ends the step")).collect();
        self.at_ends(&chunks.iter().collect::<Vec<_>>(), ends)
    }

    /// The tokens numbered `ends`, ascending, with their states and queries.
    fn at_ends(&self, chunks: &[&Chunk], ends: &[usize]) -> Chunk {
        let mut some = Chunk::new(Vec::new(), &[], &[], &self.shape);
        let [hidden, query, _, inner] = self.shape.widths();
        let (mut first, mut ends) = (0, ends.iter().copied().peekable());
        for chunk in chunks {
            while let Some(end) = ends.next_if(|end| *end < first + chunk.tokens.len()) {
                let at = end - first;
                some.tokens.push(chunk.tokens[at]);
                some.x.extend_from_slice(&chunk.x[at * hidden..][..hidden]);
                some.q.extend_from_slice(&chunk.q[at * query..][..query]);
            }
            first += chunk.tokens.len();
        }
        let n = some.tokens.len();
        some.h.resize(n * hidden, 0.0);
        some.mixed.resize(n * query, 0.0);
        some.gate.resize(n * inner, 0.0);
        some.up.resize(n * inner, 0.0);
        some
    }

    fn start_together(&mut self, chunk: &mut Chunk, layer: usize) {
        let weights = &self.weights.layers[layer];
        let Chunk { tokens, x, h, q, k, v, .. } = chunk;
        let [hidden, query, key, _] = self.shape.widths();
        normalise_rows(h, x, &weights.input_norm, hidden, self.shape.rms_norm_eps);
        let jobs = weights.qkv.each_ref().map(|(weight, bias)| (weight, bias.as_deref()));
        self.products(h, hidden, &jobs, &mut [(q, query), (k, key), (v, key)]);
        rotate_and_keep(tokens, q, k, v, layer, self.cache, self.rotary, &self.shape);
    }

    fn rest_together(&mut self, chunk: &mut Chunk, layer: usize) {
        let weights = &self.weights.layers[layer];
        let DecoderShape { heads, rms_norm_eps, .. } = self.shape;
        let [hidden, query, _, inner] = self.shape.widths();
        let Chunk { tokens, x, h, q, mixed, gate, up, .. } = chunk;
        self.cache.attend(self.team, layer, tokens, heads, Strided { data: q, stride: query }, mixed);
        self.products(mixed, query, &[(&weights.output, None)], &mut [(h, hidden)]);
        add(x, h);
        normalise_rows(h, x, &weights.post_norm, hidden, rms_norm_eps);
        self.products(h, hidden, &[(&weights.gate, None), (&weights.up, None)], &mut [(gate, inner), (up, inner)]);
        vectorised!(gated(gate, up));
        self.products(gate, inner, &[(&weights.down, None)], &mut [(h, hidden)]);
        add(x, h);
    }

    /// Products of the same rows with several weights, each with its own destination. A task is two panels of outputs.
    fn products(
        &mut self,
        x: &[f32],
        stride: usize,
        jobs: &[(&Packed, Option<&[f32]>)],
        outs: &mut [(&mut Vec<f32>, usize)],
    ) {
        const WIDTH: usize = 2 * PANEL;
        let x = Rows { data: x, stride, count: x.len() / stride };
        let tasks: Vec<(usize, usize)> = (0..jobs.len())
            .flat_map(|job| (0..jobs[job].0.panels()).step_by(2).map(move |panel| (job, panel)))
            .collect();
        self.scratch.resize(tasks.len() * x.count * WIDTH, 0.0);
        let parts: Vec<Mutex<&mut [f32]>> = self.scratch.chunks_exact_mut(x.count * WIDTH).map(Mutex::new).collect();
        self.team.run(tasks.len(), |task| {
            let (job, panel) = tasks[task];
            let (weight, bias) = jobs[job];
            let count = (weight.panels() - panel).min(2);
            let mut part = parts[task].lock().expect("a panic ends the step");
            if let Some(bias) = bias {
                let bias = &bias[panel * PANEL..][..count * PANEL];
                part.chunks_exact_mut(WIDTH).for_each(|row| row[..bias.len()].copy_from_slice(bias));
            }
            weight.product(x, panel, count, &mut part, WIDTH, bias.is_some());
        });
        drop(parts);
        for (&(job, panel), part) in tasks.iter().zip(self.scratch.chunks_exact(x.count * WIDTH)) {
            let (out, stride) = &mut outs[job];
            let from = panel * PANEL;
            let columns = WIDTH.min(*stride - from);
            for (out, part) in out.chunks_exact_mut(*stride).zip(part.chunks_exact(WIDTH)) {
                out[from..from + columns].copy_from_slice(&part[..columns]);
            }
        }
    }

    fn logits(&mut self, last: &mut Chunk) -> Vec<f32> {
        let DecoderShape { vocabulary, rms_norm_eps, .. } = self.shape;
        let [hidden, ..] = self.shape.widths();
        let Chunk { x, h, .. } = last;
        normalise_rows(h, x, &self.weights.norm, hidden, rms_norm_eps);
        let mut logits = vec![0.0; last.tokens.len() * vocabulary];
        self.products(h, hidden, &[(&self.weights.head, None)], &mut [(&mut logits, vocabulary)]);
        logits
    }
}

/// Up to the cache: what the layer's attention needs of these tokens.
fn start(chunk: &mut Chunk, layer: usize, weights: &Layer, cache: &Cache, rotary: &Rotary, shape: &DecoderShape) {
    let Chunk { tokens, x, h, q, k, v, .. } = chunk;
    let [hidden, query, key, _] = shape.widths();
    normalise_rows(h, x, &weights.input_norm, hidden, shape.rms_norm_eps);
    let rows = Rows { data: h, stride: hidden, count: tokens.len() };
    for ((weight, bias), (out, stride)) in weights.qkv.iter().zip([(&mut *q, query), (&mut *k, key), (&mut *v, key)]) {
        if let Some(bias) = bias {
            out.chunks_exact_mut(stride).for_each(|row| row.copy_from_slice(bias));
        }
        weight.product(rows, 0, weight.panels(), out, stride, bias.is_some());
    }
    rotate_and_keep(tokens, q, k, v, layer, cache, rotary, shape);
}

/// From attention on.
fn rest(chunk: &mut Chunk, layer: usize, weights: &Layer, cache: &Cache, shape: &DecoderShape) {
    let DecoderShape { heads, kv_heads, head_dim, rms_norm_eps, .. } = *shape;
    let [hidden, query, _, inner] = shape.widths();
    let Chunk { tokens, x, h, q, mixed, gate, up, .. } = chunk;
    let mut from = 0;
    for span in tokens.chunk_by(|a, b| a.row == b.row && b.position == a.position + 1) {
        for head in 0..heads {
            let slab = cache.read(layer, span[0].row, head / (heads / kv_heads));
            let at = from * query + head * head_dim;
            let q = Rows { data: &q[at..], stride: query, count: span.len() };
            let first = span[0].position + 1;
            SCRATCH.with_borrow_mut(|s| slab.attend(cache.extent, q, first, 1, &mut mixed[at..], query, s));
        }
        from += span.len();
    }
    let count = tokens.len();
    fn rows(data: &[f32], stride: usize, count: usize) -> Rows<'_> {
        Rows { data, stride, count }
    }
    weights.output.product(rows(mixed, query, count), 0, weights.output.panels(), h, hidden, false);
    add(x, h);
    normalise_rows(h, x, &weights.post_norm, hidden, rms_norm_eps);
    weights.gate.product(rows(h, hidden, count), 0, weights.gate.panels(), gate, inner, false);
    weights.up.product(rows(h, hidden, count), 0, weights.up.panels(), up, inner, false);
    vectorised!(gated(gate, up));
    weights.down.product(rows(gate, inner, count), 0, weights.down.panels(), h, hidden, false);
    add(x, h);
}

#[allow(clippy::too_many_arguments)]
fn rotate_and_keep(
    tokens: &[Token],
    q: &mut [f32],
    k: &mut [f32],
    v: &[f32],
    layer: usize,
    cache: &Cache,
    rotary: &Rotary,
    shape: &DecoderShape,
) {
    let [_, query, key, _] = shape.widths();
    let [queries, keys] = [shape.heads, shape.kv_heads].map(|heads| heads * shape.head_dim);
    let rows = q.chunks_exact_mut(query).zip(k.chunks_exact_mut(key)).zip(v.chunks_exact(key));
    for (token, ((q, k), v)) in tokens.iter().zip(rows) {
        let (cos, sin) = rotary.at(token.position);
        vectorised!({
            turn(&mut q[..queries], cos, sin);
            turn(&mut k[..keys], cos, sin);
        });
        cache.write(layer, token.row, token.position, k, v);
    }
}

fn normalise_rows(h: &mut [f32], x: &[f32], weight: &[f32], stride: usize, eps: f32) {
    let width = weight.len();
    vectorised!({
        for (h, x) in h.chunks_exact_mut(stride).zip(x.chunks_exact(stride)) {
            normalise(&mut h[..width], &x[..width], weight, eps);
        }
    });
}

fn add(x: &mut [f32], y: &[f32]) {
    vectorised!(x.iter_mut().zip(y).for_each(|(x, y)| *x += y));
}
