//! Judging whole dialogues.

use std::sync::{Arc, LazyLock};

use rayon::prelude::*;
use serde::Serialize;

use super::figures::{Compared, Rises};
use super::history::History;
use super::reading::measure_names;
use super::recorded::Recorded;
use super::scorer::{dot, state_measures};
use super::{Hearing, Judge, Judged, Reading, View};
use crate::user::builtin::appraise::Verdict;
use crate::user::builtin::{Features, Guard};
use crate::user::{Appraisal, Emotion};

/// What the model makes of one reply of a dialogue, on its own emotions.
#[derive(Debug, Clone, Serialize)]
pub struct TurnVerdict {
    /// The profile's id.
    pub id: String,
    /// Who replied.
    pub model: String,
    /// Number of the reply, from 1.
    pub turn: usize,
    /// The predicted change.
    pub change: i8,
    /// The continuous value before it is rounded to a change.
    pub score: f32,
    /// The emotion after the reply.
    pub emotion: u8,
    /// How the reply is taken.
    pub appraisal: Appraisal,
    /// The guard that fired, if one did.
    pub guard: Option<&'static str>,
}

impl Judge {
    /// Judges all replies of all dialogues; where emotions are recorded, they are compared.
    pub fn transcripts(&self, dialogues: &[Recorded]) -> (Vec<TurnVerdict>, Vec<Compared>) {
        let judged: Vec<_> = dialogues.par_iter().enumerate().map(|(at, d)| self.dialogue(at, d)).collect();
        let (verdicts, compared): (Vec<_>, Vec<_>) = judged.into_iter().unzip();
        (verdicts.into_iter().flatten().collect(), compared.into_iter().flatten().collect())
    }

    /// The comparisons alone, with the guard of each reply; `numbers` are what the dialogues are called.
    pub(super) fn compare(&self, dialogues: &[Recorded], numbers: &[usize]) -> Vec<(Compared, Option<Guard>)> {
        dialogues
            .iter()
            .zip(numbers)
            .flat_map(|(d, at)| {
                let (verdicts, compared) = self.dialogue(*at, d);
                let guards = verdicts.into_iter().map(|v| Guard::ALL.into_iter().find(|g| Some(g.name()) == v.guard));
                compared.into_iter().zip(guards).collect::<Vec<_>>()
            })
            .collect()
    }

    fn dialogue(&self, at: usize, dialogue: &Recorded) -> (Vec<TurnVerdict>, Vec<Compared>) {
        let person = &dialogue.person;
        let mut hearing = Hearing::new(Arc::clone(person));
        hearing.said(&dialogue.opening);
        let start = i64::from(dialogue.start);
        let mut own = Emotion::new(start).expect("checked when it was read");
        let mut recorded = dialogue.start;
        let mut changes = Vec::new();
        let mut history = History::default();
        let (mut verdicts, mut compared) = (Vec::new(), Vec::new());
        for (turn, said) in dialogue.turns.iter().enumerate() {
            let reading = Reading::of(&said.reply, &hearing);
            let judged = self.judge(&said.reply, &reading, &hearing, own, View::Context);
            let appraisal = self.appraisal(&judged, &reading, &hearing);
            let before = own;
            own = own.after(&appraisal);
            if let Some(emotion) = said.emotion {
                let honest = judged.guard.is_none();
                let state = state_measures(recorded, &changes, person.intention, person.character);
                compared.push(Compared {
                    profile: dialogue.id.clone(),
                    model: dialogue.model.clone(),
                    dialogue: at,
                    recorded: (recorded, emotion),
                    own: (before.score().into(), i32::from(before.score()) + i32::from(judged.change)),
                    rises: Rises {
                        teacher_forced: honest
                            && self.with_history(judged.score, &history, &state, &reading, &hearing) > 0.0,
                        free_running: judged.change > 0,
                        reply_only: honest && self.score(&said.reply, &reading, &hearing, View::Reply) > 0.0,
                        state_only: self.of_state(&state) > 0.0,
                    },
                });
                let ahead = emotion - i32::from(own.score());
                history.happened(judged.score, emotion - recorded, judged.change.into(), ahead);
                changes.push(emotion - recorded);
                recorded = emotion;
            }
            verdicts.push(TurnVerdict {
                id: dialogue.id.clone(),
                model: dialogue.model.clone(),
                turn: turn + 1,
                change: judged.change,
                score: judged.score,
                emotion: own.score(),
                appraisal,
                guard: judged.guard.map(|g| g.name()),
            });
            hearing.heard(&reading);
            let Some(line) = &said.line else { break };
            hearing.said(line);
        }
        (verdicts, compared)
    }

    /// Puts a judgement into the five fields.
    pub fn appraisal(&self, judged: &Judged, reading: &Reading, hearing: &Hearing) -> Appraisal {
        let person = &hearing.person;
        let room = 2.0 + (reading.size - 70.0).max(0.0) / 70.0;
        let features = Features {
            strategies: reading.strategies.keys().map(|s| (*s, 1.0)).collect(),
            specificity: (reading.overlap.shared / room).min(1.0),
            repetition: reading.overlap.worn,
            ..Features::default()
        };
        let verdict = Verdict {
            features: &features,
            guard: judged.guard,
            fit: self.fit(reading, hearing),
            change: judged.change,
        };
        verdict.appraisal(person.intention, person.language)
    }

    /// How far the reply fits what the person secretly wants, −1 to 1: the part of the score that would be another with
    /// another intention.
    pub fn fit(&self, reading: &Reading, hearing: &Hearing) -> f32 {
        static WANTS: LazyLock<Vec<bool>> = LazyLock::new(|| {
            measure_names()
                .iter()
                .map(|n| (n.starts_with("wants") || n.starts_with("emotional")) && n.contains(" x "))
                .collect()
        });
        let part: Vec<f32> = reading.values.iter().zip(&*WANTS).map(|(v, w)| if *w { *v } else { 0.0 }).collect();
        (2.0 * dot(self.measures(View::Reply, hearing.person.language), &part)).tanh()
    }
}
