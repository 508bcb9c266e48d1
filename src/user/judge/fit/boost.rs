//! Gradient boosting of logistic loss with histograms.

use super::super::trees::Tree;

/// Settings of a fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Boosting {
    pub(super) trees: usize,
    pub(super) depth: usize,
    pub(super) rate: f64,
    /// Added to the sum of second derivatives of a leaf.
    pub(super) shrink: f64,
    /// Least sum of second derivatives in a leaf.
    pub(super) least: f64,
}

const BINS: usize = 32;
/// Room for a measure's bins in a histogram.
const WIDTH: usize = 64;

/// Measures cut into bins, once for all fits.
pub(super) struct Binned {
    /// For each measure, upper edges of the bins but the last.
    edges: Vec<Vec<f32>>,
    /// `[measure][row]`.
    bins: Vec<Vec<u8>>,
}

impl Binned {
    /// Cuts each of the first `measures` measures at its quantiles.
    pub(super) fn of(rows: &[&[f32]], measures: usize) -> Binned {
        let mut edges = Vec::with_capacity(measures);
        let mut bins = Vec::with_capacity(measures);
        for m in 0..measures {
            let mut sorted: Vec<f32> = rows.iter().map(|r| r[m]).collect();
            sorted.sort_unstable_by(f32::total_cmp);
            let mut cuts: Vec<f32> = (1..BINS).map(|b| sorted[b * (sorted.len() - 1) / BINS]).collect();
            // Rare values get a cut of their own: between the smallest and the rest.
            cuts.insert(0, sorted[0]);
            cuts.dedup();
            cuts.truncate(WIDTH - 1);
            bins.push(rows.iter().map(|r| cuts.partition_point(|c| *c < r[m]) as u8).collect());
            edges.push(cuts);
        }
        Binned { edges, bins }
    }
}

/// Fits trees to soft targets, starting from `offset` log-odds per row; returns trees whose sum adds to the offset.
pub(super) fn fit(
    binned: &Binned,
    chosen: &[usize],
    target: &[f64],
    weight: &[f64],
    offset: &dyn Fn(usize) -> f64,
    settings: Boosting,
) -> Vec<Tree> {
    let mut score: Vec<f64> = chosen.iter().map(|r| offset(*r)).collect();
    let mut trees = Vec::with_capacity(settings.trees);
    let mut gradient = vec![(0.0f64, 0.0f64); chosen.len()];
    for _ in 0..settings.trees {
        for ((g, row), z) in gradient.iter_mut().zip(chosen).zip(&score) {
            let p = 1.0 / (1.0 + (-z).exp());
            *g = (weight[*row] * (target[*row] - p), weight[*row] * (p * (1.0 - p)).max(1e-4));
        }
        let (tree, leaf_of) = grow(binned, chosen, &gradient, settings);
        for (z, leaf) in score.iter_mut().zip(leaf_of) {
            *z += f64::from(tree.leaf[leaf]);
        }
        trees.push(tree);
    }
    trees
}

fn grow(binned: &Binned, chosen: &[usize], gradient: &[(f64, f64)], settings: Boosting) -> (Tree, Vec<usize>) {
    let inner = (1 << settings.depth) - 1;
    let mut tree = Tree { measure: vec![0; inner], above: vec![f32::MAX; inner], leaf: vec![0.0; inner + 1] };
    let mut node_of = vec![0usize; chosen.len()];
    for level in 0..settings.depth {
        let (first, nodes) = ((1 << level) - 1, 1usize << level);
        let mut best = vec![(1e-9f64, usize::MAX, 0usize); nodes];
        let mut histogram = vec![(0.0f64, 0.0f64); nodes * WIDTH];
        let mut total = vec![(0.0f64, 0.0f64); nodes];
        for (node, g) in node_of.iter().zip(gradient) {
            total[node - first].0 += g.0;
            total[node - first].1 += g.1;
        }
        for (m, bins) in binned.bins.iter().enumerate() {
            let cuts = binned.edges[m].len();
            histogram.iter_mut().for_each(|h| *h = (0.0, 0.0));
            for ((row, node), g) in chosen.iter().zip(&node_of).zip(gradient) {
                let h = &mut histogram[(node - first) * WIDTH + usize::from(bins[*row])];
                h.0 += g.0;
                h.1 += g.1;
            }
            let worth = |g: f64, h: f64| g * g / (h + settings.shrink);
            for node in 0..nodes {
                let (mut g, mut h) = (0.0, 0.0);
                let (tg, th) = total[node];
                for cut in 0..cuts {
                    let (dg, dh) = histogram[node * WIDTH + cut];
                    g += dg;
                    h += dh;
                    if h < settings.least || th - h < settings.least {
                        continue;
                    }
                    let gain = worth(g, h) + worth(tg - g, th - h) - worth(tg, th);
                    if gain > best[node].0 {
                        best[node] = (gain, m, cut);
                    }
                }
            }
        }
        for (node, (_, measure, cut)) in best.iter().enumerate().filter(|(_, b)| b.1 != usize::MAX) {
            tree.measure[first + node] = *measure as u16;
            tree.above[first + node] = binned.edges[*measure][*cut];
        }
        for (node, row) in node_of.iter_mut().zip(chosen) {
            let (_, measure, cut) = best[*node - first];
            let right = measure != usize::MAX && usize::from(binned.bins[measure][*row]) > cut;
            *node = 2 * *node + 1 + usize::from(right);
        }
    }
    let mut sums = vec![(0.0, 0.0); inner + 1];
    node_of.iter_mut().for_each(|n| *n -= inner);
    for (leaf, g) in node_of.iter().zip(gradient) {
        sums[*leaf].0 += g.0;
        sums[*leaf].1 += g.1;
    }
    for (value, (g, h)) in tree.leaf.iter_mut().zip(sums) {
        *value = (settings.rate * g / (h + settings.shrink)) as f32;
    }
    (tree, node_of)
}

#[cfg(test)]
mod tests {
    use super::super::super::trees;
    use super::*;

    // The quadrants differ in size: of equal ones no single cut says anything, and trees grown cut by cut never start.
    #[test]
    fn learns_an_interaction_that_no_linear_model_has() {
        let points: Vec<[f32; 2]> = (0..400).map(|i| [(i % 20) as f32, (i / 20) as f32]).collect();
        let target: Vec<f64> = points.iter().map(|p| f64::from(u8::from((p[0] > 6.5) != (p[1] > 12.5)))).collect();
        let rows: Vec<&[f32]> = points.iter().map(|p| &p[..]).collect();
        let binned = Binned::of(&rows, 2);
        let settings = Boosting { trees: 40, depth: 3, rate: 0.3, shrink: 1.0, least: 1.0 };
        let all: Vec<usize> = (0..400).collect();
        let fitted = fit(&binned, &all, &target, &vec![1.0; 400], &|_| 0.0, settings);
        let right = points.iter().zip(&target).filter(|(p, t)| (trees::sum(&fitted, &p[..]) > 0.0) == (**t > 0.5));
        assert!(right.count() >= 390);
    }
}
