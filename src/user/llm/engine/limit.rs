use std::sync::{Condvar, Mutex, PoisonError};

/// Lets at most so many threads through at once.
#[derive(Debug)]
pub(super) struct Limit {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place; dropping it frees it.
#[derive(Debug)]
pub(super) struct Place<'a>(&'a Limit);

impl Limit {
    pub(super) fn new(places: usize) -> Limit {
        Limit { free: Mutex::new(places.max(1)), freed: Condvar::new() }
    }

    /// Waits for a free place.
    pub(super) fn enter(&self) -> Place<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
