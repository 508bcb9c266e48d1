use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a model's tokens cost, per million.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// A million tokens of conversations.
    pub prompt: f64,
    /// A million tokens of answers.
    pub completion: f64,
}

/// What an engine used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Answers asked for.
    pub requests: u64,
    /// Attempts beyond the first.
    pub retries: u64,
    /// Requests without any answer in the end.
    pub failures: u64,
    /// Tokens of conversations.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Seconds spent on requests, summed over all of them, waiting between attempts included.
    pub seconds: f64,
    /// What the tokens cost at the given prices; 0 without prices.
    pub cost: f64,
}

impl Usage {
    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            requests: self.requests - earlier.requests,
            retries: self.retries - earlier.retries,
            failures: self.failures - earlier.failures,
            prompt_tokens: self.prompt_tokens - earlier.prompt_tokens,
            completion_tokens: self.completion_tokens - earlier.completion_tokens,
            seconds: self.seconds - earlier.seconds,
            cost: self.cost - earlier.cost,
        }
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} requests ({} retries, {} failed), {} + {} tokens, {:.2} s each",
            self.requests,
            self.retries,
            self.failures,
            self.prompt_tokens,
            self.completion_tokens,
            self.seconds / self.requests.max(1) as f64,
        )?;
        if self.cost > 0.0 { write!(f, ", cost {:.4}", self.cost) } else { Ok(()) }
    }
}

/// Counts from many threads.
#[derive(Debug, Default)]
pub(super) struct Counter {
    requests: AtomicU64,
    retries: AtomicU64,
    failures: AtomicU64,
    prompt_tokens: AtomicU64,
    completion_tokens: AtomicU64,
    micros: AtomicU64,
}

impl Counter {
    pub(super) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tokens(&self, prompt: u64, completion: u64) {
        self.prompt_tokens.fetch_add(prompt, Ordering::Relaxed);
        self.completion_tokens.fetch_add(completion, Ordering::Relaxed);
    }

    pub(super) fn request(&self, took: Duration, answered: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(!answered), Ordering::Relaxed);
        self.micros.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    pub(super) fn read(&self, prices: Prices) -> Usage {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (prompt_tokens, completion_tokens) = (get(&self.prompt_tokens), get(&self.completion_tokens));
        Usage {
            requests: get(&self.requests),
            retries: get(&self.retries),
            failures: get(&self.failures),
            prompt_tokens,
            completion_tokens,
            seconds: get(&self.micros) as f64 / 1e6,
            cost: (prompt_tokens as f64 * prices.prompt + completion_tokens as f64 * prices.completion) / 1e6,
        }
    }
}
