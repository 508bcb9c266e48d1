//! Penalised logistic regression with soft targets, by limited-memory BFGS.

/// Rows of a sparse design matrix.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    start: Vec<usize>,
    column: Vec<u32>,
    value: Vec<f32>,
    columns: usize,
    /// The groups of each row; none for rows that belong to no group.
    groups: Vec<Groups>,
    /// How many groups there are.
    levels: usize,
}

/// The groups a row belongs to, by one grouping and by another.
pub(super) type Groups = [Option<u32>; 2];

/// Penalty of a group's own intercept: next to none for hundreds of rows, enough to settle what both groupings could explain.
const GROUP_PENALTY: f64 = 1.0;

impl Rows {
    pub(super) fn new(columns: usize) -> Rows {
        Rows { start: vec![0], columns, ..Rows::default() }
    }

    /// Appends a row; zeros are left out.
    pub(super) fn push(&mut self, entries: impl IntoIterator<Item = (u32, f32)>) {
        for (column, value) in entries.into_iter().filter(|e| e.1 != 0.0) {
            debug_assert!((column as usize) < self.columns);
            self.column.push(column);
            self.value.push(value);
        }
        self.start.push(self.column.len());
    }

    fn entries(&self, row: usize) -> impl Iterator<Item = (usize, f32)> {
        let range = self.start[row]..self.start[row + 1];
        self.column[range.clone()].iter().map(|c| *c as usize).zip(self.value[range].iter().copied())
    }

    /// Says which groups each row belongs to, in the order of the rows; later rows belong to none. A fit gives each group
    /// an intercept of its own and leaves it out of the coefficients: what differs between groups teaches nothing, only what
    /// differs within them.
    pub(super) fn group(&mut self, groups: Vec<Groups>) {
        self.levels = groups.iter().flatten().flatten().max().map_or(0, |last| *last as usize + 1);
        self.groups = groups;
    }

    /// Places of the intercepts of a row's groups among the coefficients.
    fn levels(&self, row: usize) -> impl Iterator<Item = usize> {
        let groups = self.groups.get(row).copied().unwrap_or_default();
        groups.into_iter().flatten().map(|level| self.columns + 1 + level as usize)
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.start.len() - 1
    }

    /// The product of one row with the coefficients (without intercept).
    pub(super) fn product(&self, row: usize, coefficients: &[f64]) -> f64 {
        self.entries(row).map(|(c, v)| f64::from(v) * coefficients[c]).sum()
    }
}

/// Coefficients, the intercept last.
pub(super) type Coefficients = Vec<f64>;

/// Log-odds of a row.
pub(super) fn log_odds(rows: &Rows, row: usize, coefficients: &Coefficients) -> f64 {
    rows.product(row, coefficients) + coefficients[rows.columns]
}

/// Minimises Σ weight · cross-entropy(target, log-odds) + ½ Σ penalty · coefficient².
///
/// `chosen` are the rows used. The intercept is not penalised. Intercepts of groups are fitted beside (see [`Rows::group`]);
/// their mean over the rows that have groups goes into the intercept.
pub(super) fn fit(
    rows: &Rows,
    chosen: &[usize],
    target: &[f64],
    weight: &[f64],
    penalty: &dyn Fn(usize) -> f64,
    steps: usize,
) -> Coefficients {
    let of = |c: usize| match c.cmp(&rows.columns) {
        std::cmp::Ordering::Less => penalty(c),
        std::cmp::Ordering::Equal => 1e-6,
        std::cmp::Ordering::Greater => GROUP_PENALTY,
    };
    let penalties: Vec<f64> = (0..rows.columns + 1 + rows.levels).map(of).collect();
    // Columns are fitted as deviations from their means: the same minimum, reached in fewer steps.
    let all: f64 = chosen.iter().map(|row| weight[*row]).sum();
    let mut mean = vec![0.0; rows.columns];
    let mut square = vec![0.0; penalties.len()];
    for &row in chosen {
        let share = weight[row] / all;
        for (column, value) in rows.entries(row) {
            mean[column] += share * f64::from(value);
            square[column] += share * f64::from(value).powi(2);
        }
        square[rows.columns] += share;
        rows.levels(row).for_each(|level| square[level] += share);
    }
    square.iter_mut().zip(&mean).for_each(|(square, mean)| *square -= mean * mean);
    let middle = |at: &[f64]| mean.iter().zip(at).map(|(m, b)| m * b).sum::<f64>();
    let evaluate = |at: &[f64], gradient: &mut Vec<f64>| -> f64 {
        gradient.clear();
        gradient.extend(at.iter().zip(&penalties).map(|(b, p)| b * p));
        let mut loss: f64 = at.iter().zip(&penalties).map(|(b, p)| 0.5 * b * b * p).sum();
        let intercept = at[rows.columns] - middle(at);
        let mut slopes = 0.0;
        for &row in chosen {
            let own: f64 = rows.levels(row).map(|level| at[level]).sum();
            let z = rows.product(row, at) + intercept + own;
            loss += weight[row] * (z.max(0.0) + (-z.abs()).exp().ln_1p() - target[row] * z);
            let slope = weight[row] * (1.0 / (1.0 + (-z).exp()) - target[row]);
            for (column, value) in rows.entries(row) {
                gradient[column] += slope * f64::from(value);
            }
            slopes += slope;
            rows.levels(row).for_each(|level| gradient[level] += slope);
        }
        gradient[rows.columns] += slopes;
        gradient.iter_mut().zip(&mean).for_each(|(g, m)| *g -= slopes * m);
        loss
    };
    // The curvature along each coefficient, were all predictions even.
    let curvature: Vec<f64> =
        penalties.iter().zip(&square).map(|(p, square)| p + 0.25 * all * square.max(0.0)).collect();
    let mut found = minimise(&curvature, evaluate, steps);
    let own = chosen.iter().flat_map(|row| rows.levels(*row).map(|level| weight[*row] * found[level])).sum::<f64>();
    let grouped = chosen.iter().filter(|row| rows.levels(**row).next().is_some()).map(|row| weight[*row]).sum::<f64>();
    found.truncate(rows.columns + 1);
    found[rows.columns] -= middle(&found);
    if grouped > 0.0 {
        found[rows.columns] += own / grouped;
    }
    found
}

/// L-BFGS with a backtracking line search (Nocedal and Wright, Numerical Optimization, algorithm 7.5).
fn minimise(curvature: &[f64], evaluate: impl Fn(&[f64], &mut Vec<f64>) -> f64, steps: usize) -> Vec<f64> {
    const MEMORY: usize = 10;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let mut at = vec![0.0; curvature.len()];
    let mut gradient = Vec::new();
    let mut loss = evaluate(&at, &mut gradient);
    let mut pairs: std::collections::VecDeque<(Vec<f64>, Vec<f64>, f64)> = std::collections::VecDeque::new();
    for step in 0..steps {
        let mut direction = gradient.clone();
        let mut alphas = Vec::with_capacity(pairs.len());
        for (s, y, rho) in pairs.iter().rev() {
            let alpha = rho * dot(s, &direction);
            direction.iter_mut().zip(y).for_each(|(d, y)| *d -= alpha * y);
            alphas.push(alpha);
        }
        let scale = match pairs.back() {
            Some((s, y, _)) => dot(s, y) / y.iter().zip(curvature).map(|(y, c)| y * y / c).sum::<f64>(),
            None => 1.0,
        };
        direction.iter_mut().zip(curvature).for_each(|(d, c)| *d *= scale / c);
        for ((s, y, rho), alpha) in pairs.iter().zip(alphas.iter().rev()) {
            let beta = rho * dot(y, &direction);
            direction.iter_mut().zip(s).for_each(|(d, s)| *d += (alpha - beta) * s);
        }
        let slope = -dot(&gradient, &direction);
        let mut length = 1.0;
        let mut next: Vec<f64>;
        let mut next_gradient = Vec::new();
        let next_loss = loop {
            next = at.iter().zip(&direction).map(|(a, d)| a - length * d).collect();
            let found = evaluate(&next, &mut next_gradient);
            if found <= loss + 1e-4 * length * slope || length < 1e-8 {
                break found;
            }
            length *= 0.5;
        };
        let s: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let y: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        let curvature = dot(&s, &y);
        if curvature > 1e-10 {
            if pairs.len() == MEMORY {
                pairs.pop_front();
            }
            pairs.push_back((s, y, 1.0 / curvature));
        }
        let gain = loss - next_loss;
        (at, gradient, loss) = (next, next_gradient, next_loss);
        if step > 5 && gain < 1e-5 * loss.abs() {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_minimum_of_a_problem_with_a_known_solution() {
        // One column, targets of logit(0.8) at +1 and logit(0.2) at −1: the slope is ln 4, the intercept 0.
        let mut rows = Rows::new(1);
        rows.push([(0, 1.0)]);
        rows.push([(0, -1.0)]);
        let found = fit(&rows, &[0, 1], &[0.8, 0.2], &[1.0, 1.0], &|_| 0.0, 200);
        assert!((found[0] - 4.0f64.ln()).abs() < 1e-2, "{found:?}");
        assert!(found[1].abs() < 1e-3, "{found:?}");
        let penalised = fit(&rows, &[0, 1], &[0.8, 0.2], &[1.0, 1.0], &|_| 1.0, 200);
        assert!(penalised[0] < found[0] * 0.6);
    }

    /// Columns far from zero (shares, sizes) made 40 steps end far above the minimum, and groups' intercepts stay where they
    /// began.
    #[test]
    fn columns_far_from_zero_do_not_keep_it_from_the_minimum() {
        let n = 400;
        let mut near = Rows::new(3);
        let mut far = Rows::new(3);
        let target: Vec<f64> = (0..n).map(|i| [0.9, 0.2, 0.6][i % 3]).collect();
        for i in 0..n {
            let values = [(i % 7) as f32 / 7.0, ((i * i) % 11) as f32 * 10.0, f32::from(u8::from(i % 3 == 0))];
            near.push((0..3).map(|c| (c as u32, values[c])));
            far.push((0..3).map(|c| (c as u32, values[c] + [3.0, 500.0, 20.0][c])));
        }
        let all: Vec<usize> = (0..n).collect();
        let of = |rows: &Rows| fit(rows, &all, &target, &vec![1.0; n], &|_| 1.0, 40);
        let (near, far) = (of(&near), of(&far));
        // The intercept is not penalised: moving a column moves it alone.
        near.iter().zip(&far).take(3).for_each(|(a, b)| assert!((a - b).abs() < 1e-3, "{near:?} {far:?}"));
    }

    #[test]
    fn what_differs_between_groups_only_teaches_nothing() {
        // Group 1 has the measure more often and is liked better for another reason; within groups it is bad.
        let mut rows = Rows::new(1);
        let (mut groups, mut target): (Vec<Groups>, Vec<f64>) = (Vec::new(), Vec::new());
        for i in 0..200usize {
            let second = i % 4 != 3;
            let has = if second { i % 10 != 1 } else { i % 20 == 3 };
            rows.push([(0, f32::from(u8::from(has)))]);
            groups.push([Some(u32::from(second)), None]);
            target.push(if second { 0.8 } else { 0.2 } - if has { 0.1 } else { 0.0 });
        }
        let all: Vec<usize> = (0..200).collect();
        let of = |rows: &Rows| fit(rows, &all, &target, &[1.0; 200], &|_| 0.1, 100);
        let plain = of(&rows);
        assert!(plain[0] > 0.5, "groups apart look like the measure's doing");
        rows.group(groups);
        let found = of(&rows);
        assert_eq!(found.len(), 2, "groups' own intercepts stay behind");
        assert!((-0.8..-0.1).contains(&found[0]), "{found:?}");
        // Most rows are of the second group, so that the mean log-odds are far from 0; they stay about where they were.
        let mean = |found: &Coefficients| all.iter().map(|row| log_odds(&rows, *row, found)).sum::<f64>() / 200.0;
        assert!(mean(&plain) > 0.25 && (mean(&found) - mean(&plain)).abs() < 0.2, "{} {}", mean(&found), mean(&plain));
    }
}
