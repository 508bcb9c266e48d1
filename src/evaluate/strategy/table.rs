use std::collections::BTreeMap;

/// How often a strategy was used and what followed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Replies that use it at least once.
    pub replies: usize,
    /// Of those, the ones the user reacted to.
    pub answered: usize,
    /// Sum of the emotion changes right after those.
    pub change: f64,
}

impl Usage {
    /// Strategy contribution (RLVER, section 3.6): mean emotion change right after a use.
    pub fn contribution(self) -> Option<f64> {
        (self.answered > 0).then(|| self.change / self.answered as f64)
    }
}

/// Usage of every strategy `S` over a set of replies.
#[derive(Debug, Clone, PartialEq)]
pub struct StrategyTable<S: Ord> {
    replies: usize,
    usage: BTreeMap<S, Usage>,
}

impl<S: Ord> Default for StrategyTable<S> {
    fn default() -> StrategyTable<S> {
        StrategyTable { replies: 0, usage: BTreeMap::new() }
    }
}

impl<S: Ord + Copy> StrategyTable<S> {
    /// Counts one reply: its labels (repeats count once) and the emotion change right after it, if there was one.
    pub fn add(&mut self, labels: &[S], change: Option<i32>) {
        self.replies += 1;
        let mut once: Vec<S> = labels.to_vec();
        once.sort_unstable();
        once.dedup();
        for strategy in once {
            let usage = self.usage.entry(strategy).or_default();
            usage.replies += 1;
            if let Some(change) = change {
                usage.answered += 1;
                usage.change += f64::from(change);
            }
        }
    }

    /// Adds another table's counts.
    pub fn merge(&mut self, other: &StrategyTable<S>) {
        self.replies += other.replies;
        for (strategy, more) in &other.usage {
            let usage = self.usage.entry(*strategy).or_default();
            usage.replies += more.replies;
            usage.answered += more.answered;
            usage.change += more.change;
        }
    }

    /// Replies counted.
    pub fn replies(&self) -> usize {
        self.replies
    }

    /// The usage of a strategy.
    pub fn usage(&self, strategy: S) -> Usage {
        self.usage.get(&strategy).copied().unwrap_or_default()
    }

    /// Share of replies that use a strategy; `None` without replies.
    pub fn frequency(&self, strategy: S) -> Option<f64> {
        (self.replies > 0).then(|| self.usage(strategy).replies as f64 / self.replies as f64)
    }

    /// All strategies that were used, with their usage.
    pub fn iter(&self) -> impl Iterator<Item = (S, Usage)> {
        self.usage.iter().map(|(strategy, usage)| (*strategy, *usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_counts_once_per_strategy_and_contributes_what_follows() {
        let mut table = StrategyTable::default();
        table.add(&['a', 'a', 'b'], Some(5));
        table.add(&['a'], Some(-10));
        table.add(&['a'], None);
        assert_eq!(table.frequency('a'), Some(1.0));
        assert_eq!(table.frequency('b'), Some(1.0 / 3.0));
        assert_eq!(table.usage('a').contribution(), Some(-2.5));
        assert_eq!(table.usage('c').contribution(), None);
        let mut twice = table.clone();
        twice.merge(&table);
        assert_eq!((twice.replies(), twice.usage('a').contribution()), (6, Some(-2.5)));
    }
}
