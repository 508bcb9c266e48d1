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
        Language::En => {
            &["you told me", "you said", "you just said", "you mentioned", "you wrote", "hearing this", "stays with me"]
        }
    }
}

const OPENING: [char; 6] = [':', '：', '“', '「', '"', '‘'];
const CLOSING: [char; 12] = ['。', '！', '？', '；', '.', '!', '?', ';', '\n', '”', '」', '"'];

/// The quotations of a reply, in order.
fn quotations(reply: &str, language: Language) -> Vec<&str> {
    // ASCII only, so that places stay what they are.
    let lower = reply.to_ascii_lowercase();
    let mut found = Vec::new();
    for cue in cues(language) {
        for (at, _) in lower.match_indices(cue) {
            let rest = reply[at + cue.len()..].trim_start();
            let quoted = rest.trim_start_matches(|c: char| OPENING.contains(&c) || c.is_whitespace());
            if rest.starts_with(OPENING) {
                found.push(quoted.split(CLOSING).next().unwrap_or(quoted));
            }
        }
    }
    found
}

/// Whether the reply puts words into the person's mouth: most of what it quotes was never said.
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
            "I keep hearing this: quite loud.",
        ] {
            assert!(!misquotes(faithful, &en), "{faithful}");
        }
        assert!(misquotes("That is hard. You told me: Sis dad end way about and loud. Rest a little.", &en));
        let zh = told(Language::Zh, "店长二话不说扣了我五百块奖金，我真的很憋屈。");
        assert!(!misquotes("你刚才说：店长二话不说扣了我五百块。换谁都憋屈。", &zh));
        assert!(!misquotes("你说得对，这件事不怪你：换谁都会生气。", &zh));
        assert!(misquotes("你这句我记下了：店我长五扣说了话不。我在听。", &zh));
    }
}
