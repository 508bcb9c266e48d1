//! Which topics are so common in talk of this kind that taking them up says little: the lists behind `rarity`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::rarity::weight;
use super::super::recorded::Recorded;
use super::coach;
use crate::dialogue::{Language, ProfileSet};
use crate::user::builtin::lexicon::lexicon;
use crate::user::builtin::text::Text;

/// Tenths of weight up to which a topic is listed.
const LISTED: i64 = 8;

/// The list of a language: a line of topics per weight in tenths. A topic is as common as in the kind of replies where it is
/// most common: recorded ones, scripted ones.
pub fn common(dialogues: &[Recorded], profiles: &ProfileSet, language: Language) -> String {
    let recorded = dialogues.iter().filter(|d| d.person.language == language);
    let recorded = recorded.flat_map(|d| d.turns.iter().map(|t| t.reply.as_str()));
    let examples = coach::examples(profiles);
    let scripted = examples.iter().filter(|e| e.language == language).map(|e| e.reply.as_str());
    let mut share: HashMap<String, f64> = HashMap::new();
    for (topic, common) in shares(recorded, language).into_iter().chain(shares(scripted, language)) {
        let known = share.entry(topic).or_default();
        *known = known.max(common);
    }
    let mut lines: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for (topic, share) in share {
        let tenths = (weight(share) * 10.0).round() as i64;
        if tenths <= LISTED {
            lines.entry(tenths).or_default().insert(topic);
        }
    }
    let line = |(tenths, topics): (i64, BTreeSet<String>)| {
        let topics: Vec<String> = topics.into_iter().collect();
        format!("{tenths} {}\n", topics.join(" "))
    };
    let head = "# Topics by weight in tenths: 0 is in every reply, 10 (not listed) in one of 500 or fewer. Made by `rlver user fit --common`.\n";
    head.to_string() + &lines.into_iter().map(line).collect::<String>()
}

/// The share of texts that have each topic.
fn shares<'a>(texts: impl Iterator<Item = &'a str>, language: Language) -> HashMap<String, f64> {
    let stop = &lexicon(language).stop;
    let (mut counts, mut all) = (HashMap::<String, f64>::new(), 0.0f64);
    for text in texts {
        let text = Text::new(text, language);
        let topics: BTreeSet<_> = text.topics(stop).into_iter().collect();
        topics.into_iter().for_each(|topic| *counts.entry(topic.into_owned()).or_default() += 1.0);
        all += 1.0;
    }
    counts.values_mut().for_each(|n| *n /= all);
    counts
}
