//! One thing done to many items at once, by users or models that may have to be waited for.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

/// Applies `f` to all items and returns the results in their order: on all cores, or, with a `concurrency`, on so many
/// threads that may wait. `done` is told how many are finished.
pub(crate) fn each<T: Sync, R: Send>(
    concurrency: Option<usize>,
    items: &[T],
    done: &(dyn Fn(usize) + Sync),
    f: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let finished = AtomicUsize::new(0);
    let one = |index: usize| {
        let result = f(index, &items[index]);
        done(finished.fetch_add(1, Ordering::Relaxed) + 1);
        result
    };
    let Some(threads) = concurrency else { return (0..items.len()).into_par_iter().map(one).collect() };
    let next = AtomicUsize::new(0);
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= items.len() {
                    return mine;
                }
                mine.push((index, one(index)));
            }
        };
        let threads: Vec<_> = (0..threads.clamp(1, items.len().max(1))).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
