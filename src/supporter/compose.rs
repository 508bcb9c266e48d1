use rand::{Rng, RngExt};

use super::phrases::{Bank, Wording};
use super::plan::{Manner, Quality, ReplyPlan};
use crate::dialogue::{Language, Strategy};

/// What the supporter hears and remembers when it replies.
#[derive(Debug, Clone, Copy)]
pub struct ReplyContext<'a> {
    /// The language to speak.
    pub language: Language,
    /// What the person said last.
    pub last_user_line: &'a str,
    /// The noun phrase the last disclosed detail is about, verbatim in the line; `None` before anything was disclosed,
    /// and then a specific reply can only be worded like a template.
    pub key: Option<&'a str>,
    /// The sentence the person just told something with. A specific reply without a key quotes its first clause.
    pub told: Option<&'a str>,
    /// The keys of the details before that one, oldest first.
    pub earlier_keys: &'a [&'a str],
    /// Number of replies given before this one.
    pub turn: usize,
}

/// A reply with the thought behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// One or two short sentences: what the person may feel and what the supporter is about to do.
    pub thought: String,
    /// What is said.
    pub text: String,
}

/// Writes replies from fixed sentence patterns: an opener, the body that carries the strategy, sometimes a closer.
///
/// The patterns are few and their order is fixed, so that a model of a few million parameters can learn them all.
/// Everything is drawn from the given generator: equal seeds give equal replies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Supporter;

/// From this turn on the supporter stops closing with questions.
const LATE_TURN: usize = 6;

impl Supporter {
    /// Words the plan for this moment of the dialogue.
    pub fn reply(&self, plan: ReplyPlan, context: &ReplyContext<'_>, rng: &mut (impl Rng + ?Sized)) -> Reply {
        let bank = Bank::of(context.language);
        match plan.manner() {
            Manner::Good(strategy) => {
                let specific = plan.quality == Quality::Specific;
                let slots = Slots::new(bank, context.key.filter(|_| specific), context, rng);
                let quote = context.told.filter(|_| specific && slots.key.is_none()).map(|told| quoted(bank, told));
                good_reply(bank, bank.wording(strategy), &slots, quote.as_deref(), context, rng)
            }
            Manner::Poor(fault) => {
                let poor = bank.poor(fault);
                let slots = Slots::new(bank, context.key, context, rng);
                let thought = slots.fill(pick(poor.intents, rng));
                let text = slots.fill(pick_where(poor.texts, rng, |t| slots.can_fill(t)));
                Reply { thought, text }
            }
        }
    }

    /// The one sentence that carries a strategy of [`ReplyPlan::MAIN`], in words that would fit anyone.
    pub fn sentence(&self, strategy: Strategy, language: Language, rng: &mut (impl Rng + ?Sized)) -> Reply {
        let bodies = Bank::of(language).wording(strategy).bodies;
        let body = pick_where(bodies, rng, |b| !b.contains("{key}"));
        Reply { thought: String::new(), text: body.replace("{feeling}", pick(Bank::of(language).vague_feelings, rng)) }
    }

    /// Gives back what was `told`, and says nothing else.
    pub fn quote(&self, told: &str, language: Language, rng: &mut (impl Rng + ?Sized)) -> Reply {
        let bank = Bank::of(language);
        let text = pick(bank.quoting_openers, rng).replace("{quote}", &quoted(bank, told));
        Reply { thought: String::new(), text }
    }
}

fn good_reply(
    bank: &Bank,
    wording: &Wording,
    slots: &Slots,
    quote: Option<&str>,
    context: &ReplyContext<'_>,
    rng: &mut (impl Rng + ?Sized),
) -> Reply {
    let has_key = |t: &str| t.contains("{key}");
    let (opener, body) = match slots.key {
        // The key stands in one place only: twice would sound like an echo.
        Some(_) if rng.random_bool(0.75) => {
            let opener = if slots.earlier.is_some() && rng.random_bool(0.2) {
                pick(bank.paired_openers, rng)
            } else if rng.random_bool(0.3) {
                pick(wording.openers, rng)
            } else {
                pick(bank.keyed_openers, rng)
            };
            (opener, pick_where(wording.bodies, rng, |b| !has_key(b)))
        }
        Some(_) => (pick(bank.plain_openers, rng), pick_where(wording.bodies, rng, has_key)),
        None => {
            let openers = if quote.is_some() { bank.quoting_openers } else { bank.plain_openers };
            (pick(openers, rng), pick_where(wording.bodies, rng, |b| !has_key(b)))
        }
    };
    let opener = slots.fill(opener).replace("{quote}", quote.unwrap_or_default());
    let closer = pick_where(wording.closers, rng, |c| context.turn < LATE_TURN || !c.ends_with(['?', '？']));
    let wants_closer = rng.random_bool(0.55);

    let mut text = bank.join(&opener, &slots.fill(body));
    let longer = bank.join(&text, closer);
    if bank.length(&text) < bank.shortest || wants_closer && bank.length(&longer) <= bank.longest {
        text = longer;
    }

    let head = pick(if slots.key.is_some() { bank.keyed_thoughts } else { bank.plain_thoughts }, rng);
    Reply { thought: bank.join(&slots.fill(head), pick(wording.intents, rng)), text }
}

/// The first clause of what was told, or the first two when one says too little, as a sentence.
fn quoted(bank: &Bank, told: &str) -> String {
    let told = told.trim();
    let mut ends = told.match_indices(|c: char| CLAUSE_ENDS.contains(&c)).map(|(at, _)| at);
    let end = ends.find(|at| bank.length(&told[..*at]) >= bank.shortest_quote).unwrap_or(told.len());
    format!("{}{}", told[..end].trim_end_matches(|c: char| CLAUSE_ENDS.contains(&c)), bank.full_stop)
}

/// Where a clause ends.
const CLAUSE_ENDS: [char; 14] = [',', '.', ';', ':', '!', '?', '，', '。', '；', '：', '！', '？', '…', '—'];

/// What the slots of a pattern stand for in one reply.
struct Slots {
    key: Option<String>,
    earlier: Option<String>,
    feeling: &'static str,
}

impl Slots {
    fn new(bank: &Bank, key: Option<&str>, context: &ReplyContext<'_>, rng: &mut (impl Rng + ?Sized)) -> Slots {
        let noun = |key: &str, line: &str| match context.language {
            Language::Zh => key.to_string(),
            Language::En => with_determiner(key, line),
        };
        let earlier = (!context.earlier_keys.is_empty())
            .then(|| pick(context.earlier_keys, rng))
            .filter(|&earlier| Some(earlier) != key)
            .map(|earlier| noun(earlier, ""));
        let line = context.last_user_line.to_lowercase();
        let heard = bank.feelings.iter().find(|f| f.cues.iter().any(|cue| line.contains(cue)));
        let feeling = heard.map_or_else(|| pick(bank.vague_feelings, rng), |f| f.word);
        Slots { key: key.map(|key| noun(key, context.last_user_line)), earlier, feeling }
    }

    fn can_fill(&self, pattern: &str) -> bool {
        self.key.is_some() || !pattern.contains("{key}")
    }

    fn fill(&self, pattern: &str) -> String {
        pattern
            .replace("{feeling}", self.feeling)
            .replace("{earlier}", self.earlier.as_deref().unwrap_or_default())
            .replace("{key}", self.key.as_deref().unwrap_or_default())
    }
}

/// English words before which no article can stand.
const DETERMINERS: [&str; 26] = [
    "a", "all", "an", "another", "any", "both", "each", "every", "few", "half", "her", "his", "its", "most", "my",
    "no", "one", "our", "some", "that", "the", "their", "these", "this", "those", "your",
];

/// Turns an English key into a phrase that can follow a preposition: what the person calls "my boss" is "your boss",
/// and a bare noun gets "the". The key itself stays as it is.
fn with_determiner(key: &str, line: &str) -> String {
    let before = line.find(key).and_then(|at| line[..at].split_whitespace().next_back()).unwrap_or_default();
    let first = key.split_whitespace().next().unwrap_or_default().to_lowercase();
    if DETERMINERS.contains(&first.as_str()) || key.starts_with(|c: char| c.is_uppercase()) {
        return key.to_string();
    }
    let determiner = match before.to_lowercase().as_str() {
        "my" | "our" => "your",
        "his" => "his",
        "her" => "her",
        "their" => "their",
        _ => "the",
    };
    format!("{determiner} {key}")
}

fn pick<T: Copy>(items: &[T], rng: &mut (impl Rng + ?Sized)) -> T {
    items[rng.random_range(0..items.len())]
}

/// A random item among those that `fit`; each bank holds at least one (a test checks it).
fn pick_where<'a>(items: &[&'a str], rng: &mut (impl Rng + ?Sized), fit: impl Fn(&str) -> bool) -> &'a str {
    let fitting: Vec<&str> = items.iter().copied().filter(|item| fit(item)).collect();
    pick(&fitting, rng)
}
