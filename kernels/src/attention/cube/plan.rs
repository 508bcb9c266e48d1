use super::tile::Pass;
use crate::cube::Limits;
use crate::fragment::{FLOAT_PAD, Fragment, HALF_PAD, Operand, Product};

/// How a cube cuts its work where it multiplies on tensor cores. Known when the kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    /// Query rows in shared memory.
    pub(crate) rows: usize,
    /// Keys in shared memory.
    pub(crate) keys: usize,
    /// Width of a head.
    pub(crate) head_dim: usize,
    /// Planes of a cube.
    pub(crate) planes: usize,
    pub(crate) fragment: Fragment,
}

impl Plan {
    /// The largest plan that fits the device, or `None` when heads are no whole number of fragments wide or too wide.
    pub(crate) fn choose(pass: Pass, head_dim: usize, limits: Limits, fragment: Fragment) -> Option<Plan> {
        [(64, 64), (32, 64), (32, 32), (16, 32), (32, 16), (16, 16), (8, 8)]
            .into_iter()
            .map(|(rows, keys)| Plan { rows, keys, head_dim, planes: 4, fragment })
            .find(|p| {
                p.products(pass).iter().all(Product::whole)
                    && p.bytes(pass) <= limits.shared * size_of::<f32>()
                    && p.units() <= limits.units
                    && p.units().is_multiple_of(p.rows)
                    && (p.rows * head_dim).is_multiple_of(p.units())
                    && p.keys.is_multiple_of(p.parts())
            })
    }

    /// Units of a cube.
    pub(crate) fn units(&self) -> usize {
        self.planes * self.fragment.plane
    }

    /// Units that share a query row's keys.
    pub(crate) fn parts(&self) -> usize {
        (self.units() / self.rows).max(1)
    }

    /// Distance in shared memory of rows of q, k, v and gradients.
    pub(crate) fn ld(&self) -> usize {
        self.head_dim + HALF_PAD
    }

    /// Of rows of half-precision weights.
    pub(crate) fn ld_weights(&self) -> usize {
        self.keys + HALF_PAD
    }

    /// Of rows of scores.
    pub(crate) fn ld_scores(&self) -> usize {
        self.keys + FLOAT_PAD
    }

    /// Of rows of results.
    pub(crate) fn ld_sums(&self) -> usize {
        self.head_dim + FLOAT_PAD
    }

    fn product(&self, [rows, columns, depth]: [usize; 3], left: Operand, right: Operand) -> Product {
        Product { rows, columns, depth, left, right, planes: self.planes, fragment: self.fragment }
    }

    /// Rows by keys: q·kᵀ, dO·vᵀ.
    pub(crate) fn scores(&self) -> Product {
        let heads = Operand { ld: self.ld(), along: true };
        self.product([self.rows, self.keys, self.head_dim], heads, heads)
    }

    /// Rows by head width: weights·v, slopes·k.
    pub(crate) fn gather(&self) -> Product {
        let weights = Operand { ld: self.ld_weights(), along: true };
        self.product([self.rows, self.head_dim, self.keys], weights, Operand { ld: self.ld(), along: false })
    }

    /// Keys by head width: slopesᵀ·q, weightsᵀ·dO.
    pub(crate) fn gather_transposed(&self) -> Product {
        let weights = Operand { ld: self.ld_weights(), along: false };
        self.product([self.keys, self.head_dim, self.rows], weights, Operand { ld: self.ld(), along: false })
    }

    fn products(&self, pass: Pass) -> [Product; 2] {
        let second = if pass == Pass::Keys { self.gather_transposed() } else { self.gather() };
        [self.scores(), second]
    }

    /// Shared memory of a kernel.
    fn bytes(&self, pass: Pass) -> usize {
        let (scores, weights) = (self.rows * self.ld_scores() * 4, self.rows * self.ld_weights() * 2);
        match pass {
            Pass::Forward => {
                (self.rows + 2 * self.keys) * self.ld() * 2
                    + scores
                    + weights
                    + self.rows * self.ld_sums() * 4
                    + self.rows * (3 * self.parts() + 1) * 4
            }
            Pass::Query | Pass::Keys => {
                let (halves, results) = if pass == Pass::Keys { (2, self.keys) } else { (1, self.rows) };
                2 * (self.rows + self.keys) * self.ld() * 2
                    + 2 * scores
                    + halves * weights
                    + results * self.ld_sums() * 4
                    + 2 * self.rows * 4
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 is CUDA's fragment, 8 that of software Vulkan.
    #[test]
    fn the_usual_heads_have_a_plan_and_odd_ones_none() {
        for (edge, plane, shared, widths) in [(16, 32, 48, [64, 96, 128].as_slice()), (8, 8, 32, &[16, 64, 96, 128])] {
            let fragment = Fragment { m: edge, n: edge, k: edge, plane };
            let limits = Limits { units: 1024, shared: (shared << 10) / 4 };
            for pass in [Pass::Forward, Pass::Query, Pass::Keys] {
                for d in widths {
                    let plan = Plan::choose(pass, *d, limits, fragment);
                    assert!(plan.is_some(), "{pass:?}, width {d}, {fragment:?}");
                }
                assert_eq!(Plan::choose(pass, edge + edge / 2, limits, fragment), None);
            }
        }
    }
}
