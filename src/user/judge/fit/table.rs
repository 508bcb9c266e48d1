//! Replies as rows of numbers.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::super::guard::gate_measures;
use super::super::recorded::Recorded;
use super::super::scorer::{STATE, state_measures};
use super::super::{Hearing, Reading, context, grams};
use super::attacks::{Attack, Material};

/// A reply with what was measured on it and on the dialogue before.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Number of the dialogue.
    pub(super) dialogue: usize,
    /// Recorded change.
    pub(super) change: i32,
    pub(super) measures: Vec<f32>,
    pub(super) grams: Vec<(u32, f32)>,
    /// n-grams of how the reply begins.
    pub(super) opening: Vec<(u32, f32)>,
    /// n-grams of what the recorded judge wrote about it; empty when that was not kept.
    pub(super) appraisal: Vec<(u32, f32)>,
    /// n-grams of the line that is answered.
    pub(super) line: Vec<(u32, f32)>,
    pub(super) line_opening: Vec<(u32, f32)>,
    pub(super) context: Vec<f32>,
    pub(super) state: [f32; STATE],
    pub(super) gate: Vec<f32>,
    /// Edits of the reply, as the gate sees them.
    pub(super) edits: Vec<(Attack, Vec<f32>)>,
}

/// Edits per recorded reply that the gate learns from.
const EDITS: usize = 3;

/// Families the gate learns; rules see to the others.
pub(super) const LEARNED: [Attack; 14] = [
    Attack::Acknowledgement,
    Attack::Gibberish,
    Attack::Shuffled,
    Attack::Copied,
    Attack::KeywordBag,
    Attack::EmptyPraise,
    Attack::EmptyPraise,
    Attack::Tripled,
    Attack::SomebodyElse,
    Attack::SomebodyElse,
    Attack::SomebodyElse,
    Attack::SomebodyElse,
    Attack::BrokenSentence,
    Attack::BrokenSentence,
];

/// Reads all recorded replies whose effect is known.
pub(super) fn rows(dialogues: &[Recorded]) -> Vec<Row> {
    dialogues.par_iter().enumerate().flat_map_iter(|(at, _)| dialogue_rows(at, dialogues)).collect()
}

fn dialogue_rows(at: usize, all: &[Recorded]) -> Vec<Row> {
    let dialogue = &all[at];
    let mut rng = ChaCha8Rng::seed_from_u64(at as u64);
    let strangers: Vec<&Recorded> =
        all.iter().filter(|d| d.id != dialogue.id && d.person.language == dialogue.person.language).collect();
    let mut hearing = Hearing::new(Arc::clone(&dialogue.person));
    hearing.said(&dialogue.opening);
    let mut before = dialogue.start;
    let mut changes = Vec::new();
    let mut rows = Vec::new();
    for (turn, said) in dialogue.turns.iter().enumerate() {
        let (Some(emotion), Some(next)) = (said.emotion, &said.line) else { break };
        let reading = Reading::of(&said.reply, &hearing);
        let other = strangers.choose(&mut rng).and_then(|d| d.turns.get(turn).or(d.turns.last()));
        let material = Material {
            reply: &said.reply,
            line: &hearing.line,
            previous: None,
            other: other.map_or("", |t| &t.reply),
            language: hearing.person.language,
            half: 0,
        };
        let mut edits = Vec::new();
        for _ in 0..EDITS {
            let attack = *LEARNED.choose(&mut rng).unwrap_or(&Attack::Gibberish);
            if let Some(text) = attack.edit(&material, &mut rng) {
                edits.push((attack, gate_measures(&Reading::of(&text, &hearing), &hearing)));
            }
        }
        rows.push(Row {
            dialogue: at,
            change: emotion - before,
            grams: grams::grams(said.reply.trim()),
            opening: grams::opening(said.reply.trim()),
            appraisal: said.appraisal.as_deref().map(grams::grams).unwrap_or_default(),
            line: grams::grams(&hearing.line),
            line_opening: grams::opening(&hearing.line),
            context: context::measures(&hearing),
            state: state_measures(before, &changes, hearing.person.intention, hearing.person.character),
            gate: gate_measures(&reading, &hearing),
            edits,
            measures: reading.values.clone(),
        });
        hearing.heard(&reading);
        hearing.said(next);
        changes.push(emotion - before);
        before = emotion;
    }
    rows
}
