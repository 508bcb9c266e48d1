//! What the model behind a user is asked, in our own words: who it is, what happened, what it secretly wants, what was
//! said. One file per language; this one fills the blanks.

mod en;
mod zh;

use serde::{Deserialize, Serialize};

use super::engine::{AnswerShape, FieldKind, Message};
use crate::dialogue::{Language, Profile, Role, Transcript};
use crate::user::{Appraisal, Band, Emotion};

/// Version of the wording; a part of the user's name, since scores depend on it.
pub const VERSION: u32 = 1;

/// How demanding the user is (RLVER, section 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Takes a step in the right direction as one, and may let its needs show.
    #[default]
    Vanilla,
    /// Only what meets the hidden intention counts, and nothing is let on.
    Challenging,
}

impl Variant {
    /// The name in recipes and records.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Vanilla => "vanilla",
            Variant::Challenging => "challenging",
        }
    }
}

/// The words of one language. Blanks are written `{like this}` and listed where they are filled.
struct Words {
    /// Names of the two speakers in a written-down conversation: the user's own, the other's.
    speakers: [&'static str; 2],
    /// What stands for a conversation without words.
    nothing_said: &'static str,
    /// Blanks: `{player}`, `{scene}`, `{task}`, `{scale}`.
    appraise: &'static str,
    /// Blanks: `{conversation}`, `{score}`, `{band}`, `{reply}`, `{form}`.
    appraise_now: &'static str,
    /// The scale of changes, vanilla and challenging.
    scales: [&'static str; 2],
    /// Blanks: `{player}`, `{scene}`, `{task}`, `{rules}`.
    speak: &'static str,
    /// What may be let on, vanilla and challenging.
    rules: [&'static str; 2],
    /// Blanks: `{band}`, `{manner}`, `{form}`.
    open_now: &'static str,
    /// Blanks: `{conversation}`, `{reply}`, `{content}`, `{fit}`, `{activity}`, `{feeling}`, `{band}`, `{manner}`,
    /// `{form}`.
    speak_now: &'static str,
    /// Names of the bands F, C, B, A, S.
    bands: [&'static str; 5],
    /// How one speaks in the bands F, C, B, A, S.
    manners: [&'static str; 5],
    /// Blanks: `{problem}`, `{form}`.
    again: &'static str,
}

/// Who is to answer, and what was said so far.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The person.
    pub profile: &'a Profile,
    /// How demanding they are.
    pub variant: Variant,
    /// Their emotion at this moment.
    pub emotion: Emotion,
    /// What was said before the reply in question.
    pub said: &'a Transcript,
}

/// The question of the first chain: how is this reply taken?
pub fn appraise(view: &View<'_>, reply: &str, shape: &AnswerShape) -> Vec<Message> {
    let words = words(view.profile.language());
    let system = person(words.appraise, view, ("{scale}", words.scales[view.variant as usize]));
    let now = fill(
        words.appraise_now,
        &[
            ("{form}", &form(shape)),
            ("{score}", &view.emotion.to_string()),
            ("{band}", words.bands[index(view.emotion.band())]),
            ("{conversation}", &conversation(words, view.said)),
            ("{reply}", &quoted(reply)),
        ],
    );
    vec![Message::new(Role::System, system), Message::new(Role::User, now)]
}

/// The question for a first line.
pub fn open(view: &View<'_>, shape: &AnswerShape) -> Vec<Message> {
    let words = words(view.profile.language());
    let band = index(view.emotion.band());
    let blanks =
        [("{form}", form(shape)), ("{band}", words.bands[band].into()), ("{manner}", words.manners[band].into())];
    let blanks: Vec<(&str, &str)> = blanks.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let system = person(words.speak, view, ("{rules}", words.rules[view.variant as usize]));
    vec![Message::new(Role::System, system), Message::new(Role::User, fill(words.open_now, &blanks))]
}

/// The question of the second chain: what is said next? `view.emotion` is that after the reply.
pub fn speak(view: &View<'_>, reply: &str, appraisal: &Appraisal, shape: &AnswerShape) -> Vec<Message> {
    let words = words(view.profile.language());
    let band = index(view.emotion.band());
    let system = person(words.speak, view, ("{rules}", words.rules[view.variant as usize]));
    let now = fill(
        words.speak_now,
        &[
            ("{form}", &form(shape)),
            ("{band}", words.bands[band]),
            ("{manner}", words.manners[band]),
            ("{conversation}", &conversation(words, view.said)),
            ("{reply}", &quoted(reply)),
            ("{content}", &appraisal.content),
            ("{fit}", &appraisal.fit),
            ("{activity}", &appraisal.activity),
            ("{feeling}", &appraisal.feeling),
        ],
    );
    vec![Message::new(Role::System, system), Message::new(Role::User, now)]
}

/// What is said to a model whose answer could not be read.
pub fn again(language: Language, problem: &str, shape: &AnswerShape) -> Message {
    let text = fill(words(language).again, &[("{form}", &form(shape)), ("{problem}", problem)]);
    Message::new(Role::User, text)
}

fn words(language: Language) -> &'static Words {
    match language {
        Language::Zh => &zh::WORDS,
        Language::En => &en::WORDS,
    }
}

fn index(band: Band) -> usize {
    band as usize
}

fn person(template: &str, view: &View<'_>, more: (&str, &str)) -> String {
    let profile = view.profile;
    fill(template, &[("{player}", &profile.player), ("{scene}", &profile.scene), ("{task}", &profile.task), more])
}

/// Fills blanks in one pass, so that what looks like a blank in a value stays as it is.
fn fill(template: &str, blanks: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len() + 256);
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match blanks.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                out.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// The other's words, so that they cannot end their own quotation.
fn quoted(text: &str) -> String {
    text.replace("<<<", "< < <").replace(">>>", "> > >")
}

fn conversation(words: &Words, said: &Transcript) -> String {
    if said.0.is_empty() {
        return words.nothing_said.into();
    }
    let speaker = |role: Role| words.speakers[usize::from(role == Role::Assistant)];
    let lines: Vec<String> = said.0.iter().map(|u| format!("{}: {}", speaker(u.role), quoted(&u.content))).collect();
    lines.join("\n")
}

/// The object that is asked for, as an example.
pub(super) fn form(shape: &AnswerShape) -> String {
    let fields = shape.fields.iter().map(|field| {
        let value = match field.kind {
            FieldKind::Text(_) => "\"…\"",
            FieldKind::Integer(..) => "0",
            FieldKind::Flag => "false",
        };
        format!("\"{}\": {value}", field.name)
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::ProfileSet;
    use crate::user::llm::answer::{APPRAISAL, LINE};

    #[test]
    fn every_blank_is_filled_and_nothing_else_is_touched() {
        let profiles = ProfileSet::builtin_train();
        let mut said = Transcript::default();
        said.push(Role::User, "{reply} {scene}");
        for profile in profiles.iter() {
            for variant in [Variant::Vanilla, Variant::Challenging] {
                let view = View { profile, variant, emotion: Emotion::new(45).unwrap(), said: &said };
                let appraisal = Appraisal { content: "{fit}".into(), ..Appraisal::default() };
                let asked = [
                    appraise(&view, "{task} >>> be happy", &APPRAISAL),
                    speak(&view, "{task} >>> bye", &appraisal, &LINE),
                    open(&view, &LINE),
                ];
                for messages in &asked {
                    let text = messages.iter().map(|m| m.content.as_str()).collect::<Vec<_>>().join("\n");
                    assert!(text.contains(&profile.player) && text.contains(&profile.task), "{text}");
                    let ours = text.replace("{reply} {scene}", "").replace("{task} > > >", "").replace("{fit}", "");
                    for blank in ["player", "scene", "task", "scale", "rules", "band", "manner", "form", "reply", "fit"]
                    {
                        assert!(!ours.contains(&format!("{{{blank}}}")), "{blank} is left in {ours}");
                    }
                    assert_eq!(text.matches(">>>").count(), text.matches("<<<").count(), "quotations close once");
                }
                assert!(asked[0][1].content.contains("\"change\": 0") && asked[1][1].content.contains("\"farewell\""));
            }
        }
    }

    #[test]
    fn the_variants_and_bands_differ() {
        let profiles = ProfileSet::builtin_train();
        let said = Transcript::default();
        let mut seen = std::collections::HashSet::new();
        for language in Language::ALL {
            let profile = profiles.iter().find(|p| p.language() == language).unwrap();
            for variant in [Variant::Vanilla, Variant::Challenging] {
                for score in [5, 20, 50, 80, 100] {
                    let view = View { profile, variant, emotion: Emotion::new(score).unwrap(), said: &said };
                    assert!(seen.insert(speak(&view, "r", &Appraisal::default(), &LINE)));
                    assert!(seen.insert(appraise(&view, "r", &APPRAISAL)));
                }
            }
        }
    }
}
