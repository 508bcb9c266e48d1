use std::collections::BTreeSet;

use rlver::metrics::{KEYS, documented, markdown_table};

#[test]
fn every_key_is_listed_once_and_says_what_it_is() {
    let names: BTreeSet<_> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(names.len(), KEYS.len());
    assert_eq!(KEYS[0].name, "step");
    for key in KEYS {
        assert!(key.name == "step" || key.name.split('/').count() == 2, "{} has the form family/metric", key.name);
        for text in [key.name, key.unit, key.meaning] {
            assert!(!text.is_empty() && !text.contains(['|', '\n']), "{} would break the table", key.name);
        }
    }
}

#[test]
fn a_key_may_be_narrowed_to_one_group() {
    let name = |written| documented(written).map(|key| key.name);
    assert_eq!(name("policy/clip_fraction"), Some("policy/clip_fraction"));
    assert_eq!(name("eval/emotion_mean/zh"), Some("eval/emotion_mean"));
    assert_eq!(name("emotion/mean/not-my-fault"), Some("emotion/mean"));
    assert_eq!(name("eval/emotion_mean/zh/praise"), None);
    assert_eq!(name("eval/emotion_mean/"), None);
    assert_eq!(name("eval/emotoin_mean/zh"), None);
    assert_eq!(name("eval"), None);
}

#[test]
fn the_table_has_a_row_for_each_key() {
    let table = markdown_table();
    assert!(table.starts_with("| key | unit | meaning |\n|---|---|---|\n| `step` | count |"), "{table}");
    assert_eq!(table.lines().count(), 2 + KEYS.len());
    assert!(table.lines().all(|line| line.matches('|').count() == 4));
}
