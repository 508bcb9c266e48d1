//! How replies of different kinds are taken.

use std::sync::Arc;
use std::time::Instant;

use super::replies::STORIES;
use super::speech::own_profiles;
use super::{profile, session, start};
use rlver::dialogue::{CharacterType, HiddenIntention, Language, Profile, Strategy};
use rlver::user::builtin::{BuiltinUser, recognise};
use rlver::user::{SessionSettings, UserEngine};

/// Fluent sentences: strategy, with the user's own keyword at `{k}`, and without.
const ZH: [(Strategy, &str, &str); 16] = [
    (
        Strategy::BothSides,
        "{k}这件事，你有你的道理，对方也有对方的难处，两边都得看。",
        "凡事都要两面看，两边都有各自的道理。",
    ),
    (Strategy::ProblemAnalysis, "说到{k}，问题的关键其实在于一开始没有说清楚。", "问题的关键其实在于沟通没有做好。"),
    (Strategy::Advice, "{k}的事，你可以先列个单子，再找个时间当面谈一次。", "你可以先把要做的写下来，一件一件试试。"),
    (Strategy::AnalyseOthers, "{k}弄成这样，他们可能是怕担责任，才那样对你。", "他们可能也有自己的压力，才会这么做。"),
    (Strategy::GuideReflection, "回头看{k}这件事，你觉得自己最在意的是什么？", "你有没有想过，自己最怕的是什么？"),
    (
        Strategy::PraiseActions,
        "{k}那么难，你还是一个人扛下来了，真了不起。",
        "你能坚持到现在，真的很不容易，我佩服你。",
    ),
    (Strategy::PraiseQualities, "光从{k}这件事就看得出，你是个很有担当的人。", "你真的很善良，也很坚强。"),
    (Strategy::WillingToListen, "{k}的事你慢慢说，我在听。", "我在这儿听着，你慢慢说。"),
    (Strategy::HelpVent, "{k}这口气别憋着，想骂就骂，全倒出来。", "别憋着，想哭就哭，都说出来吧。"),
    (Strategy::NameFeeling, "碰上{k}这样的事，你心里一定又委屈又难受。", "你现在心里一定很委屈、很难过。"),
    (Strategy::AgreeingDisclosure, "要是我碰到{k}这种事，我也会气得睡不着。", "换作是我，我也会这样的。"),
    (Strategy::Exonerate, "{k}这事真不怪你，你没有做错。", "这不是你的错，你没有做错什么。"),
    (Strategy::RestateProblem, "听起来，{k}这件事一直压在那儿没个说法。", "听你这么说，事情还没有个说法。"),
    (Strategy::InferNeed, "说到{k}，你其实想要的是一句公道话吧。", "你其实只是想要有人理解吧。"),
    (Strategy::OwnStory, "你说的{k}，我以前也遇到过，那时候我好几天没睡。", "我以前也遇到过差不多的事。"),
    (Strategy::Question, "{k}后来怎么样了？", "后来怎么样了呢？"),
];

const EN: [(Strategy, &str, &str); 16] = [
    (
        Strategy::BothSides,
        "With the {k}, both sides have a point: you had good reason, and the others had theirs too.",
        "There are always two sides, and both sides have a point.",
    ),
    (
        Strategy::ProblemAnalysis,
        "The real problem with the {k} is that nobody made it clear from the start.",
        "The real problem here is that nobody talked early on.",
    ),
    (
        Strategy::Advice,
        "For the {k}, you could make a list tonight and ask for a meeting tomorrow.",
        "You could write down what has to be done and take it one by one.",
    ),
    (
        Strategy::AnalyseOthers,
        "About the {k}, they may have been afraid of being blamed themselves.",
        "They may have been under pressure and did not know how to say it.",
    ),
    (
        Strategy::GuideReflection,
        "Looking back at the {k}, what did you learn about yourself?",
        "Have you ever wondered what you are most afraid of?",
    ),
    (
        Strategy::PraiseActions,
        "You dealt with the {k} all by yourself, and that took real strength.",
        "You kept going all this time, that is impressive.",
    ),
    (
        Strategy::PraiseQualities,
        "The way you are with the {k} shows you are a very caring person.",
        "You are such a kind and strong person.",
    ),
    (
        Strategy::WillingToListen,
        "Tell me more about the {k}, I am listening.",
        "Take your time, I am here and I am listening.",
    ),
    (
        Strategy::HelpVent,
        "Let it all out about the {k}, you do not have to be polite with me.",
        "Let it all out, you do not have to hold back.",
    ),
    (
        Strategy::NameFeeling,
        "After the {k}, you must feel so hurt and so alone.",
        "You must feel so hurt and so tired.",
    ),
    (
        Strategy::AgreeingDisclosure,
        "If the {k} had happened to me, I would be furious as well.",
        "If I were you I would feel just the same.",
    ),
    (
        Strategy::Exonerate,
        "The {k} is not your fault, you did nothing wrong.",
        "This is not your fault, you did nothing wrong.",
    ),
    (
        Strategy::RestateProblem,
        "So the {k} has been hanging over you without an answer.",
        "It sounds like there has been no answer so far.",
    ),
    (
        Strategy::InferNeed,
        "With the {k}, what you really want is a fair word from them.",
        "What you really want is to be understood.",
    ),
    (
        Strategy::OwnStory,
        "I once went through something like the {k}, and I did not sleep for days.",
        "I once went through something similar.",
    ),
    (Strategy::Question, "What happened with the {k} after that?", "What happened after that?"),
];

const POOR_ZH: [&str; 8] = [
    "别难过了，一切都会好起来的，加油。",
    "这点小事至于吗，想开点就好。",
    "感谢您的分享，我理解您的感受，请问还有什么可以帮您？",
    "你自己也有责任，怎么不早点说呢。",
    "每个人都会遇到这样的事，保持积极的心态。",
    "天气不错，周末我打算去看电影。",
    "多大点事啊，忍忍就过去了。",
    "没事的，慢慢来，相信自己。",
];

const POOR_EN: [&str; 8] = [
    "Do not worry, everything will be fine, hang in there.",
    "It is not a big deal, just move on.",
    "Thank you for sharing. I understand how you feel. Is there anything else I can help you with?",
    "You should have said something earlier, that is your own fault.",
    "Everyone goes through this, stay positive.",
    "The weather is nice and I plan to see a film this weekend.",
    "Other people have it worse, just let it go.",
    "I am sorry to hear that, it will get better soon.",
];

/// What each intention asks for.
fn wanted(intention: HiddenIntention) -> Strategy {
    match intention {
        HiddenIntention::Dialectical => Strategy::BothSides,
        HiddenIntention::Advice => Strategy::Advice,
        HiddenIntention::ExplainOthers => Strategy::AnalyseOthers,
        HiddenIntention::SelfReflection => Strategy::GuideReflection,
        HiddenIntention::Praise => Strategy::PraiseActions,
        HiddenIntention::Venting => Strategy::HelpVent,
        HiddenIntention::DeepEmpathy => Strategy::NameFeeling,
        HiddenIntention::NotMyFault => Strategy::Exonerate,
    }
}

fn sentences(language: Language) -> &'static [(Strategy, &'static str, &'static str); 16] {
    if language == Language::Zh { &ZH } else { &EN }
}

/// Plays `turns` replies and returns the changes; `reply` gets turn and the newest keyword.
fn play(profile: &Arc<Profile>, seed: u64, turns: usize, reply: impl Fn(usize, &str) -> String) -> Vec<i8> {
    let mut user = BuiltinUser::new().open(profile.clone(), SessionSettings { start: start(55), seed });
    let mut line = user.opening().unwrap();
    let mut changes = Vec::new();
    for turn in 0..turns {
        let key = profile.details.iter().rev().find(|d| line.contains(&d.key)).map_or("", |d| d.key.as_str());
        let answer = user.respond(&reply(turn, key)).unwrap();
        changes.push(answer.appraisal.change);
        if answer.farewell {
            break;
        }
        line = answer.line;
    }
    changes
}

fn mean(changes: &[i8]) -> f64 {
    changes.iter().map(|c| f64::from(*c)).sum::<f64>() / changes.len().max(1) as f64
}

fn random(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize % below
}

#[test]
fn fitting_specific_replies_beat_those_for_other_intentions() {
    for language in Language::ALL {
        let (mut right, mut all, mut tens) = (0, 0, 0);
        let stories: Vec<_> = STORIES.iter().filter(|s| s.language == language).collect();
        for (story, character) in stories.iter().flat_map(|s| CharacterType::ALL.map(|c| (s, c))) {
            for intention in HiddenIntention::ALL {
                let change = |other: HiddenIntention| {
                    let mut user = session(profile(language, intention, character, Some(story.first)), 50, 1);
                    user.opening().unwrap();
                    let turn = user.respond(story.reply(other)).unwrap();
                    (turn.appraisal.change, turn.appraisal.content)
                };
                let (own, said) = change(intention);
                tens += usize::from(own == 10);
                assert!(own > 0, "{language} {intention} {character}: {own}: {} -> {said}", story.reply(intention));
                for other in HiddenIntention::ALL.into_iter().filter(|o| *o != intention) {
                    let (theirs, said) = change(other);
                    all += 1;
                    right += usize::from(own > theirs);
                    if own <= theirs && character == CharacterType::Passive {
                        println!(
                            "  {language} {intention} {own} <= {theirs} {other}: {} -> {said}",
                            story.reply(other)
                        );
                    }
                }
            }
        }
        println!(
            "{language}: {right} of {all} pairs ordered rightly; {tens} of {} fitting replies earn +10",
            stories.len() * 24
        );
        assert!(right * 100 >= all * 85);
    }
}

#[test]
fn classes_of_replies_earn_what_they_should() {
    for language in Language::ALL {
        let poor = if language == Language::Zh { &POOR_ZH } else { &POOR_EN };
        let (mut fit_spec, mut fit_plain, mut other_spec, mut mixture, mut bad) =
            (vec![], vec![], vec![], vec![], vec![]);
        let (mut rng, mut first_mix) = (7u64, vec![]);
        let mut kinds = [vec![], vec![], vec![]];
        for profile in own_profiles().iter().filter(|p| p.language() == language) {
            let want = wanted(profile.intention());
            let all = sentences(language);
            let own = all.iter().find(|s| s.0 == want).unwrap();
            let fill = |s: &(Strategy, &str, &str), key: &str| {
                if key.is_empty() { s.2.to_string() } else { s.1.replace("{k}", key) }
            };
            // The first replies answer the opening, which the keywords of the details are not in.
            fit_spec.extend(
                play(profile, 1, 2, |turn, key| fill(if turn == 0 { &all[15] } else { own }, key)).into_iter().skip(1),
            );
            fit_plain.extend(play(profile, 1, 1, |_, _| own.2.to_string()));
            for s in &all[12..] {
                other_spec.extend(
                    play(profile, 1, 2, |turn, key| if turn == 0 { all[14].2.into() } else { fill(s, key) })
                        .into_iter()
                        .skip(1),
                );
            }
            let plan: Vec<(usize, usize)> = (0..8).map(|_| (random(&mut rng, 3), random(&mut rng, 16))).collect();
            let changes = play(profile, 1, 8, |turn, key| match plan[turn] {
                (0, s) => fill(&all[s], key),
                (1, s) => all[s].2.to_string(),
                (_, s) => poor[s % poor.len()].to_string(),
            });
            plan.iter().zip(&changes).for_each(|(p, c)| kinds[p.0].push(*c));
            first_mix.extend(changes.iter().take(3));
            mixture.extend(changes);
            poor.iter().for_each(|p| bad.extend(play(profile, 1, 1, |_, _| p.to_string())));
        }
        let shares = [&fit_spec, &fit_plain, &other_spec, &mixture, &first_mix, &bad].map(|c| mean(c));
        println!(
            "{language}: fitting+specific {:+.2}, fitting template {:+.2}, neutral+specific {:+.2}, mixture {:+.2} (first three turns {:+.2}), poor {:+.2}",
            shares[0], shares[1], shares[2], shares[3], shares[4], shares[5]
        );
        println!(
            "{language}: within the mixture: specific {:+.2}, template {:+.2}, poor {:+.2}",
            mean(&kinds[0]),
            mean(&kinds[1]),
            mean(&kinds[2])
        );
        assert!(shares[0] > 5.0, "fitting and specific");
        assert!((-4.0..=5.0).contains(&shares[1]), "fitting template");
        assert!((-5.0..=5.0).contains(&shares[2]), "neutral and specific");
        assert!((-5.0..=-1.0).contains(&shares[3]), "mixture");
        assert!(shares[5] < -5.0, "poor");
    }
}

#[test]
fn the_same_phrase_wears_out_and_variety_does_not() {
    for language in Language::ALL {
        let own = |i| sentences(language).iter().find(|s| s.0 == wanted(i)).unwrap();
        let (mut early, mut late) = (vec![], vec![]);
        for profile in own_profiles().iter().filter(|p| p.language() == language) {
            let s = own(profile.intention());
            let changes =
                play(profile, 1, 8, |_, key| if key.is_empty() { s.2.into() } else { s.1.replace("{k}", key) });
            early.extend(changes.iter().skip(1).take(1));
            late.extend(changes.iter().skip(4));
        }
        println!(
            "{language}: one phrase over and over: second turn {:+.2}, from the fifth on {:+.2}",
            mean(&early),
            mean(&late)
        );
        assert!(mean(&late) < 0.0 && mean(&late) < mean(&early) - 3.0);
    }
}

#[test]
fn the_same_reply_is_taken_differently_by_different_people() {
    for story in &STORIES {
        for reply in story.replies {
            let changes: Vec<i8> = HiddenIntention::ALL
                .map(|i| {
                    let mut user =
                        session(profile(story.language, i, CharacterType::Passive, Some(story.first)), 50, 1);
                    user.opening().unwrap();
                    user.respond(reply).unwrap().appraisal.change
                })
                .to_vec();
            assert!(changes.iter().max() > changes.iter().min(), "{reply}: {changes:?}");
        }
    }
}

#[test]
fn ignoring_the_person_and_over_length_are_punished() {
    for story in &STORIES {
        let other = STORIES.iter().rev().find(|s| s.language == story.language && s.first != story.first).unwrap();
        let (mut own, mut strange) = (0, 0);
        for intention in HiddenIntention::ALL {
            let change = |reply: &str| {
                let person = profile(story.language, intention, CharacterType::Passive, Some(story.first));
                let mut user = session(person, 50, 1);
                user.opening().unwrap();
                i32::from(user.respond(reply).unwrap().appraisal.change)
            };
            let good = story.reply(intention);
            own += change(good);
            strange += change(other.reply(intention));
            let much = if story.language == Language::Zh { 450 } else { 1000 };
            let padding: String = other.replies.join(" ").chars().take(much).collect();
            assert!(change(&format!("{good} {padding}")) < change(good), "padded: {good}");
        }
        println!("replies to another story earn {strange}, to this one {own}");
        assert!(strange <= own - 30, "{}", story.first);
    }
}

#[test]
fn strategies_are_recognised() {
    for language in Language::ALL {
        for (strategy, specific, plain) in sentences(language) {
            for sentence in
                [specific.replace("{k}", if language == Language::Zh { "合同" } else { "contract" }), plain.to_string()]
            {
                let found = recognise(&sentence, language);
                assert!(found.contains(strategy), "{strategy:?} not in {found:?}: {sentence}");
            }
        }
    }
}

#[test]
fn a_turn_is_quick() {
    let profiles = own_profiles();
    let engine = BuiltinUser::new();
    let (mut turns, mut spent) = (0u32, std::time::Duration::ZERO);
    for profile in &profiles {
        let mut user = engine.open(profile.clone(), SessionSettings { start: start(50), seed: 1 });
        user.opening().unwrap();
        for story in STORIES.iter().filter(|s| s.language == profile.language()) {
            let from = Instant::now();
            user.respond(story.replies[turns as usize % 8]).unwrap();
            spent += from.elapsed();
            turns += 1;
        }
    }
    println!("{} µs per turn over {turns} turns", spent.as_micros() / u128::from(turns.max(1)));
    // Far above the target of 200 µs, so that a busy machine does not fail the test.
    assert!(turns == 0 || spent.as_millis() / u128::from(turns) < 20);
}
