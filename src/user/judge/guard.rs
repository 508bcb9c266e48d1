//! What is no honest reply: rules for the plain cases, and what the gate looks at.

use super::flow::{flow, is_word_salad, least_flowing_sentence};
use super::hearing::Hearing;
use super::reading::Reading;
use super::words;
use crate::dialogue::{Language, Strategy, is_han};
use crate::user::builtin::Guard;
use crate::user::builtin::guard::{function_share, is_acknowledgement, is_gibberish, is_keyword_bag};
use crate::user::builtin::lexicon::lexicon;
use crate::user::builtin::pairs::{OWN, OWN_AND_RECORDED, fluency, least_fluent_sentence};
use crate::user::builtin::text::Text;

/// The longest reply anybody reads, in Chinese characters. Recorded replies are longer in 1.8 of 100 cases above 1500.
const OVER_LONG: f32 = 2500.0;

/// The rule that refuses a reply, if one does. All but injections are rare in recorded replies by construction: the
/// thresholds are far outside of what recorded replies show.
pub(super) fn rule(reply: &str, reading: &Reading, hearing: &Hearing) -> Option<Guard> {
    let language = hearing.person.language;
    let text = &reading.text;
    let overlap = &reading.overlap;
    let refused = |guard: Guard| match guard {
        Guard::Empty => text.len() == 0,
        Guard::Markup => has_markup(reply),
        Guard::Injection => lexicon(language).has_injection(text),
        Guard::WrongLanguage => reading.foreign > 0.5,
        Guard::OverLong => reading.size > OVER_LONG,
        Guard::Acknowledgement => is_acknowledgement(text, language) || reading.size < 6.0,
        Guard::Copied => reading.size >= 6.0 && overlap.copied > 0.5,
        // The recorded judge lets three in ten such replies pass: a matter of the score, see `Judge::score`.
        Guard::Repeated => false,
        Guard::SelfRepeating => reading.size >= 12.0 && overlap.distinct < 0.5,
        Guard::KeywordBag => is_keyword_bag(text, language),
        Guard::Gibberish => is_salad(reply, text, language),
        Guard::Corrupted => false,
    };
    Guard::ALL.into_iter().find(|g| refused(*g))
}

/// Marks of a chat template or of a thought.
fn has_markup(reply: &str) -> bool {
    ["<think>", "</think>", "<|"].iter().any(|mark| reply.contains(mark))
}

/// Characters that broke on the way, or Chinese ones in English talk, unless the person used some. (Chinese talk is full of
/// Latin letters.) Such a slip makes nobody a stranger, but it pleases nobody either.
pub(super) fn has_unreadable_letters(reply: &str, hearing: &Hearing) -> bool {
    let han = |text: &str| text.chars().any(is_han);
    reply.contains('\u{fffd}') || (hearing.person.language == Language::En && han(reply) && !han(&hearing.line))
}

/// Letters without words, or English words without order. Chinese is held to a lower bar than the rules' user holds it: recorded replies have names and terms
/// that our list of pairs does not know.
fn is_salad(reply: &str, text: &Text, language: Language) -> bool {
    match language {
        Language::Zh => text.len() >= 6 && fluency(text, &OWN) < 0.1,
        Language::En => is_gibberish(text, language) || is_word_salad(reply, text),
    }
}

/// What the gate looks at; none of it depends on the language's words beyond lists.
pub(super) fn gate_measures(reading: &Reading, hearing: &Hearing) -> Vec<f32> {
    let language = hearing.person.language;
    let text = &reading.text;
    let o = &reading.overlap;
    let fluent = match language {
        Language::Zh => fluency(text, &OWN_AND_RECORDED),
        // On the scale of the Chinese measure.
        Language::En => (flow(text) + 0.3).clamp(0.0, 1.0),
    };
    let least_fluent = match language {
        Language::Zh => least_fluent_sentence(text, &OWN_AND_RECORDED),
        Language::En => (least_flowing_sentence(text) + 0.3).clamp(0.0, 1.0),
    };
    let sentences = text.sentences.len().max(1) as f32;
    let longest = text.pieces.iter().copied().max().unwrap_or(0) as f32;
    let short = text.pieces.iter().filter(|p| **p <= 3).count() as f32 / text.pieces.len().max(1) as f32;
    let tones = words::lists(language);
    let per = 100.0 / (reading.size + 20.0);
    let rate = |list: &str| words::count(text.norm(), &tones[list], language) as f32 * per;
    let share = |s: &[Strategy]| s.iter().filter_map(|s| reading.strategies.get(s)).sum::<u32>() as f32 / sentences;
    vec![
        fluent,
        least_fluent,
        function_share(text, language),
        reading.size,
        sentences,
        reading.size / sentences,
        reading.size / text.pieces.len().max(1) as f32,
        longest,
        short,
        o.answered,
        o.heard,
        o.story,
        o.shared,
        o.shared / (o.items + 1.0),
        (o.items * (o.heard - o.story)).clamp(-50.0, 50.0),
        o.items,
        o.rare.share(o.rare.answered),
        o.rare.share(o.rare.heard),
        o.rare.share(o.rare.story),
        o.rare.answered,
        o.rare.heard,
        o.rare.all,
        o.copied,
        o.repeated,
        o.worn,
        o.distinct,
        reading.foreign,
        reading.listed as f32,
        hearing.turn.min(3) as f32,
        hearing.last_items.len() as f32,
        f32::from(u8::from(hearing.person.story.is_empty())),
        rate("praise"),
        rate("strong"),
        rate("recall"),
        rate("understanding"),
        rate("feeling"),
        rate("platitude"),
        rate("because"),
        rate("other_people"),
        share(&[Strategy::PraiseActions, Strategy::PraiseQualities, Strategy::PraiseThoughts]),
        share(&[Strategy::Question]),
        share(&[Strategy::RestateProblem, Strategy::NameFeeling]),
    ]
}
