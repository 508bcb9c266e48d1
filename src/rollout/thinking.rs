//! Where simulated users think: on the spot, or on threads of their own while the policy goes on generating.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;

use rayon::prelude::*;

/// Takes things that have to think, and hands them back when they have.
pub(super) enum Thinking<'env, T> {
    /// For users that answer at once: all that were given think in parallel when they are asked for.
    AtOnce { given: Vec<T>, think: &'env (dyn Fn(&mut T) + Sync) },
    /// For users that wait for somebody else.
    Apart { questions: Sender<T>, answers: Receiver<Result<T, Box<dyn Any + Send>>>, pending: usize },
}

impl<'env, T: Send + 'env> Thinking<'env, T> {
    /// Thinking on the spot.
    pub(super) fn at_once(think: &'env (dyn Fn(&mut T) + Sync)) -> Thinking<'env, T> {
        Thinking::AtOnce { given: Vec::new(), think }
    }

    /// Thinking on up to `threads` threads of `scope`; they end when this value is dropped.
    pub(super) fn apart<'scope>(
        scope: &'scope Scope<'scope, 'env>,
        threads: usize,
        waiting: &'env Mutex<Option<Receiver<T>>>,
        think: &'env (dyn Fn(&mut T) + Sync),
    ) -> Thinking<'env, T> {
        let (questions, asked) = channel();
        *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        let (done, answers) = channel();
        for _ in 0..threads.max(1) {
            let done = done.clone();
            scope.spawn(move || {
                loop {
                    let next = {
                        let asked = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                        asked.as_ref().and_then(|asked| asked.recv().ok())
                    };
                    let Some(mut next) = next else { return };
                    let result = catch_unwind(AssertUnwindSafe(|| think(&mut next)));
                    if done.send(result.map(|()| next)).is_err() {
                        return;
                    }
                }
            });
        }
        Thinking::Apart { questions, answers, pending: 0 }
    }

    /// Gives something to think about.
    pub(super) fn give(&mut self, item: T) {
        match self {
            Thinking::AtOnce { given, .. } => given.push(item),
            Thinking::Apart { questions, pending, .. } => {
                questions.send(item).expect("the threads wait as long as somebody may ask");
                *pending += 1;
            }
        }
    }

    /// Whether something has not come back yet.
    pub(super) fn is_pending(&self) -> bool {
        match self {
            Thinking::AtOnce { given, .. } => !given.is_empty(),
            Thinking::Apart { pending, .. } => *pending > 0,
        }
    }

    /// What is done. With `wait`, at least one, if anything is pending.
    pub(super) fn take(&mut self, wait: bool) -> Vec<T> {
        match self {
            Thinking::AtOnce { given, think } => {
                let mut done = std::mem::take(given);
                done.par_iter_mut().for_each(*think);
                done
            }
            Thinking::Apart { answers, pending, .. } => {
                let mut done = Vec::new();
                while *pending > 0 {
                    let next = match wait && done.is_empty() {
                        true => answers.recv().ok(),
                        false => answers.try_recv().ok(),
                    };
                    let Some(next) = next else { break };
                    *pending -= 1;
                    done.push(next.unwrap_or_else(|panic| resume_unwind(panic)));
                }
                done
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn all_come_back_thought_through_and_waiting_overlaps() {
        let think = |n: &mut u64| {
            std::thread::sleep(Duration::from_millis(50));
            *n += 100;
        };
        let waiting = Mutex::new(None);
        let begun = Instant::now();
        let mut all = std::thread::scope(|scope| {
            let mut thinking = Thinking::apart(scope, 20, &waiting, &think);
            assert!(thinking.take(true).is_empty(), "nothing to wait for");
            (0..20).for_each(|n| thinking.give(n));
            let mut all = Vec::new();
            while thinking.is_pending() {
                all.extend(thinking.take(true));
            }
            all
        });
        all.sort();
        assert_eq!(all, (100..120).collect::<Vec<u64>>());
        assert!(begun.elapsed() < Duration::from_millis(600), "twenty naps side by side: {:?}", begun.elapsed());
    }

    #[test]
    fn a_panic_reaches_whoever_waits() {
        let think = |_: &mut u64| panic!("a user that panics");
        let waiting = Mutex::new(None);
        let result = catch_unwind(AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                let mut thinking = Thinking::apart(scope, 2, &waiting, &think);
                thinking.give(1);
                thinking.take(true)
            })
        }));
        assert!(result.is_err());
    }
}
