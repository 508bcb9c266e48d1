//! Good and bad replies to the same person.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use rlver::dialogue::{CharacterType, HiddenIntention, Language};
use rlver::user::Emotion;
use rlver::user::judge::recorded::{Recorded, RecordedTurn};
use rlver::user::judge::{Hearing, Judge, Person, Reading, View};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stories {
    story: Vec<Story>,
}

#[derive(Deserialize)]
struct Story {
    said: Vec<String>,
    weak: Vec<String>,
    #[serde(flatten)]
    good: BTreeMap<HiddenIntention, String>,
}

/// A good reply and a worse one.
struct Pair {
    story: usize,
    intention: HiddenIntention,
    /// Whether the worse one would be good for another intention.
    mismatch: bool,
    good: String,
    bad: String,
}

/// What is least welcome to whom.
fn opposite(intention: HiddenIntention) -> HiddenIntention {
    use HiddenIntention::*;
    match intention {
        Dialectical | SelfReflection => NotMyFault,
        Advice => Venting,
        ExplainOthers => Advice,
        Praise => Dialectical,
        Venting | DeepEmpathy => Advice,
        NotMyFault => SelfReflection,
    }
}

fn stories(language: Language) -> Stories {
    toml::from_str(match language {
        Language::Zh => include_str!("stories.zh.toml"),
        Language::En => include_str!("stories.en.toml"),
    })
    .unwrap()
}

fn pairs(stories: &Stories) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (at, story) in stories.story.iter().enumerate() {
        for (index, intention) in HiddenIntention::ALL.into_iter().enumerate() {
            let good = &story.good[&intention];
            let mut pair = |mismatch, bad: &String| {
                pairs.push(Pair { story: at, intention, mismatch, good: good.clone(), bad: bad.clone() });
            };
            pair(true, &story.good[&opposite(intention)]);
            pair(false, &story.weak[index % story.weak.len()]);
        }
    }
    pairs
}

fn score(
    judge: &Judge,
    story: &Story,
    intention: HiddenIntention,
    language: Language,
    reply: &str,
    view: View,
) -> (f32, i8) {
    let mut hearing = Hearing::new(Arc::new(Person::known_by(intention, CharacterType::Passive, language)));
    for line in &story.said {
        hearing.said(line);
    }
    let reading = Reading::of(reply, &hearing);
    let judged = judge.judge(reply, &reading, &hearing, Emotion::new(40).unwrap(), view);
    (judged.score, judged.change)
}

/// Share of pairs ordered rightly: mismatches, weak replies.
fn ordered(language: Language, view: View) -> [f64; 2] {
    let judge = Judge::shipped();
    let stories = stories(language);
    let mut right = [0.0f64; 2];
    let mut all = [0.0f64; 2];
    for pair in pairs(&stories) {
        let of = |reply: &str| score(judge, &stories.story[pair.story], pair.intention, language, reply, view).0;
        let place = usize::from(!pair.mismatch);
        all[place] += 1.0;
        right[place] += f64::from(u8::from(of(&pair.good) > of(&pair.bad)));
    }
    [right[0] / all[0], right[1] / all[1]]
}

#[test]
fn there_are_enough_pairs_and_half_of_them_are_mismatches() {
    for language in Language::ALL {
        let pairs = pairs(&stories(language));
        assert!(pairs.len() >= 60, "{language}: {}", pairs.len());
        assert_eq!(2 * pairs.iter().filter(|p| p.mismatch).count(), pairs.len());
        assert!(pairs.iter().all(|p| p.good != p.bad));
    }
}

#[test]
fn pairs_that_were_never_fitted_to_are_ordered_rightly() {
    for language in Language::ALL {
        for view in [View::Reply, View::Context] {
            let [mismatch, weak] = ordered(language, view);
            println!("{language} {view:?}: mismatches {mismatch:.3}, weak replies {weak:.3}");
            assert!(mismatch >= 0.7, "{language} {view:?}: {mismatch}");
            assert!(weak >= 0.7, "{language} {view:?}: {weak}");
        }
    }
}

#[test]
fn a_good_reply_is_no_attack() {
    // Guards must not refuse what people wrote to each other with care.
    for language in Language::ALL {
        let stories = stories(language);
        let mut refused = Vec::new();
        for story in &stories.story {
            for (intention, reply) in &story.good {
                if score(Judge::shipped(), story, *intention, language, reply, View::Reply).0 <= -99.0 {
                    refused.push(reply.clone());
                }
            }
        }
        assert!(refused.len() <= 2, "{language}: {refused:#?}");
    }
}

/// The good replies as dialogues of two turns: an invitation to go on, then the reply.
pub(super) fn dialogues(language: Language) -> Vec<Recorded> {
    let invite = match language {
        Language::Zh => "怎么了？跟我说说发生了什么吧。",
        Language::En => "What happened? Tell me about it.",
    };
    let stories = stories(language);
    let mut dialogues = Vec::new();
    for (at, story) in stories.story.iter().enumerate() {
        for (intention, reply) in &story.good {
            let turn = |reply: &str, line: &str, emotion| RecordedTurn {
                reply: reply.into(),
                line: Some(line.into()),
                emotion: Some(emotion),
                appraisal: None,
            };
            dialogues.push(Recorded {
                id: format!("story {at}"),
                model: "author".into(),
                person: Arc::new(Person::known_by(*intention, CharacterType::Passive, language)),
                opening: story.said[0].clone(),
                start: 40,
                turns: vec![turn(invite, &story.said[1], 45), turn(reply, &story.said[1], 50)],
            });
        }
    }
    dialogues
}
