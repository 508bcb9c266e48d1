use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::capability::{Capability, CapabilityScores, Coordinate, ESTIMATE, estimate, estimate_coordinate};
use super::diversity::Diversity;
use super::strategy::{Labels, SageStrategy, StrategyLabeller, StrategyTable, repetition_rate};
use crate::dialogue::{Role, Strategy, Transcript};
use crate::rollout::Episode;

/// What the replies of a set of dialogues do.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// Who labelled the strategies.
    pub labelled_by: String,
    /// Replies without a label, as the labeller failed; they count in no table.
    pub unlabelled: usize,
    /// Use of RLVER's and our strategies.
    pub strategies: StrategyTable<Strategy>,
    /// Use of SAGE's strategies.
    pub sage: StrategyTable<SageStrategy>,
    /// Mean similarity of adjacent replies' strategies (SSRR).
    pub repetition: Option<f64>,
    /// Variety, language and length of the replies.
    pub diversity: Diversity,
    /// Estimated capabilities.
    pub capabilities: Option<CapabilityScores>,
    /// Estimated Social Cognition Coordinate.
    pub coordinate: Option<Coordinate>,
}

impl Behaviour {
    /// Reads all replies of `episodes`, several dialogues at once.
    pub fn of<'a>(episodes: impl IntoIterator<Item = &'a Episode>, labeller: &dyn StrategyLabeller) -> Behaviour {
        let episodes: Vec<&Episode> = episodes.into_iter().collect();
        let (mut strategies, mut sage) = (StrategyTable::default(), StrategyTable::default());
        let mut unlabelled = 0;
        let mut dialogues: Vec<Vec<Labels>> = Vec::with_capacity(episodes.len());
        let read: Vec<Vec<Result<Labels, String>>> =
            episodes.par_iter().map(|episode| labels(episode, labeller).collect()).collect();
        for (episode, read) in episodes.iter().zip(read) {
            let mut labelled = Vec::new();
            for (turn, labels) in episode.turns.iter().zip(read) {
                let Ok(labels) = labels else {
                    unlabelled += 1;
                    continue;
                };
                let change = turn.user.as_ref().map(|u| i32::from(u.after.score()) - i32::from(u.before.score()));
                strategies.add(&labels.strategies, change);
                sage.add(&labels.sage, change);
                labelled.push(labels);
            }
            dialogues.push(labelled);
        }
        let sequences: Vec<Vec<Vec<Strategy>>> =
            dialogues.iter().map(|d| d.iter().map(|l| l.strategies.clone()).collect()).collect();
        let capabilities: Vec<CapabilityScores> = dialogues.iter().filter_map(|d| estimate(d)).collect();
        let replies = episodes.iter().flat_map(|e| e.turns.iter().map(|t| (t.reply.as_str(), e.language)));
        Behaviour {
            labelled_by: labeller.name(),
            unlabelled,
            strategies,
            sage,
            repetition: repetition_rate(sequences.iter().map(Vec::as_slice)),
            diversity: Diversity::of(replies),
            capabilities: CapabilityScores::mean(&capabilities),
            coordinate: estimate_coordinate(&dialogues),
        }
    }

    /// The `behaviour` part of a result file. Estimates are under `estimates`, with what they are.
    pub fn to_json(&self) -> Value {
        let capabilities = self.capabilities.map(|scores| {
            Capability::ALL.into_iter().map(|c| (c.name().to_string(), json!(scores.get(c)))).collect::<Map<_, _>>()
        });
        json!({
            "labelled_by": self.labelled_by,
            "replies": self.strategies.replies(),
            "unlabelled": self.unlabelled,
            "strategies": usage(&self.strategies),
            "sage_strategies": usage(&self.sage),
            "strategy_repetition": self.repetition,
            "variety": self.diversity,
            "estimates": { "by": ESTIMATE, "capabilities": capabilities, "social_cognition": self.coordinate },
        })
    }
}

/// The labels of each reply of an episode, in order; an error where the labeller failed.
pub fn labels<'a>(
    episode: &'a Episode,
    labeller: &'a dyn StrategyLabeller,
) -> impl Iterator<Item = Result<Labels, String>> + 'a {
    let mut before = Transcript::default();
    before.push(Role::User, episode.opening.clone());
    episode.turns.iter().map(move |turn| {
        let labels = labeller.label(&turn.reply, &before, episode.language);
        before.push(Role::Assistant, turn.reply.clone());
        if let Some(user) = &turn.user {
            before.push(Role::User, user.line.clone());
        }
        labels
    })
}

fn usage<S: Ord + Copy + Serialize>(table: &StrategyTable<S>) -> Value {
    let named = table.iter().filter_map(|(strategy, usage)| {
        let name = serde_json::to_value(strategy).ok()?.as_str()?.to_string();
        let share = table.frequency(strategy);
        Some((name, json!({ "replies": usage.replies, "frequency": share, "contribution": usage.contribution() })))
    });
    named.collect::<Map<_, _>>().into()
}
