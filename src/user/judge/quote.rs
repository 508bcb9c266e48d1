//! What a reply says the person said.

use super::hearing::Hearing;
use super::reading::gram_size;
use crate::dialogue::Language;
use crate::user::builtin::text::Text;

/// Words before a quotation. A colon or a quotation mark must follow.
fn cues(language: Language) -> &'static [&'static str] {
    match language {
        Language::Zh => {
            &["你刚才说", "你刚刚说", "你说过", "你说的", "你说", "你提到", "你讲", "你这句", "这句我记下了"]
        }
        Language::En => &[
            "you told me",
            "you said",
            "you just said",
            "you mentioned",
            "you wrote",
            "keep hearing this",
            "this stays with me",
        ],
    }
}

/// Whether what comes before a cue makes it something else: words *to* the person (“对你说：”), or words they might say.
fn is_no_report(before: &str, language: Language) -> bool {
    let clause = before.rsplit(['。', '！', '？', '；', '，', '.', '!', '?', ';', ',', '\n']).next().unwrap_or(before);
    let (to, supposed): (&[char], &[&str]) = match language {
        Language::Zh => (
            &['对', '跟', '和', '给', '向', '同', '与', '慰', '劝', '骂', '替'],
            &["如果", "可以", "要是", "假如", "试着"],
        ),
        Language::En => (&[], &["if ", "could ", "would ", "when "]),
    };
    clause.ends_with(to) || supposed.iter().any(|word| clause.contains(word))
}

const OPENING: [char; 5] = [':', '：', '“', '「', '"'];
const CLOSING: [char; 9] = ['。', '！', '？', '；', '.', '!', '?', ';', '\n'];

/// What is quoted at the beginning of `rest`: up to the closing mark, without marks up to the end of the sentence.
fn quotation(rest: &str) -> Option<&str> {
    let rest = rest.trim_start();
    let quoted = rest.trim_start_matches(|c: char| OPENING.contains(&c) || c.is_whitespace());
    let opened = rest[..rest.len() - quoted.len()].trim_end().chars().next_back()?;
    let closing = match opened {
        '“' => '”',
        '「' => '」',
        mark => mark,
    };
    let marked = (closing != opened || opened == '"').then(|| quoted.find(closing)).flatten();
    Some(&quoted[..marked.or_else(|| quoted.find(CLOSING)).unwrap_or(quoted.len())])
}

/// The quotations of a reply.
fn quotations(reply: &str, language: Language) -> Vec<&str> {
    // ASCII only, so that places stay what they are.
    let lower = reply.to_ascii_lowercase();
    let places = cues(language).iter().flat_map(|cue| lower.match_indices(cue).map(|(at, _)| (at, at + cue.len())));
    let reports = places.filter(|(from, _)| !is_no_report(&lower[..*from], language));
    reports.filter_map(|(_, to)| quotation(&reply[to..])).collect()
}

/// Whether the reply puts words into the person's mouth: more than half of some quotation was never said. Only quotations behind
/// words of our list are found, and those of fewer than four characters or three words pass.
pub(super) fn misquotes(reply: &str, hearing: &Hearing) -> bool {
    let language = hearing.person.language;
    quotations(reply, language).into_iter().any(|quotation| {
        let grams = Text::new(quotation, language).grams(gram_size(language));
        let said = grams.iter().filter(|gram| hearing.user_grams.contains(gram)).count();
        2 * said < grams.len()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dialogue::{CharacterType, HiddenIntention};
    use crate::user::judge::Person;

    fn told(language: Language, said: &str) -> Hearing {
        let person = Person::known_by(HiddenIntention::Venting, CharacterType::Passive, language);
        let mut hearing = Hearing::new(Arc::new(person));
        hearing.said(said);
        hearing
    }

    #[test]
    fn quotations_are_held_against_what_was_said() {
        let en = told(Language::En, "His dad came over at the end and was quite loud about it.");
        for faithful in [
            "You told me: His dad came over at the end. That is a lot.",
            "You said “he was quite loud”, and I see why.",
            "His father shouted, you told me so.",
            "I keep hearing this: he was quite loud. He should not have been.",
            "What if you said: please lower your voice in front of the children?",
            "After hearing this: please rest a little tonight.",
        ] {
            assert!(!misquotes(faithful, &en), "{faithful}");
        }
        assert!(misquotes("That is hard. You told me: Sis dad end way about and loud. Rest a little.", &en));
        let zh = told(Language::Zh, "店长二话不说扣了我五百块奖金，我真的很憋屈。");
        assert!(!misquotes("你刚才说：店长二话不说扣了我五百块。换谁都憋屈。", &zh));
        assert!(!misquotes("你说得对，这件事不怪你：换谁都会生气。", &zh));
        assert!(!misquotes("最后，我想对你说：你已经做得很好了，别再怪自己。", &zh));
        assert!(!misquotes("他要是安慰你说：“下次会注意的”，你会好受些吗？", &zh));
        assert!(!misquotes("你可以试着这样讲，如果你说“请把奖金还给我”，他会怎么回？", &zh));
        assert!(misquotes("你提到：“他们把我开除了。我再也不去了”，这太突然。", &zh));
        assert!(misquotes("你这句我记下了：店我长五扣说了话不。我在听。", &zh));
    }
}
