use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::seed;

/// How long to wait before asking again: doubling, with a random part, so that many clients do not return together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait before the first retry.
    pub first: Duration,
    /// The longest wait, whoever asks for it.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait before retry `attempt` (from 0): between half and all of `first · 2^attempt`, but no less than what the
    /// server asked for, and never more than `longest`.
    pub(super) fn wait(&self, attempt: usize, asked: Option<Duration>) -> Duration {
        let doubled = self.first.saturating_mul(1 << attempt.min(16)).min(self.longest);
        let own = doubled.mul_f64(0.5 + 0.5 * random());
        own.max(asked.unwrap_or_default()).min(self.longest)
    }
}

/// A number in [0, 1) that differs from call to call. It decides about waiting only, never about results.
fn random() -> f64 {
    static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let call = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (seed::mix(&[call, now.as_nanos() as u64]) >> 11) as f64 / (1u64 << 53) as f64
}

/// Reads a `Retry-After` header: seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_vary_and_end() {
        let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(2) };
        for attempt in 0..8 {
            let whole = Duration::from_millis(100 << attempt).min(Duration::from_secs(2));
            let waits: Vec<Duration> = (0..50).map(|_| backoff.wait(attempt, None)).collect();
            assert!(waits.iter().all(|w| *w >= whole / 2 && *w <= whole), "attempt {attempt}: {waits:?}");
            assert!(waits.iter().any(|w| *w != waits[0]), "jitter");
        }
        assert_eq!(backoff.wait(0, Some(Duration::from_secs(1))), Duration::from_secs(1), "the server's wish counts");
        assert_eq!(backoff.wait(0, Some(Duration::from_secs(3600))), Duration::from_secs(2), "within reason");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        assert_eq!(retry_after("7", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(" 0.5 ", now), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:09 GMT", now), Some(Duration::from_secs(9)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:00:00 GMT", now), Some(Duration::ZERO), "the past");
        for nonsense in ["soon", "-3", "NaN", "1e999", ""] {
            assert_eq!(retry_after(nonsense, now), None, "{nonsense}");
        }
    }
}
