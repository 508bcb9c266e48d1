//! Which topics are so common in talk of this kind that taking them up says little: the lists behind `rarity`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::rarity::weight;
use super::super::recorded::Recorded;
use super::coach;
use crate::dialogue::{Language, ProfileSet, is_han};
use crate::user::builtin::lexicon::lexicon;
use crate::user::builtin::pairs::neighbours;
use crate::user::builtin::text::Text;

/// Tenths of weight up to which a topic is listed.
const LISTED: i64 = 8;

/// People with whom a topic must occur, and a pair of characters: less is what one of them told about.
const PEOPLE: usize = 8;
const PEOPLE_OF_A_PAIR: usize = 5;

/// The list of a language: a line of topics per weight in tenths. A topic is as common as in the kind of replies where it is
/// most common: recorded ones, scripted ones.
pub fn common(dialogues: &[Recorded], profiles: &ProfileSet, language: Language) -> String {
    let recorded = dialogues.iter().filter(|d| d.person.language == language);
    let recorded = recorded.flat_map(|d| d.turns.iter().map(|t| (d.id.as_str(), t.reply.as_str())));
    let examples = coach::examples(profiles);
    let of_language = examples.iter().filter(|e| e.language == language);
    let scripted = of_language.map(|e| (e.person.as_str(), e.reply.as_str()));
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
    let head = "# Topics by weight in tenths: 0 is in every reply; what is not listed weighs 10.";
    format!("{head} Made by `rlver user fit --common`.\n") + &lines.into_iter().map(line).collect::<String>()
}

/// The share of texts that have each topic, of those that are told with enough people; texts come with whom they are told to.
fn shares<'a>(texts: impl Iterator<Item = (&'a str, &'a str)>, language: Language) -> HashMap<String, f64> {
    let stop = &lexicon(language).stop;
    let mut found: HashMap<String, (f64, HashSet<&str>)> = HashMap::new();
    let mut all = 0.0f64;
    for (person, text) in texts {
        let text = Text::new(text, language);
        let topics: BTreeSet<_> = text.topics(stop).into_iter().collect();
        for topic in topics {
            let (count, people) = found.entry(topic.into_owned()).or_default();
            *count += 1.0;
            people.insert(person);
        }
        all += 1.0;
    }
    let told = found.into_iter().filter(|(_, (_, people))| people.len() >= PEOPLE);
    told.map(|(topic, (count, _))| (topic, count / all)).collect()
}

/// The list of neighbouring Chinese characters that occur, in what is said or replied, with enough people: a line for each
/// first character.
pub fn pairs(dialogues: &[Recorded]) -> String {
    let mut found: BTreeMap<[char; 2], HashSet<&str>> = BTreeMap::new();
    for dialogue in dialogues.iter().filter(|d| d.person.language == Language::Zh) {
        let lines = dialogue.turns.iter().flat_map(|t| std::iter::once(&t.reply).chain(&t.line));
        for said in lines.chain([&dialogue.opening]) {
            let text = Text::new(said, Language::Zh);
            for pair in text.sentences.iter().flat_map(|s| neighbours(&text, s)) {
                found.entry(pair).or_default().insert(&dialogue.id);
            }
        }
    }
    let mut lines: BTreeMap<char, String> = BTreeMap::new();
    let common =
        found.into_iter().filter(|(pair, people)| people.len() >= PEOPLE_OF_A_PAIR && pair.iter().all(|c| is_han(*c)));
    common.for_each(|([first, second], _)| lines.entry(first).or_insert_with(|| first.to_string()).push(second));
    let lines: Vec<String> = lines.into_values().collect();
    format!(
        "# First characters, each with those that follow it. Made by `rlver user fit --common`.\n{}\n",
        lines.join("\n")
    )
}
