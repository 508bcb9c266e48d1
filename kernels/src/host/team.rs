//! Threads that share out work of microseconds. A rayon pool puts its threads to sleep and wakes them through the kernel,
//! which takes longer than most products of a decoding step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread, park, yield_now};

/// Looks at the clock of a step before a helper sleeps: some tens of microseconds.
const SPINS: u32 = 20_000;
/// As many looks before a waiting thread offers its processor to others.
const PATIENCE: u32 = 4_000;

/// The calling thread and its helpers, which spin between the phases of a step and sleep between steps.
#[derive(Debug)]
pub(crate) struct Team {
    shared: Arc<Shared>,
    helpers: Vec<Helper>,
}

#[derive(Debug)]
struct Helper {
    thread: Option<JoinHandle<()>>,
    handle: Thread,
    asleep: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of the phase in the upper half, tasks nobody has taken yet in the lower.
    state: AtomicU64,
    /// The phase's tasks: a `&&(dyn Fn(usize) + Sync)` of the thread that waits for it.
    job: AtomicPtr<()>,
    done: AtomicUsize,
    panicked: AtomicBool,
    closed: AtomicBool,
}

const TASKS: u64 = u32::MAX as u64;

impl Shared {
    /// Takes a task of the current phase, if one is left.
    fn take(&self) -> Option<usize> {
        let mut state = self.state.load(Ordering::Acquire);
        while state & TASKS > 0 {
            match self.state.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((state & TASKS) as usize - 1),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Does a task that [`Shared::take`] gave.
    fn work(&self, task: usize) {
        let job = self.job.load(Ordering::Acquire).cast::<&(dyn Fn(usize) + Sync)>();
        // SAFETY: the task is not done yet, so `Team::run`, which lends the closure, has not returned and `job` is
        // that of the task's phase.
        let job = unsafe { *job };
        if catch_unwind(AssertUnwindSafe(|| job(task))).is_err() {
            self.panicked.store(true, Ordering::Release);
        }
        self.done.fetch_add(1, Ordering::Release);
    }

    fn help(&self, asleep: &AtomicBool) {
        let mut idle = 0;
        while !self.closed.load(Ordering::Acquire) {
            if let Some(task) = self.take() {
                self.work(task);
                idle = 0;
            } else if idle < SPINS {
                idle += 1;
                std::hint::spin_loop();
            } else {
                asleep.store(true, Ordering::SeqCst);
                // Whoever brought work after this thread looked last sees that it sleeps; whoever did before is seen.
                if self.state.load(Ordering::SeqCst) & TASKS == 0 && !self.closed.load(Ordering::SeqCst) {
                    park();
                }
                asleep.store(false, Ordering::SeqCst);
                idle = 0;
            }
        }
    }
}

impl Team {
    /// A team of `threads`, the calling one among them.
    pub(crate) fn new(threads: usize) -> Team {
        let shared = Arc::new(Shared::default());
        let helper = |_| {
            let asleep = Arc::new(AtomicBool::new(false));
            let (theirs, flag) = (shared.clone(), asleep.clone());
            // Without a thread the others do the work.
            let thread = std::thread::Builder::new().name("generate".into()).spawn(move || theirs.help(&flag)).ok()?;
            Some(Helper { handle: thread.thread().clone(), thread: Some(thread), asleep })
        };
        Team { helpers: (1..threads).filter_map(helper).collect(), shared }
    }

    /// Threads that work.
    pub(crate) fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `task` with every number below `tasks`, the largest first, on whatever threads are free.
    ///
    /// # Panics
    /// When a task does.
    pub(crate) fn run(&mut self, tasks: usize, task: impl Fn(usize) + Sync) {
        if self.helpers.is_empty() || tasks < 2 {
            return (0..tasks).rev().for_each(task);
        }
        let shared = &*self.shared;
        let job: &(dyn Fn(usize) + Sync) = &task;
        shared.job.store((&raw const job).cast_mut().cast(), Ordering::Release);
        shared.done.store(0, Ordering::Release);
        let phase = (shared.state.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        shared.state.store((phase << 32) | tasks as u64, Ordering::SeqCst);
        for helper in &self.helpers {
            if helper.asleep.load(Ordering::SeqCst) {
                helper.handle.unpark();
            }
        }
        while let Some(task) = shared.take() {
            shared.work(task);
        }
        let mut waited = 0;
        while shared.done.load(Ordering::Acquire) < tasks {
            waited += 1;
            if waited < PATIENCE { std::hint::spin_loop() } else { yield_now() }
        }
        assert!(!shared.panicked.swap(false, Ordering::AcqRel), "a task of a team panicked");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for helper in &mut self.helpers {
            helper.handle.unpark();
            if let Some(thread) = helper.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once_however_often_it_starts() {
        let mut team = Team::new(3);
        for round in 0..5_000 {
            let tasks = round % 17;
            let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            team.run(tasks, |t| {
                counts[t].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            if round % 1000 == 0 {
                // Long enough for the helpers to fall asleep.
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_lives_on() {
        let mut team = Team::new(2);
        let caught = catch_unwind(AssertUnwindSafe(|| team.run(8, |t| assert!(t != 5))));
        assert!(caught.is_err());
        team.run(4, |_| {});
    }
}
