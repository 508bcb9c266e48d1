use rlver::metrics::{Eta, human_duration};

#[test]
fn the_estimate_is_the_median_of_the_last_ten_steps() {
    let mut eta = Eta::new();
    assert_eq!(eta.remaining(5), None);
    eta.record(3.0);
    eta.record(5.0);
    assert_eq!(eta.remaining(5), Some(20.0));
    // A slow step with a checkpoint in it does not count for more than its place.
    eta.record(600.0);
    assert_eq!(eta.remaining(10), Some(50.0));
    for _ in 0..Eta::WINDOW {
        eta.record(2.0);
    }
    eta.record(f64::NAN);
    eta.record(-1.0);
    assert_eq!(eta.remaining(7), Some(14.0));
    assert_eq!(eta.remaining(0), Some(0.0));
}

#[test]
fn durations_read_like_speech() {
    for (seconds, text) in [
        (0.0, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200.0, "3 min 20 s"),
        (3599.9, "1 h"),
        (3605.0, "1 h"),
        (5580.0, "1 h 33 min"),
        (86_400.0 + 7_200.0 + 59.0, "1 d 2 h"),
        (-1.0, "unknown"),
        (f64::NAN, "unknown"),
        (f64::INFINITY, "unknown"),
    ] {
        assert_eq!(human_duration(seconds), text, "{seconds}");
    }
}
