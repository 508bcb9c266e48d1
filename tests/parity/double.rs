//! A Qwen2 network in `f64` with its gradients, written for the tests: it shares no code with the library's.
//!
//! Every operation is a node with its value; `backward` walks the nodes in reverse and adds up gradients.

use std::collections::BTreeMap;

/// A matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

impl Matrix {
    fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, values: vec![0.0; rows * columns] }
    }

    pub(crate) fn row(&self, r: usize) -> &[f64] {
        &self.values[r * self.columns..][..self.columns]
    }

    fn add(&mut self, other: &Matrix) {
        self.values.iter_mut().zip(&other.values).for_each(|(a, b)| *a += b);
    }
}

/// Sizes the matrices do not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) eps: f64,
    pub(crate) theta: f64,
}

pub(crate) type Parameters = BTreeMap<String, Matrix>;

enum Op {
    Parameter(String),
    /// Rows of the first, by index.
    Rows(usize, Vec<usize>),
    Add(usize, usize),
    /// Every row of the first plus the one row of the second.
    AddRow(usize, usize),
    /// The first times the transposed second.
    TimesTransposed(usize, usize),
    Norm(usize, usize),
    Rotate(usize),
    Attend(usize, usize, usize),
    /// silu(first) · second.
    Gate(usize, usize),
}

/// A forward pass that remembers how it went.
pub(crate) struct Tape<'a> {
    parameters: &'a Parameters,
    sizes: Sizes,
    nodes: Vec<(Op, Matrix)>,
}

impl<'a> Tape<'a> {
    pub(crate) fn new(parameters: &'a Parameters, sizes: Sizes) -> Tape<'a> {
        Tape { parameters, sizes, nodes: Vec::new() }
    }

    pub(crate) fn value(&self, node: usize) -> &Matrix {
        &self.nodes[node].1
    }

    fn push(&mut self, op: Op, value: Matrix) -> usize {
        self.nodes.push((op, value));
        self.nodes.len() - 1
    }

    fn parameter(&mut self, name: &str) -> usize {
        let value = self.parameters.get(name).unwrap_or_else(|| panic!("no parameter {name}")).clone();
        self.push(Op::Parameter(name.into()), value)
    }

    pub(crate) fn rows(&mut self, of: usize, index: Vec<usize>) -> usize {
        let from = self.value(of);
        let values = index.iter().flat_map(|r| from.row(*r).to_vec()).collect();
        let value = Matrix { rows: index.len(), columns: from.columns, values };
        self.push(Op::Rows(of, index), value)
    }

    fn add(&mut self, a: usize, b: usize) -> usize {
        let mut value = self.value(a).clone();
        value.add(self.value(b));
        self.push(Op::Add(a, b), value)
    }

    fn times_transposed(&mut self, a: usize, b: usize) -> usize {
        let (x, w) = (self.value(a), self.value(b));
        let mut value = Matrix::zeros(x.rows, w.rows);
        for r in 0..x.rows {
            for o in 0..w.rows {
                value.values[r * w.rows + o] = x.row(r).iter().zip(w.row(o)).map(|(x, w)| x * w).sum();
            }
        }
        self.push(Op::TimesTransposed(a, b), value)
    }

    /// `x·Wᵀ`, plus the bias if there is one of that name.
    pub(crate) fn project(&mut self, x: usize, name: &str) -> usize {
        let weight = self.parameter(&format!("{name}.weight"));
        let product = self.times_transposed(x, weight);
        let bias = format!("{name}.bias");
        if !self.parameters.contains_key(&bias) {
            return product;
        }
        let bias = self.parameter(&bias);
        let (mut value, row) = (self.value(product).clone(), self.value(bias).values.clone());
        value.values.chunks_mut(row.len()).for_each(|r| r.iter_mut().zip(&row).for_each(|(v, b)| *v += b));
        self.push(Op::AddRow(product, bias), value)
    }

    fn norm(&mut self, x: usize, name: &str) -> usize {
        let weight = self.parameter(name);
        let (x_value, w) = (self.value(x), self.value(weight));
        let mut value = x_value.clone();
        for r in value.values.chunks_mut(x_value.columns) {
            let scale = self.sizes.scale(r);
            r.iter_mut().zip(&w.values).for_each(|(v, w)| *v *= scale * w);
        }
        self.push(Op::Norm(x, weight), value)
    }

    fn rotate(&mut self, x: usize, heads: usize) -> usize {
        let mut value = self.value(x).clone();
        self.sizes.rotate(&mut value, heads, 1.0);
        self.push(Op::Rotate(x), value)
    }

    fn attend(&mut self, q: usize, k: usize, v: usize) -> usize {
        let mut value = Matrix::zeros(self.value(q).rows, self.value(q).columns);
        let width = value.columns / self.sizes.heads;
        for head in 0..self.sizes.heads {
            for t in 0..value.rows {
                let weights = self.weights(q, k, head, t);
                let kv = head / (self.sizes.heads / self.sizes.kv_heads);
                for (s, weight) in weights.iter().enumerate() {
                    for i in 0..width {
                        value.values[t * self.value(q).columns + head * width + i] +=
                            weight * self.value(v).row(s)[kv * width + i];
                    }
                }
            }
        }
        self.push(Op::Attend(q, k, v), value)
    }

    /// Attention weights of one head and query.
    fn weights(&self, q: usize, k: usize, head: usize, t: usize) -> Vec<f64> {
        let width = self.value(q).columns / self.sizes.heads;
        let kv = head / (self.sizes.heads / self.sizes.kv_heads);
        let query = &self.value(q).row(t)[head * width..][..width];
        let scores: Vec<f64> = (0..=t)
            .map(|s| {
                let key = &self.value(k).row(s)[kv * width..][..width];
                query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() / (width as f64).sqrt()
            })
            .collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let raised: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f64 = raised.iter().sum();
        raised.iter().map(|e| e / sum).collect()
    }

    fn gate(&mut self, a: usize, b: usize) -> usize {
        let mut value = self.value(a).clone();
        value.values.iter_mut().zip(&self.value(b).values).for_each(|(a, b)| *a = *a / (1.0 + (-*a).exp()) * b);
        self.push(Op::Gate(a, b), value)
    }

    /// Normalised last states of a sequence.
    pub(crate) fn states(&mut self, ids: &[u32]) -> usize {
        let table = self.parameter("model.embed_tokens.weight");
        let mut x = self.rows(table, ids.iter().map(|id| *id as usize).collect());
        for layer in 0..self.sizes.layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let normed = self.norm(x, &name("input_layernorm.weight"));
            let [q, k, v] = ["q", "k", "v"].map(|p| self.project(normed, &name(&format!("self_attn.{p}_proj"))));
            let (q, k) = (self.rotate(q, self.sizes.heads), self.rotate(k, self.sizes.kv_heads));
            let attended = self.attend(q, k, v);
            let out = self.project(attended, &name("self_attn.o_proj"));
            x = self.add(x, out);
            let normed = self.norm(x, &name("post_attention_layernorm.weight"));
            let [gate, up] = ["gate", "up"].map(|p| self.project(normed, &name(&format!("mlp.{p}_proj"))));
            let gated = self.gate(gate, up);
            let out = self.project(gated, &name("mlp.down_proj"));
            x = self.add(x, out);
        }
        self.norm(x, "model.norm.weight")
    }

    /// Adds to `gradients` those of a loss whose gradient at `node` is given.
    pub(crate) fn backward(&self, node: usize, gradient: Matrix, gradients: &mut Parameters) {
        let mut open: Vec<Option<Matrix>> = vec![None; self.nodes.len()];
        open[node] = Some(gradient);
        for at in (0..=node).rev() {
            let Some(gradient) = open[at].take() else { continue };
            for (to, part) in self.parts(at, &gradient, gradients) {
                match &mut open[to] {
                    Some(sum) => sum.add(&part),
                    none => *none = Some(part),
                }
            }
        }
    }

    /// What the gradient at a node is at the nodes it was made from.
    fn parts(&self, at: usize, gradient: &Matrix, gradients: &mut Parameters) -> Vec<(usize, Matrix)> {
        match &self.nodes[at].0 {
            Op::Parameter(name) => {
                let empty = || Matrix::zeros(gradient.rows, gradient.columns);
                gradients.entry(name.clone()).or_insert_with(empty).add(gradient);
                vec![]
            }
            Op::Rows(of, index) => {
                let mut part = Matrix::zeros(self.value(*of).rows, gradient.columns);
                for (r, from) in index.iter().enumerate() {
                    let to = &mut part.values[from * gradient.columns..][..gradient.columns];
                    to.iter_mut().zip(gradient.row(r)).for_each(|(a, b)| *a += b);
                }
                vec![(*of, part)]
            }
            Op::Add(a, b) => vec![(*a, gradient.clone()), (*b, gradient.clone())],
            Op::AddRow(a, b) => {
                let mut row = Matrix::zeros(1, gradient.columns);
                for r in 0..gradient.rows {
                    row.values.iter_mut().zip(gradient.row(r)).for_each(|(a, b)| *a += b);
                }
                vec![(*a, gradient.clone()), (*b, row)]
            }
            Op::TimesTransposed(a, b) => {
                let (x, w) = (self.value(*a), self.value(*b));
                let (mut dx, mut dw) = (Matrix::zeros(x.rows, x.columns), Matrix::zeros(w.rows, w.columns));
                for r in 0..x.rows {
                    for (o, g) in gradient.row(r).iter().enumerate() {
                        for i in 0..x.columns {
                            dx.values[r * x.columns + i] += g * w.row(o)[i];
                            dw.values[o * x.columns + i] += g * x.row(r)[i];
                        }
                    }
                }
                vec![(*a, dx), (*b, dw)]
            }
            Op::Norm(x, weight) => {
                let (x_value, w) = (self.value(*x), self.value(*weight));
                let n = x_value.columns as f64;
                let (mut dx, mut dw) = (Matrix::zeros(x_value.rows, x_value.columns), Matrix::zeros(w.rows, w.columns));
                for r in 0..x_value.rows {
                    let (row, g) = (x_value.row(r), gradient.row(r));
                    let scale = self.sizes.scale(row);
                    let dot: f64 = (0..row.len()).map(|i| g[i] * w.values[i] * row[i]).sum();
                    for i in 0..row.len() {
                        dw.values[i] += g[i] * row[i] * scale;
                        dx.values[r * row.len() + i] = scale * (g[i] * w.values[i] - row[i] * dot * scale * scale / n);
                    }
                }
                vec![(*x, dx), (*weight, dw)]
            }
            Op::Rotate(x) => {
                let width = self.value(*x).columns;
                let heads = if width == self.query_width() { self.sizes.heads } else { self.sizes.kv_heads };
                let mut part = gradient.clone();
                self.sizes.rotate(&mut part, heads, -1.0);
                vec![(*x, part)]
            }
            Op::Attend(q, k, v) => self.attend_parts(*q, *k, *v, gradient),
            Op::Gate(a, b) => {
                let (mut da, mut db) = (gradient.clone(), gradient.clone());
                for i in 0..gradient.values.len() {
                    let (x, up) = (self.value(*a).values[i], self.value(*b).values[i]);
                    let sigmoid = 1.0 / (1.0 + (-x).exp());
                    da.values[i] *= up * sigmoid * (1.0 + x * (1.0 - sigmoid));
                    db.values[i] *= x * sigmoid;
                }
                vec![(*a, da), (*b, db)]
            }
        }
    }

    fn query_width(&self) -> usize {
        self.parameters["model.layers.0.self_attn.q_proj.weight"].rows
    }

    fn attend_parts(&self, q: usize, k: usize, v: usize, gradient: &Matrix) -> Vec<(usize, Matrix)> {
        let zeros = |node: usize| Matrix::zeros(self.value(node).rows, self.value(node).columns);
        let (mut dq, mut dk, mut dv) = (zeros(q), zeros(k), zeros(v));
        let (columns, kv_columns) = (dq.columns, dk.columns);
        let width = columns / self.sizes.heads;
        let root = (width as f64).sqrt();
        for head in 0..self.sizes.heads {
            let kv = head / (self.sizes.heads / self.sizes.kv_heads);
            for t in 0..dq.rows {
                let weights = self.weights(q, k, head, t);
                let g = &gradient.row(t)[head * width..][..width];
                let along: Vec<f64> = (0..=t)
                    .map(|s| (0..width).map(|i| g[i] * self.value(v).row(s)[kv * width + i]).sum::<f64>())
                    .collect();
                let mean: f64 = weights.iter().zip(&along).map(|(w, a)| w * a).sum();
                for s in 0..=t {
                    let d_score = weights[s] * (along[s] - mean) / root;
                    for i in 0..width {
                        dv.values[s * kv_columns + kv * width + i] += weights[s] * g[i];
                        dq.values[t * columns + head * width + i] += d_score * self.value(k).row(s)[kv * width + i];
                        dk.values[s * kv_columns + kv * width + i] += d_score * self.value(q).row(t)[head * width + i];
                    }
                }
            }
        }
        vec![(q, dq), (k, dk), (v, dv)]
    }
}

impl Sizes {
    fn scale(&self, row: &[f64]) -> f64 {
        (row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64 + self.eps).sqrt().recip()
    }

    /// Turns the halves of each head against each other, by an angle that grows with the position.
    fn rotate(&self, x: &mut Matrix, heads: usize, direction: f64) {
        let width = x.columns / heads;
        for position in 0..x.rows {
            for head in 0..heads {
                let row = &mut x.values[position * heads * width + head * width..][..width];
                for i in 0..width / 2 {
                    let angle = direction * position as f64 * self.theta.powf(-2.0 * i as f64 / width as f64);
                    let (a, b) = (row[i], row[i + width / 2]);
                    row[i] = a * angle.cos() - b * angle.sin();
                    row[i + width / 2] = b * angle.cos() + a * angle.sin();
                }
            }
        }
    }
}
