use rlver::dialogue::{CharacterType, HiddenIntention, Language};
use rlver::evaluate::{Interval, Outcome, Summary, SummaryError, before_after_table, bootstrap_mean};

fn outcome(profile: &str, intention: HiddenIntention, language: Language, final_emotion: u8) -> Outcome {
    let character = CharacterType::Passive;
    Outcome { profile: profile.into(), intention, character, language, final_emotion, turns: 8, seed: 0 }
}

fn four() -> Vec<Outcome> {
    use HiddenIntention::{Praise, Venting};
    vec![
        outcome("a", Venting, Language::Zh, 100),
        outcome("b", Venting, Language::En, 9),
        outcome("c", Praise, Language::En, 10),
        outcome("d", Praise, Language::En, 99),
    ]
}

#[test]
fn intervals_are_percentiles_of_resampled_means() {
    let exactly = |mean, low, high| Some(Interval { mean, low, high });
    assert_eq!(bootstrap_mean(&[], None, 1), None);
    assert_eq!(bootstrap_mean(&[0.0, f64::NAN], None, 1), None);
    assert_eq!(bootstrap_mean(&[42.0], None, 1), exactly(42.0, 42.0, 42.0));
    assert_eq!(bootstrap_mean(&[7.0, 7.0, 7.0], None, 1), exactly(7.0, 7.0, 7.0));
    // Resampled means are 0, 50, 100 with probabilities 1/4, 1/2, 1/4.
    assert_eq!(bootstrap_mean(&[0.0, 100.0], None, 1), exactly(50.0, 0.0, 100.0));
    // Binomial(8, 1/2): P(0) = 1/256 and P(≤ 1) = 9/256, so that 2.5 % falls on 1 of 8.
    let eight = [0.0, 0.0, 0.0, 0.0, 100.0, 100.0, 100.0, 100.0];
    assert_eq!(bootstrap_mean(&eight, None, 1), exactly(50.0, 12.5, 87.5));
}

#[test]
fn values_of_one_cluster_are_drawn_together() {
    let exactly = |mean, low, high| Some(Interval { mean, low, high });
    let eight = [0.0, 0.0, 0.0, 0.0, 100.0, 100.0, 100.0, 100.0];
    let halves = ["a", "a", "a", "a", "b", "b", "b", "b"];
    assert_eq!(bootstrap_mean(&eight, Some(&halves), 1), exactly(50.0, 0.0, 100.0));
    // Clusters {10} and {20, 30}: the means are 10, (10 + 20 + 30) / 3 and 25.
    assert_eq!(bootstrap_mean(&[10.0, 20.0, 30.0], Some(&["a", "b", "b"]), 1), exactly(20.0, 10.0, 25.0));
    // A cluster for each value is no cluster; nor is one for all.
    let each = ["a", "b", "c", "d", "e", "f", "g", "h"];
    assert_eq!(bootstrap_mean(&eight, Some(&each), 1), bootstrap_mean(&eight, None, 1));
    assert_eq!(bootstrap_mean(&eight, Some(&["a"; 8]), 1), bootstrap_mean(&eight, None, 1));
    assert_eq!(bootstrap_mean(&eight, Some(&["a"]), 1), None);
}

#[test]
fn intervals_depend_on_the_seed_alone() {
    let values: Vec<_> = (0..50).map(|i| f64::from(i * i % 101)).collect();
    let interval = bootstrap_mean(&values, None, 1).unwrap();
    assert_eq!(bootstrap_mean(&values, None, 1), Some(interval));
    assert_ne!(bootstrap_mean(&values, None, 2), Some(interval));
    // Normal approximation: mean ± 1.96 σ/√n, within the noise of 2000 resamples.
    let mean = values.iter().sum::<f64>() / 50.0;
    let sigma = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 50.0).sqrt();
    let reach = 1.96 * sigma / 50f64.sqrt();
    assert!((interval.low - (mean - reach)).abs() < 0.1 * reach, "{interval:?}");
    assert!((interval.high - (mean + reach)).abs() < 0.1 * reach, "{interval:?}");
}

#[test]
fn success_is_a_hundred_and_failure_is_below_ten() {
    let summary = Summary::new(&four(), 1).unwrap();
    let all = summary.overall;
    assert_eq!((all.n, all.mean_final_emotion.mean), (4, 54.5));
    assert_eq!((all.success_rate.mean, all.failure_rate.mean), (0.25, 0.25));
    let venting = summary.by_intention[&HiddenIntention::Venting];
    assert_eq!((venting.n, venting.mean_final_emotion.mean, venting.success_rate.mean), (2, 54.5, 0.5));
    let english = summary.by_language[&Language::En];
    assert!((english.mean_final_emotion.mean - 118.0 / 3.0).abs() < 1e-12);
    assert_eq!(summary.by_character.len(), 1);
    assert_eq!(Summary::new(&[], 1), Err(SummaryError::Empty));
}

#[test]
fn order_does_not_matter_and_seeds_of_a_profile_form_a_cluster() {
    let mut outcomes: Vec<_> = (0u8..30)
        .map(|i| outcome(&format!("p{}", i % 6), HiddenIntention::ALL[usize::from(i % 6)], Language::Zh, i % 6 * 20))
        .collect();
    let summary = Summary::new(&outcomes, 1).unwrap();
    outcomes.reverse();
    outcomes.swap(3, 20);
    assert_eq!(Summary::new(&outcomes, 1).unwrap(), summary);
    for (i, outcome) in outcomes.iter_mut().enumerate() {
        outcome.profile = i.to_string();
    }
    let width = |s: &Summary| s.overall.mean_final_emotion.high - s.overall.mean_final_emotion.low;
    assert!(width(&summary) > 1.5 * width(&Summary::new(&outcomes, 1).unwrap()), "five seeds are not five profiles");
}

#[test]
fn json_has_the_documented_keys() {
    let json = Summary::new(&four(), 1).unwrap().to_json();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let scores = [
        "mean_final_emotion",
        "mean_final_emotion_ci95",
        "success_rate",
        "success_rate_ci95",
        "failure_rate",
        "failure_rate_ci95",
        "n",
    ];
    assert_eq!(keys(&json), [&scores[..], &["by_intention", "by_character_type", "by_language"]].concat());
    assert_eq!(keys(&json["by_intention"]), ["praise", "venting"]);
    assert_eq!(keys(&json["by_character_type"]), ["passive"]);
    assert_eq!(keys(&json["by_language"]), ["zh", "en"]);
    assert_eq!(keys(&json["by_language"]["zh"]), scores);
    assert_eq!(json["n"], 4);
    assert_eq!(json["mean_final_emotion"], 54.5);
    assert_eq!(json["by_language"]["zh"]["mean_final_emotion_ci95"], serde_json::json!([100.0, 100.0]));
}

#[test]
fn the_table_is_aligned_and_in_percent() {
    let one = Summary::new(&four()[1..2], 1).unwrap();
    let expected = "
                   n  final emotion        95 %  success        95 %  failure            95 %
all                1            9.0  [9.0, 9.0]    0.0 %  [0.0, 0.0]  100.0 %  [100.0, 100.0]
by intention
  venting          1            9.0  [9.0, 9.0]    0.0 %  [0.0, 0.0]  100.0 %  [100.0, 100.0]
by character type
  passive          1            9.0  [9.0, 9.0]    0.0 %  [0.0, 0.0]  100.0 %  [100.0, 100.0]
by language
  en               1            9.0  [9.0, 9.0]    0.0 %  [0.0, 0.0]  100.0 %  [100.0, 100.0]
";
    assert_eq!(format!("\n{}", one.table()), expected);
}

#[test]
fn before_and_after_stand_side_by_side() {
    let before = Summary::new(&four()[1..], 1).unwrap();
    let after = Summary::new(&four()[..2], 1).unwrap();
    let expected = "\
                          emotion                  success                  failure
                       n   before  after  change    before    after  change    before   after  change
all                3 / 2     39.3   54.5   +15.2     0.0 %   50.0 %   +50.0    33.3 %  50.0 %   +16.7
";
    let table = before_after_table(&before, &after);
    let words =
        |text: &str| text.lines().map(|l| l.split_whitespace().map(String::from).collect()).collect::<Vec<Vec<_>>>();
    assert_eq!(words(&table)[..3], words(expected));
    // Praise was met before only, and Chinese after only.
    let row = |label: &str| table.lines().find(|l| l.trim_start().starts_with(label)).unwrap().to_owned();
    assert_eq!(words(&row("praise"))[0], words("praise 2 / 0 54.5 – – 0.0 % – – 0.0 % – –")[0]);
    assert_eq!(words(&row("zh"))[0], words("zh 0 / 1 – 100.0 – – 100.0 % – – 0.0 % –")[0]);
    let widths: Vec<_> =
        table.lines().filter(|l| l.contains("before") || l.contains('+')).map(|l| l.chars().count()).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
}
