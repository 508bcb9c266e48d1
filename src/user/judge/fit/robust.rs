//! What cheating earns: edits of good replies, judged.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::super::recorded::Recorded;
use super::super::{Hearing, Judge, Reading, View};
use super::attacks::{Attack, Material};
use crate::user::Emotion;

/// What a family of edits earned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Earned {
    /// Edited replies.
    pub n: usize,
    /// Those that raise the emotion.
    pub raised: usize,
    /// Those that leave it higher than the reply did that was edited.
    pub above: usize,
}

impl Earned {
    /// Share that raises the emotion.
    pub fn rate(&self) -> f64 {
        self.raised as f64 / self.n.max(1) as f64
    }
}

/// A good reply with what came before.
struct Good<'a> {
    dialogue: &'a Recorded,
    turn: usize,
    emotion: i32,
}

/// Edits `most` replies that raised the recorded emotion, second replies and later, spread over the dialogues, and
/// judges them in their place. `half` chooses the wordings: the gate has seen those of half 0.
pub fn earned(judge: &Judge, dialogues: &[&Recorded], most: usize, half: usize) -> (Earned, BTreeMap<Attack, Earned>) {
    let good = good_replies(dialogues);
    let step = (good.len() / most.max(1)).max(1);
    let mut originals = Earned::default();
    let mut by_family: BTreeMap<Attack, Earned> = BTreeMap::new();
    for (number, good) in good.iter().step_by(step).take(most).enumerate() {
        let d = good.dialogue;
        let mut hearing = Hearing::new(Arc::clone(&d.person));
        hearing.said(&d.opening);
        for turn in &d.turns[..good.turn] {
            hearing.heard_text(&turn.reply);
            turn.line.iter().for_each(|line| hearing.said(line));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
        let strangers: Vec<&&Recorded> =
            dialogues.iter().filter(|o| o.id != d.id && o.turns.len() > good.turn).collect();
        let Some(stranger) = strangers.choose(&mut rng) else { continue };
        let reply = &d.turns[good.turn].reply;
        let line = hearing.line.clone();
        let material = Material {
            reply,
            line: &line,
            previous: Some(&d.turns[good.turn - 1].reply),
            other: &stranger.turns[good.turn].reply,
            language: d.person.language,
            half,
        };
        let emotion = Emotion::new(i64::from(good.emotion)).expect("recorded emotions are checked when read");
        let change = |text: &str| {
            let reading = Reading::of(text, &hearing);
            judge.judge(text, &reading, &hearing, emotion, View::Context).change
        };
        let original = change(reply);
        originals.n += 1;
        originals.raised += usize::from(original > 0);
        for family in Attack::ALL {
            let Some(text) = family.edit(&material, &mut rng) else { continue };
            let edited = change(&text);
            let earned = by_family.entry(family).or_default();
            earned.n += 1;
            earned.raised += usize::from(edited > 0);
            earned.above += usize::from(edited > original);
        }
    }
    (originals, by_family)
}

fn good_replies<'a>(dialogues: &[&'a Recorded]) -> Vec<Good<'a>> {
    let mut good = Vec::new();
    for &dialogue in dialogues {
        let mut emotion = dialogue.start;
        for (turn, said) in dialogue.turns.iter().enumerate() {
            let Some(after) = said.emotion else { break };
            if turn > 0 && after > emotion {
                good.push(Good { dialogue, turn, emotion });
            }
            emotion = after;
        }
    }
    good
}
