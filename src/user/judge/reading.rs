//! Reading a reply: every measure the emotion model knows, by name.
//!
//! All measures but the n-grams ([`super::grams`]) are independent of the language: sizes are given in Chinese characters
//! (an English word counts as 1.6), strategies and tones come from word lists of the reply's language.

use std::collections::{BTreeMap, HashSet};

use super::hearing::Hearing;
use super::lists::is_listed;
use super::rarity::rarity;
use super::words;
use crate::dialogue::{CharacterType, HiddenIntention, IntentionClass, Language, Strategy, is_han};
use crate::user::builtin::lexicon::lexicon;
use crate::user::builtin::text::Text;

/// Named measures in a fixed order.
#[derive(Debug, Clone, Default)]
pub(super) struct Sheet {
    names: Option<Vec<String>>,
    values: Vec<f32>,
}

impl Sheet {
    fn put(&mut self, name: impl FnOnce() -> String, value: f32) {
        if let Some(names) = &mut self.names {
            names.push(name());
        }
        self.values.push(value);
    }
}

/// What was measured on one reply.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The measures, in the order of [`measure_names`].
    pub(super) values: Vec<f32>,
    /// The reply, split.
    pub(super) text: Text,
    /// Sentences per strategy.
    pub(super) strategies: BTreeMap<Strategy, u32>,
    /// Quantities guards and appraisals ask for.
    pub(super) overlap: Overlap,
    /// Lines that are list items or headings.
    pub(super) listed: u32,
    /// Size in Chinese characters.
    pub(super) size: f32,
    /// 0–1: share of letters that belong to another script.
    pub(super) foreign: f32,
    /// Words of praise per hundred characters.
    pub(super) praise: f32,
}

/// How a reply relates to what was said before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Overlap {
    /// Share of the last line's content that the reply takes up.
    pub(super) answered: f32,
    /// Share of the reply's content that the person spoke of.
    pub(super) heard: f32,
    /// Share of the reply's content that persona or scene hold.
    pub(super) story: f32,
    /// Number of the reply's content items the person spoke of.
    pub(super) shared: f32,
    /// Number of the reply's content items.
    pub(super) items: f32,
    /// Sums of items weighed by how rare they are.
    pub(super) rare: Rare,
    /// Share of its n-grams in the user's lines.
    pub(super) copied: f32,
    /// Share of its n-grams in the reply before.
    pub(super) repeated: f32,
    /// Share of its n-grams in any earlier reply.
    pub(super) worn: f32,
    /// Distinct n-grams over all n-grams.
    pub(super) distinct: f32,
}

/// Sums of the weights of a reply's content items (see [`super::rarity`]): of those in the last line, in any line of the
/// person's, in persona or scene, and of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rare {
    pub(super) answered: f32,
    pub(super) heard: f32,
    pub(super) story: f32,
    pub(super) all: f32,
}

impl Rare {
    /// A sum as a share of the reply's.
    pub(super) fn share(&self, part: f32) -> f32 {
        part / (self.all + 2.0)
    }
}

/// n-grams are compared over four characters or three words.
pub(super) fn gram_size(language: Language) -> usize {
    match language {
        Language::Zh => 4,
        Language::En => 3,
    }
}

/// One token's size in Chinese characters.
pub(super) fn token_size(language: Language) -> f32 {
    match language {
        Language::Zh => 1.0,
        Language::En => 1.6,
    }
}

impl Reading {
    /// Measures `reply` as `hearing` would hear it next.
    pub fn of(reply: &str, hearing: &Hearing) -> Reading {
        measure(reply.trim(), hearing, false).1
    }

    /// Whether the reply praises and takes up nothing of what the person said, or next to nothing where it is short. (Four in
    /// five recorded replies that praise at length and take up little are welcome.)
    pub(super) fn is_empty_praise(&self) -> bool {
        let praise = [Strategy::PraiseActions, Strategy::PraiseQualities, Strategy::PraiseThoughts];
        let sentences: u32 = praise.iter().filter_map(|s| self.strategies.get(s)).sum();
        let praises = self.praise >= 2.0 || 3 * sentences as usize >= self.text.sentences.len().max(1);
        let least = if self.size < 120.0 { 1.5 + 0.05 * self.overlap.items } else { 1.0 };
        praises && self.overlap.shared < least
    }

    /// Whether the reply does nothing that our lists know and takes up nothing of what the person said.
    pub(super) fn is_idle(&self) -> bool {
        self.strategies.is_empty() && self.overlap.shared < 1.0
    }

    /// Whether the reply speaks of this and that, but of nothing that the person told or is known for. Nobody has told
    /// anything before the first reply.
    pub(super) fn is_unrelated(&self, hearing: &Hearing) -> bool {
        let o = &self.overlap;
        let few = o.shared == 0.0 || (o.items <= 20.0 && o.shared < 0.1 * o.items);
        hearing.turn > 0 && o.items >= 4.0 && o.story == 0.0 && few
    }
}

/// The names of the measures.
pub(super) fn measure_names() -> Vec<String> {
    let person = super::Person::known_by(HiddenIntention::Advice, CharacterType::Negative, Language::Zh);
    measure("", &Hearing::new(std::sync::Arc::new(person)), true).0
}

fn measure(reply: &str, hearing: &Hearing, named: bool) -> (Vec<String>, Reading) {
    let language = hearing.person.language;
    let text = Text::new(reply, language);
    let mut sheet = Sheet { names: named.then(Vec::new), values: Vec::with_capacity(400) };
    let shape = Shape::of(reply, &text, language);
    let strategies = strategies(&text, language);
    let overlap = overlap(&text, hearing);
    let person = &hearing.person;

    shape.put(&mut sheet);
    let per_hundred = 100.0 / (shape.size + 20.0);
    let tones: Vec<(&String, f32)> = words::lists(language)
        .iter()
        .map(|(name, entries)| (name, (words::count(text.norm(), entries, language) as f32 * per_hundred).min(8.0)))
        .collect();
    for (name, rate) in &tones {
        sheet.put(|| format!("tone {name}"), *rate);
    }
    let sentences = text.sentences.len().max(1) as f32;
    let share = |s: Strategy| strategies.get(&s).copied().unwrap_or(0) as f32 / sentences;
    let present = |s: Strategy| f32::from(u8::from(strategies.contains_key(&s)));
    for s in Strategy::ALL {
        sheet.put(|| format!("does {s:?}"), present(s));
        sheet.put(|| format!("share {s:?}"), share(s));
    }
    overlap.put(&mut sheet, hearing);

    // Who listens, and how that changes what a measure means.
    for intention in HiddenIntention::ALL {
        let is = f32::from(u8::from(person.intention == intention));
        sheet.put(|| format!("wants {intention:?}"), is);
        for (name, value) in shape.of_interest().into_iter().chain([("shared", (1.0 + overlap.shared).ln())]) {
            sheet.put(|| format!("wants {intention:?} x {name}"), is * value);
        }
        for (name, rate) in &tones {
            sheet.put(|| format!("wants {intention:?} x tone {name}"), is * rate);
        }
        for s in Strategy::ALL {
            sheet.put(|| format!("wants {intention:?} x does {s:?}"), is * present(s));
            sheet.put(|| format!("wants {intention:?} x share {s:?}"), is * share(s));
        }
    }
    let emotional = person.intention.class() == IntentionClass::Emotional;
    for (name, rate) in &tones {
        sheet.put(|| format!("emotional x tone {name}"), f32::from(u8::from(emotional)) * rate);
    }
    for s in Strategy::ALL {
        sheet.put(|| format!("emotional x does {s:?}"), f32::from(u8::from(emotional)) * present(s));
    }
    for character in CharacterType::ALL {
        let is = f32::from(u8::from(person.character == character));
        sheet.put(|| format!("is {character:?}"), is);
        for (name, value) in shape.of_interest() {
            sheet.put(|| format!("is {character:?} x {name}"), is * value);
        }
        for (name, rate) in &tones {
            sheet.put(|| format!("is {character:?} x tone {name}"), is * rate);
        }
        for intention in HiddenIntention::ALL {
            let both = is * f32::from(u8::from(person.intention == intention));
            sheet.put(|| format!("is {character:?} x wants {intention:?}"), both);
        }
    }
    let reading = Reading {
        values: sheet.values,
        strategies,
        overlap,
        listed: shape.listed as u32,
        size: shape.size,
        foreign: shape.foreign,
        praise: tones.iter().find(|(name, _)| *name == "praise").map_or(0.0, |t| t.1),
        text,
    };
    (sheet.names.unwrap_or_default(), reading)
}

/// What a reply looks like.
struct Shape {
    size: f32,
    sentences: f32,
    questions: f32,
    ends_asking: bool,
    exclamations: f32,
    listed: f32,
    bold: f32,
    paragraphs: f32,
    stage: f32,
    emoji: f32,
    dots: f32,
    quotes: f32,
    digits: f32,
    you: f32,
    i: f32,
    we: f32,
    foreign: f32,
    pieces: f32,
}

impl Shape {
    fn of(raw: &str, text: &Text, language: Language) -> Shape {
        let count = |set: &[char]| raw.chars().filter(|c| set.contains(c)).count() as f32;
        let words = |set: &[&str]| text.words().filter(|w| set.contains(w)).count() as f32;
        let lines: Vec<&str> = raw.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let emoji = raw.chars().filter(|c| matches!(*c as u32, 0x1f300..=0x1faff | 0x2600..=0x27bf)).count() as f32;
        let (you, i, we): (&[&str], &[&str], &[&str]) = match language {
            Language::Zh => (&["你", "您"], &["我"], &["咱", "们"]),
            Language::En => (&["you", "your", "yourself"], &["i", "me", "my"], &["we", "us", "our"]),
        };
        Shape {
            size: text.len() as f32 * token_size(language),
            sentences: text.sentences.len() as f32,
            questions: text.sentences.iter().filter(|s| s.question).count() as f32,
            ends_asking: text.sentences.last().is_some_and(|s| s.question),
            exclamations: count(&['!', '！']),
            listed: lines.iter().filter(|l| is_listed(l)).count() as f32,
            bold: raw.matches("**").count() as f32 / 2.0,
            paragraphs: lines.len() as f32,
            stage: count(&['（', '(']),
            emoji,
            dots: raw.matches("……").count() as f32
                + raw.matches("...").count() as f32
                + raw.matches("。。").count() as f32,
            quotes: count(&['“', '「', '"', '\u{2018}']),
            digits: raw.chars().filter(char::is_ascii_digit).count() as f32,
            you: words(you) / (text.len() as f32 + 1.0),
            i: words(i) / (text.len() as f32 + 1.0),
            we: words(we) / (text.len() as f32 + 1.0),
            foreign: foreign(raw, language),
            pieces: text.len() as f32 / text.pieces.len().max(1) as f32 * token_size(language),
        }
    }

    fn put(&self, sheet: &mut Sheet) {
        let ln = |x: f32| (1.0 + x).ln();
        let size = ln(self.size / 20.0);
        for (name, value) in [
            ("size", size),
            ("size squared", size * size),
            ("short", (1.0 - self.size / 60.0).max(0.0)),
            ("long", ((self.size - 400.0) / 400.0).clamp(0.0, 2.0)),
            ("sentences", ln(self.sentences)),
            ("sentence size", ln(self.size / self.sentences.max(1.0))),
            ("piece size", ln(self.pieces)),
            ("questions", ln(self.questions)),
            ("question share", self.questions / self.sentences.max(1.0)),
            ("no question", f32::from(u8::from(self.questions == 0.0))),
            ("ends asking", f32::from(u8::from(self.ends_asking))),
            ("exclamations", ln(self.exclamations)),
            ("exclamation share", self.exclamations / self.sentences.max(1.0)),
            ("listed", ln(self.listed)),
            ("has list", f32::from(u8::from(self.listed >= 2.0))),
            ("bold", ln(self.bold)),
            ("paragraphs", ln(self.paragraphs)),
            ("paragraph size", ln(self.size / self.paragraphs.max(1.0))),
            ("stage directions", ln(self.stage)),
            ("emoji", ln(self.emoji)),
            ("dots", ln(self.dots)),
            ("quotes", ln(self.quotes)),
            ("digits", ln(self.digits)),
            ("you", self.you),
            ("I", self.i),
            ("we", self.we),
            ("foreign", self.foreign),
        ] {
            sheet.put(|| name.to_string(), value);
        }
    }

    fn of_interest(&self) -> [(&'static str, f32); 5] {
        [
            ("size", (1.0 + self.size / 20.0).ln()),
            ("listed", (1.0 + self.listed).ln()),
            ("questions", (1.0 + self.questions).ln()),
            ("exclamations", (1.0 + self.exclamations).ln()),
            ("stage directions", (1.0 + self.stage).ln()),
        ]
    }
}

impl Overlap {
    fn put(&self, sheet: &mut Sheet, hearing: &Hearing) {
        let ln = |x: f32| (1.0 + x).ln();
        for (name, value) in [
            ("answered", self.answered),
            ("heard", self.heard),
            ("from the story", self.story),
            ("shared", ln(self.shared)),
            ("answered by rarity", self.rare.share(self.rare.answered)),
            ("heard by rarity", self.rare.share(self.rare.heard)),
            ("from the story by rarity", self.rare.share(self.rare.story)),
            ("shared by rarity", ln(self.rare.heard)),
            ("copied", self.copied),
            ("repeated", self.repeated),
            ("worn", self.worn),
            ("repeated squared", self.repeated * self.repeated),
            ("self-repeating", 1.0 - self.distinct),
            ("story known", f32::from(u8::from(!hearing.person.story.is_empty()))),
        ] {
            sheet.put(|| name.to_string(), value);
        }
    }
}

fn strategies(text: &Text, language: Language) -> BTreeMap<Strategy, u32> {
    let lexicon = lexicon(language);
    let mut found = BTreeMap::new();
    for sentence in &text.sentences {
        let matches = lexicon.strategies(text, sentence);
        if matches.is_empty() && sentence.question {
            *found.entry(Strategy::Question).or_default() += 1;
        }
        for one in matches {
            *found.entry(one.strategy).or_default() += 1;
        }
    }
    found
}

fn overlap(text: &Text, hearing: &Hearing) -> Overlap {
    let language = hearing.person.language;
    let items = text.items(&lexicon(language).stop);
    let count = |set: &HashSet<u64>| items.iter().filter(|i| set.contains(i)).count() as f32;
    let grams = text.grams(gram_size(language));
    let share = |set: &HashSet<u64>| {
        if grams.is_empty() {
            0.0
        } else {
            grams.iter().filter(|g| set.contains(g)).count() as f32 / grams.len() as f32
        }
    };
    let weight =
        |of: &dyn Fn(&u64) -> bool| -> f32 { items.iter().filter(|i| of(i)).map(|i| rarity(language, *i)).sum() };
    let rare = Rare {
        answered: weight(&|i| hearing.last_items.contains(i)),
        heard: weight(&|i| hearing.last_items.contains(i) || hearing.earlier_items.contains(i)),
        story: weight(&|i| hearing.person.story.contains(i)),
        all: weight(&|_| true),
    };
    let all = items.len() as f32;
    let last = count(&hearing.last_items);
    let earlier =
        items.iter().filter(|i| hearing.earlier_items.contains(i) && !hearing.last_items.contains(i)).count() as f32;
    Overlap {
        answered: last / hearing.last_items.len().max(3) as f32,
        heard: (last + earlier) / all.max(5.0),
        story: count(&hearing.person.story) / all.max(5.0),
        shared: last + earlier,
        items: all,
        rare,
        copied: share(&hearing.user_grams),
        repeated: share(&hearing.last_reply),
        worn: share(&hearing.reply_grams),
        distinct: if grams.is_empty() {
            1.0
        } else {
            grams.iter().collect::<HashSet<_>>().len() as f32 / grams.len() as f32
        },
    }
}

/// Share of letters that belong to another script than the language's.
fn foreign(raw: &str, language: Language) -> f32 {
    // One Chinese character carries about as much as two and a half Latin letters.
    let (mut han, mut latin, mut other) = (0.0f32, 0.0f32, 0.0f32);
    for c in raw.chars().filter(|c| c.is_alphabetic()) {
        match c {
            c if is_han(c) => han += 2.5,
            c if c.is_ascii() || ('\u{c0}'..='\u{24f}').contains(&c) => latin += 1.0,
            _ => other += 1.0,
        }
    }
    let own = if language == Language::Zh { han } else { latin };
    let all = han + latin + other;
    if all == 0.0 { 0.0 } else { 1.0 - own / all }
}
