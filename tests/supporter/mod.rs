//! The scripted supporter: what it writes, for the details of the built-in profiles.

use std::collections::{HashMap, HashSet};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rlver::dialogue::{Detail, Language, ProfileSet, Strategy};
use rlver::supporter::{Quality, Reply, ReplyContext, ReplyPlan, Supporter, random_plan};
use rlver::user::builtin::recognise;

/// Calls `check` for `n` moments of the built-in profiles in `language`: the plan, the context and the reply.
fn each_reply(
    language: Language,
    n: usize,
    plan: impl Fn(usize, &mut ChaCha8Rng) -> ReplyPlan,
    mut check: impl FnMut(ReplyPlan, &ReplyContext<'_>, Reply),
) {
    let sets = [ProfileSet::builtin_train(), ProfileSet::builtin_heldout()];
    let profiles = sets.iter().flat_map(ProfileSet::iter);
    let people: Vec<&[Detail]> = profiles.filter(|p| p.language() == language).map(|p| &p.details[..]).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for index in 0..n {
        let details = people[index % people.len()];
        let turn = index / people.len() % details.len();
        let earlier: Vec<&str> = details[..turn].iter().map(|d| d.key.as_str()).collect();
        let detail = &details[turn];
        let context = ReplyContext {
            language,
            last_user_line: &detail.say,
            key: Some(&detail.key),
            told: Some(&detail.say),
            earlier_keys: &earlier,
            turn: turn + 1,
        };
        let plan = plan(index, &mut rng);
        let reply = Supporter.reply(plan, &context, &mut rng);
        check(plan, &context, reply);
    }
}

fn good_plan(index: usize, quality: Quality) -> ReplyPlan {
    ReplyPlan { strategy: ReplyPlan::MAIN[index % ReplyPlan::MAIN.len()], quality }
}

fn length(language: Language, text: &str) -> usize {
    match language {
        Language::Zh => text.chars().count(),
        Language::En => text.split_whitespace().count(),
    }
}

fn is_han(c: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&c)
}

#[test]
fn equal_seeds_give_equal_replies() {
    let replies = |n| {
        let mut out = Vec::new();
        each_reply(Language::Zh, n, |_, rng| random_plan(rng), |plan, _, reply| out.push((plan, reply)));
        out
    };
    assert_eq!(replies(300), replies(300));
}

#[test]
fn a_specific_reply_holds_the_key_and_a_template_does_not() {
    for language in Language::ALL {
        each_reply(
            language,
            3000,
            |i, _| good_plan(i, Quality::Specific),
            |_, context, reply| {
                let key = context.key.unwrap();
                assert!(reply.text.contains(key), "{key}: {}", reply.text);
                assert!(reply.thought.contains(key), "{key}: {}", reply.thought);
            },
        );
        // A key may be a common word ("the day"), so only the slot itself is tested: the same seed with another key.
        let template = |key| {
            let context = ReplyContext { language, last_user_line: "", key, told: None, earlier_keys: &[], turn: 1 };
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            (0..500).map(|i| Supporter.reply(good_plan(i, Quality::Template), &context, &mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(template(Some("QQQ")), template(None));
    }
}

/// Without a key, a specific reply gives back the first clause of what was told, word for word.
#[test]
fn a_specific_reply_without_a_key_quotes_what_was_told() {
    let cases = [
        (Language::En, "Then Ben's mother called, and I cried.", "Then Ben's mother called."),
        (Language::En, "So, I left the house at noon; nobody cared.", "So, I left the house at noon."),
        (Language::Zh, "上周三夜里机器突然停了，没人来。", "上周三夜里机器突然停了。"),
        (Language::Zh, "后来，我打了三次电话！", "后来，我打了三次电话。"),
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for (language, told, quote) in cases {
        let context =
            ReplyContext { language, last_user_line: told, key: None, told: Some(told), earlier_keys: &[], turn: 1 };
        for i in 0..40 {
            let specific = Supporter.reply(good_plan(i, Quality::Specific), &context, &mut rng).text;
            assert!(specific.contains(quote), "{specific}");
            let bounds = if language == Language::Zh { 15..=70 } else { 12..=50 };
            assert!(bounds.contains(&length(language, &specific)), "{specific}");
            assert!(recognise(&specific, language).contains(&good_plan(i, Quality::Specific).strategy), "{specific}");
            let template = Supporter.reply(good_plan(i, Quality::Template), &context, &mut rng).text;
            assert!(!template.contains(quote), "{template}");
            assert!(Supporter.quote(told, language, &mut rng).text.ends_with(quote));
        }
    }
}

#[test]
fn the_sentence_of_a_strategy_is_recognised_as_it() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    for language in Language::ALL {
        for strategy in ReplyPlan::MAIN {
            for _ in 0..40 {
                let text = Supporter.sentence(strategy, language, &mut rng).text;
                assert!(!text.contains(['{', '}']) && recognise(&text, language).contains(&strategy), "{text}");
            }
        }
    }
}

#[test]
fn good_replies_keep_to_their_length_and_end_as_sentences() {
    for language in Language::ALL {
        let bounds = if language == Language::Zh { 15..=60 } else { 12..=40 };
        for quality in [Quality::Specific, Quality::Template] {
            let (mut shortest, mut longest, mut total) = (usize::MAX, 0, 0);
            each_reply(
                language,
                5000,
                |i, _| good_plan(i, quality),
                |_, _, reply| {
                    let n = length(language, &reply.text);
                    assert!(bounds.contains(&n), "{n}: {}", reply.text);
                    assert!(reply.text.ends_with(['。', '？', '！', '.', '?', '!']), "{}", reply.text);
                    assert!(length(language, &reply.thought) <= 45, "{}", reply.thought);
                    (shortest, longest, total) = (shortest.min(n), longest.max(n), total + n);
                },
            );
            println!("{language} {quality:?}: {shortest} to {longest}, mean {:.1}", total as f64 / 5000.0);
        }
    }
}

#[test]
fn nothing_is_left_unfilled_and_no_language_leaks_into_the_other() {
    for language in Language::ALL {
        let check = |context: &ReplyContext<'_>, reply: &Reply| {
            for text in [&reply.text, &reply.thought] {
                assert!(!text.contains(['{', '}']) && !text.is_empty(), "{text}");
                assert!(!text.contains("  ") && !text.contains(" ,") && !text.contains("的的"), "{text}");
                let foreign = |c: char| if language == Language::Zh { c.is_ascii_alphabetic() } else { is_han(c) };
                let mut rest = text.clone();
                context.key.iter().chain(context.earlier_keys).for_each(|k| rest = rest.replace(k, ""));
                assert!(!rest.contains(foreign), "{text}");
            }
        };
        each_reply(language, 5000, |_, rng| random_plan(rng), |_, context, reply| check(context, &reply));
        // The first line of a dialogue discloses nothing yet, and every strategy can be asked for in every quality.
        let opening =
            ReplyContext { language, last_user_line: "…", key: None, told: None, earlier_keys: &[], turn: 0 };
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for strategy in Strategy::ALL {
            for quality in [Quality::Specific, Quality::Template, Quality::Poor] {
                for _ in 0..50 {
                    check(&opening, &Supporter.reply(ReplyPlan { strategy, quality }, &opening, &mut rng));
                }
            }
        }
    }
}

#[test]
fn an_english_key_gets_the_determiner_it_lacks() {
    let say = |line: &str, key: &str| {
        let context = ReplyContext {
            language: Language::En,
            last_user_line: line,
            key: Some(key),
            told: None,
            earlier_keys: &[],
            turn: 1,
        };
        let plan = ReplyPlan { strategy: Strategy::Question, quality: Quality::Specific };
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        (0..20).map(|_| Supporter.reply(plan, &context, &mut rng).text).collect::<Vec<_>>()
    };
    let all_hold = |texts: Vec<String>, phrase: &str| texts.iter().all(|t| t.contains(phrase));
    assert!(all_hold(say("Then my boss shouted.", "boss"), "your boss"));
    assert!(all_hold(say("They brought new scanners.", "new scanners"), "the new scanners"));
    assert!(all_hold(say("We have the training on Friday.", "the training"), " the training"));
    assert!(!say("We met Lucy there.", "Lucy").iter().any(|t| t.contains("the Lucy")));
}

#[test]
fn replies_rarely_repeat() {
    for language in Language::ALL {
        let mut distinct = HashSet::new();
        let mut thoughts = HashSet::new();
        each_reply(
            language,
            2000,
            |_, rng| random_plan(rng),
            |_, _, reply| {
                distinct.insert(reply.text);
                thoughts.insert(reply.thought);
            },
        );
        println!("{language}: {} distinct replies, {} distinct thoughts in 2000", distinct.len(), thoughts.len());
        assert!(distinct.len() > 1500, "{language}: {}", distinct.len());
    }
}

#[test]
fn the_corpus_mixes_qualities_as_documented() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let plans: Vec<ReplyPlan> = (0..10_000).map(|_| random_plan(&mut rng)).collect();
    let share = |q| plans.iter().filter(|p| p.quality == q).count() as f64 / plans.len() as f64;
    assert!((share(Quality::Specific) - 0.30).abs() < 0.02);
    assert!((share(Quality::Template) - 0.45).abs() < 0.02);
    assert!((share(Quality::Poor) - 0.25).abs() < 0.02);
}

#[test]
fn the_built_in_user_recognises_what_a_good_reply_does() {
    for language in Language::ALL {
        let mut seen = HashMap::new();
        for quality in [Quality::Specific, Quality::Template] {
            each_reply(
                language,
                6000,
                |i, _| good_plan(i, quality),
                |plan, _, reply| {
                    let found = recognise(&reply.text, language);
                    let (hits, all) = seen.entry(plan).or_insert((0, 0));
                    *hits += usize::from(found.contains(&plan.strategy));
                    *all += 1;
                    let hurts = [Strategy::Dismissal, Strategy::Blame, Strategy::Boilerplate];
                    assert!(!found.iter().any(|s| hurts.contains(s)), "{found:?}: {}", reply.text);
                },
            );
        }
        for (plan, (hits, all)) in seen {
            assert!(hits * 10 >= all * 9, "{language} {plan:?}: only {hits} of {all} recognised");
        }
    }
}
