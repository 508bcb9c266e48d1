//! What the person remembers of a dialogue.

use std::collections::HashSet;
use std::sync::Arc;

use super::Person;
use super::reading::{Reading, gram_size};
use crate::user::builtin::lexicon::lexicon;
use crate::user::builtin::text::Text;

/// The memory of one dialogue.
#[derive(Debug, Clone)]
pub struct Hearing {
    pub(super) person: Arc<Person>,
    /// Replies heard so far.
    pub(super) turn: usize,
    /// The last line.
    pub(super) line: String,
    /// What the last line was about.
    pub(super) last_items: HashSet<u64>,
    /// What earlier lines were about.
    pub(super) earlier_items: HashSet<u64>,
    /// n-grams of everything the person said.
    pub(super) user_grams: HashSet<u64>,
    /// n-grams of the reply before.
    pub(super) last_reply: HashSet<u64>,
    /// n-grams of every earlier reply.
    pub(super) reply_grams: HashSet<u64>,
    /// Fingerprints of the earlier replies.
    pub(super) replies: HashSet<u64>,
}

impl Hearing {
    /// A dialogue that has not begun.
    pub fn new(person: Arc<Person>) -> Hearing {
        Hearing {
            person,
            turn: 0,
            line: String::new(),
            last_items: HashSet::new(),
            earlier_items: HashSet::new(),
            user_grams: HashSet::new(),
            last_reply: HashSet::new(),
            reply_grams: HashSet::new(),
            replies: HashSet::new(),
        }
    }

    /// Remembers a line of the person.
    pub fn said(&mut self, line: &str) {
        let language = self.person.language;
        let text = Text::new(line, language);
        self.user_grams.extend(text.grams(gram_size(language)));
        self.line = line.to_string();
        self.earlier_items.extend(self.last_items.drain());
        self.last_items.extend(text.items(&lexicon(language).stop));
    }

    /// Remembers a reply.
    pub fn heard(&mut self, reading: &Reading) {
        self.remember(&reading.text);
    }

    /// Remembers a reply that was not measured.
    pub(super) fn heard_text(&mut self, reply: &str) {
        self.remember(&Text::new(reply, self.person.language));
    }

    fn remember(&mut self, text: &Text) {
        self.turn += 1;
        self.last_reply = text.grams(gram_size(self.person.language)).into_iter().collect();
        self.reply_grams.extend(&self.last_reply);
        self.replies.insert(text.fingerprint());
    }
}
