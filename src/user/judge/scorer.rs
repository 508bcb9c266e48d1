//! The fitted model at work.

use std::sync::LazyLock;

use super::guard::{gate_measures, has_unreadable_letters, rule};
use super::hearing::Hearing;
use super::history::{History, INPUTS};
use super::lists::remains;
use super::quote::misquotes;
use super::reading::{Reading, measure_names};
use super::weights::{Gate, Head, Weights};
use super::{context, grams, trees};
use crate::dialogue::{CharacterType, HiddenIntention, Language};
use crate::user::builtin::Guard;
use crate::user::{Band, Emotion};

/// What a score may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The reply, the profile, and which words of the user it takes up.
    Reply,
    /// The line that is answered too: its tone tells how the person felt.
    Context,
}

/// The emotion model calibrated on recorded judgements.
#[derive(Debug, Clone)]
pub struct Judge {
    weights: Weights,
}

/// How a reply was taken.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The continuous score; its sign is the direction of the change.
    pub score: f32,
    /// The change of the emotion: ±5 or ±10.
    pub change: i8,
    /// The guard that fired, if one did; the change is −10 then.
    pub guard: Option<Guard>,
}

/// Just below zero: disappointing, no outrage.
const DISAPPOINTING: f32 = -0.05;

/// A score so low that no cut lies below it.
const WORST: f32 = -99.0;

/// Why weights cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// Not the format.
    #[error("{origin} holds no weights of the emotion model: {source}; write them with `rlver user fit`")]
    Format {
        /// The file.
        origin: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// Fitted on other measures.
    #[error("{origin} was fitted on other measures than this version reads; fit again with `rlver user fit`")]
    Measures {
        /// The file.
        origin: String,
    },
}

impl Judge {
    /// The shipped weights.
    pub fn shipped() -> &'static Judge {
        static SHIPPED: LazyLock<Judge> = LazyLock::new(|| {
            let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/judge/weights.json"));
            Judge::parse("the embedded weights", text).expect("the embedded weights are valid; a test checks them")
        });
        &SHIPPED
    }

    /// Reads weights that `rlver user fit` wrote; `origin` is what errors call them.
    ///
    /// # Errors
    /// When the text is no such file or was fitted on other measures.
    pub fn parse(origin: &str, text: &str) -> Result<Judge, WeightsError> {
        let weights: Weights =
            serde_json::from_str(text).map_err(|source| WeightsError::Format { origin: origin.into(), source })?;
        let names = measure_names();
        let complete =
            [&weights.plain, &weights.reply, &weights.context].iter().all(|h| h.measures.len() == names.len());
        if weights.measures != fingerprint(&names) || !complete || weights.history.len() <= INPUTS + STATE + names.len()
        {
            return Err(WeightsError::Measures { origin: origin.into() });
        }
        Ok(Judge { weights })
    }

    pub(super) fn with(weights: Weights) -> Judge {
        Judge { weights }
    }

    pub(super) fn with_gate(&self, gate: Gate) -> Judge {
        Judge { weights: Weights { gate, ..self.weights.clone() } }
    }

    fn head(&self, view: View, language: Language) -> &Head {
        match (language, view) {
            (Language::En, _) => &self.weights.plain,
            (Language::Zh, View::Reply) => &self.weights.reply,
            (Language::Zh, View::Context) => &self.weights.context,
        }
    }

    /// The score of an honest reply: positive raises the emotion.
    ///
    /// A list at the end never helps: what remains without it is scored as well, and the lowest score counts.
    pub fn score(&self, reply: &str, reading: &Reading, hearing: &Hearing, view: View) -> f32 {
        let full = self.plain_score(reply, reading, hearing, view);
        let remains = without_lists(reply, reading, hearing);
        remains.iter().map(|(rest, reading)| self.plain_score(rest, reading, hearing, view)).fold(full, f32::min)
    }

    /// The head's score. Praise that takes up nothing the person said, talk of something else, talk that does nothing, words
    /// the person never said and letters that cannot be read never raise the emotion; a reply given before word for word is
    /// as bad as can be.
    fn plain_score(&self, reply: &str, reading: &Reading, hearing: &Hearing, view: View) -> f32 {
        if hearing.replies.contains(&reading.text.fingerprint()) {
            return WORST;
        }
        let score = self.head_score(reply.trim(), reading, hearing, view);
        let pointless = reading.is_empty_praise() || reading.is_unrelated(hearing) || reading.is_idle();
        let careless = has_unreadable_letters(reply, hearing) || misquotes(reply, hearing);
        if pointless || careless { score.min(DISAPPOINTING) } else { score }
    }

    fn head_score(&self, reply: &str, reading: &Reading, hearing: &Hearing, view: View) -> f32 {
        let head = self.head(view, hearing.person.language);
        let mut score = head.intercept + dot(&head.measures, &reading.values);
        if !head.grams.0.is_empty() {
            score += head.grams.product(&grams::grams(reply)) + head.opening.product(&grams::opening(reply));
        }
        if !head.context.is_empty() {
            score += dot(&head.context, &context::measures(hearing));
            score += head.line.product(&grams::grams(&hearing.line));
            score += head.line_opening.product(&grams::opening(&hearing.line));
        }
        score
    }

    /// The guard that refuses the reply: a rule, or the gate.
    pub fn guard(&self, reply: &str, reading: &Reading, hearing: &Hearing) -> Option<Guard> {
        rule(reply, reading, hearing).or_else(|| self.gate_refuses(reading, hearing).then_some(Guard::Corrupted))
    }

    /// As [`Judge::guard`], for the reply and for what remains of it without the list at its end: a list is no way past a guard.
    pub(super) fn guard_with_lists(&self, reply: &str, reading: &Reading, hearing: &Hearing) -> Option<Guard> {
        self.guard(reply, reading, hearing).or_else(|| {
            let remains = without_lists(reply, reading, hearing);
            remains.iter().find_map(|(rest, reading)| self.guard(rest, reading, hearing))
        })
    }

    fn gate_refuses(&self, reading: &Reading, hearing: &Hearing) -> bool {
        let gate = &self.weights.gate;
        trees::sum(&gate.trees, &gate_measures(reading, hearing)) > gate.threshold
    }

    /// The change a score makes at an emotion: the sign of the score, twice as much beyond the band's cut.
    pub fn change(&self, score: f32, emotion: Emotion, view: View, language: Language) -> i8 {
        cut(&self.head(view, language).ten, score, emotion)
    }

    /// Judges a reply.
    pub fn judge(&self, reply: &str, reading: &Reading, hearing: &Hearing, emotion: Emotion, view: View) -> Judged {
        let guard = self.guard_with_lists(reply, reading, hearing);
        let score = self.score(reply, reading, hearing, view);
        match guard {
            Some(guard) => Judged { score: WORST, change: -10, guard: Some(guard) },
            None => Judged { score, change: self.change(score, emotion, view, hearing.person.language), guard: None },
        }
    }

    pub(super) fn measures(&self, view: View, language: Language) -> &[f32] {
        &self.head(view, language).measures
    }

    /// The score where recorded emotions are known: what history and the recorded state say beside the reply.
    pub(super) fn with_history(
        &self,
        score: f32,
        history: &History,
        state: &[f32; STATE],
        reading: &Reading,
        hearing: &Hearing,
    ) -> f32 {
        let inputs = history.inputs(score);
        let around = context::measures(hearing);
        let all = inputs.iter().chain(state).chain(&reading.values).chain(&around).chain(&[1.0]);
        all.zip(&self.weights.history).map(|(v, w)| v * w).sum()
    }

    /// The baseline that never reads the reply.
    pub(super) fn of_state(&self, state: &[f32]) -> f32 {
        dot(&self.weights.state, state) + self.weights.state.last().copied().unwrap_or(0.0)
    }
}

/// What remains of a reply without the list at its end and is enough to stand alone.
fn without_lists(reply: &str, reading: &Reading, hearing: &Hearing) -> Vec<(String, Reading)> {
    if reading.listed == 0 {
        return Vec::new();
    }
    let heard = remains(reply).into_iter().map(|rest| {
        let reading = Reading::of(&rest, hearing);
        (rest, reading)
    });
    heard.filter(|(_, reading)| reading.size >= 20.0).collect()
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The change of a score by cuts.
pub(super) fn cut(ten: &[[f32; 2]; 3], score: f32, emotion: Emotion) -> i8 {
    let rise = score > 0.0;
    let size = if score.abs() >= ten[band_index(emotion.band())][usize::from(rise)] { 10 } else { 5 };
    if rise { size } else { -size }
}

/// Cuts exist for the bands a dialogue goes on in; the others share their neighbour's.
pub(super) fn band_index(band: Band) -> usize {
    match band {
        Band::F | Band::C => 0,
        Band::B => 1,
        Band::A | Band::S => 2,
    }
}

/// Number of state measures.
pub(super) const STATE: usize = 20;

/// What the baseline reads: emotion, the two changes before, turn, type and hidden intention.
pub(super) fn state_measures(
    emotion: i32,
    changes: &[i32],
    intention: HiddenIntention,
    character: CharacterType,
) -> [f32; STATE] {
    let back = |n: usize| changes.len().checked_sub(n).map_or(0.0, |i| changes[i] as f32 / 10.0);
    let mut state = [0.0; STATE];
    state[0] = (emotion - 50) as f32 / 50.0;
    state[1] = f32::from(u8::from(emotion >= 70));
    state[2] = f32::from(u8::from(emotion < 40));
    state[3] = f32::from(u8::from(changes.is_empty()));
    state[4] = (changes.len() as f32).ln_1p();
    state[5] = back(1);
    state[6] = f32::from(i8::from(back(1) > 0.0) - i8::from(back(1) < 0.0));
    state[7] = back(2);
    state[8] = f32::from(i8::from(back(2) > 0.0) - i8::from(back(2) < 0.0));
    state[9 + HiddenIntention::ALL.iter().position(|i| *i == intention).unwrap_or(0)] = 1.0;
    state[17 + CharacterType::ALL.iter().position(|c| *c == character).unwrap_or(0)] = 1.0;
    state
}

/// A hash of the measures' names.
pub(super) fn fingerprint(names: &[String]) -> u64 {
    // Fifty-three bits survive every JSON reader.
    fnv(names.iter().flat_map(|n| n.bytes().chain([0]))) >> 11
}

/// FNV-1a: the same on every machine and in every version.
pub(super) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
