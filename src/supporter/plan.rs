use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use crate::dialogue::Strategy;

/// How well a reply is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// Picks up the detail the person just told.
    Specific,
    /// The same strategy in words that would fit anyone.
    Template,
    /// Hurts or leaves alone: dismissal, blame, formulas, lectures and the like.
    Poor,
}

/// What a scripted reply is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReplyPlan {
    /// The main strategy. Strategies without wordings of their own are spoken like their nearest relative in
    /// [`ReplyPlan::MAIN`]; dismissal, blame and boilerplate are poor whatever the quality says.
    pub strategy: Strategy,
    /// How well it is done. A poor advice is a lecture, a poor question changes the subject, poor listening is curt and
    /// poor comfort or praise is over-cheerful.
    pub quality: Quality,
}

impl ReplyPlan {
    /// The strategies a good reply can have as its main one: one for each hidden intention, then the neutral ones.
    pub const MAIN: [Strategy; 10] = [
        Strategy::BothSides,
        Strategy::Advice,
        Strategy::AnalyseOthers,
        Strategy::GuideReflection,
        Strategy::PraiseActions,
        Strategy::WillingToListen,
        Strategy::NameFeeling,
        Strategy::Exonerate,
        Strategy::Comfort,
        Strategy::Question,
    ];

    /// The strategies poor replies are drawn from, one for each way to fail.
    pub const POOR: [Strategy; 7] = [
        Strategy::Dismissal,
        Strategy::Blame,
        Strategy::Boilerplate,
        Strategy::Advice,
        Strategy::Question,
        Strategy::WillingToListen,
        Strategy::Comfort,
    ];

    /// Resolves the plan to the wordings it is spoken with.
    pub(super) fn manner(self) -> Manner {
        match (self.quality, self.strategy) {
            (_, Strategy::Dismissal) => Manner::Poor(Fault::Dismissal),
            (_, Strategy::Blame) => Manner::Poor(Fault::Blame),
            (_, Strategy::Boilerplate) => Manner::Poor(Fault::Formula),
            (Quality::Poor, strategy) => Manner::Poor(match main_of(strategy) {
                Strategy::Question => Fault::OtherSubject,
                Strategy::WillingToListen | Strategy::NameFeeling => Fault::Curt,
                Strategy::Comfort | Strategy::PraiseActions | Strategy::Exonerate => Fault::Cheer,
                _ => Fault::Lecture,
            }),
            (_, strategy) => Manner::Good(main_of(strategy)),
        }
    }
}

/// A way to speak, as the phrase banks are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// One of [`ReplyPlan::MAIN`].
    Good(Strategy),
    Poor(Fault),
}

/// The ways a poor reply fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Dismissal,
    Blame,
    Formula,
    Lecture,
    OtherSubject,
    Curt,
    Cheer,
}

/// The strategy of [`ReplyPlan::MAIN`] whose wordings carry `strategy`.
fn main_of(strategy: Strategy) -> Strategy {
    match strategy {
        Strategy::ProblemAnalysis => Strategy::BothSides,
        Strategy::PraiseQualities | Strategy::PraiseThoughts => Strategy::PraiseActions,
        Strategy::HelpVent => Strategy::WillingToListen,
        Strategy::RestateProblem | Strategy::InferNeed | Strategy::AgreeingDisclosure | Strategy::OwnStory => {
            Strategy::NameFeeling
        }
        other => other,
    }
}

/// Draws a plan for the warm-start corpus: 30 % specific, 45 % template, 25 % poor, strategies uniform within each.
pub fn random_plan(rng: &mut (impl Rng + ?Sized)) -> ReplyPlan {
    let (quality, strategies) = match rng.random_range(0..100) {
        0..30 => (Quality::Specific, &ReplyPlan::MAIN[..]),
        30..75 => (Quality::Template, &ReplyPlan::MAIN[..]),
        _ => (Quality::Poor, &ReplyPlan::POOR[..]),
    };
    ReplyPlan { strategy: strategies[rng.random_range(0..strategies.len())], quality }
}
