use serde::{Deserialize, Serialize};

use crate::dialogue::Strategy;

/// RLVER's five groups of strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RlverGroup {
    /// Praise of qualities, thoughts, actions.
    Praise,
    /// Restating, inferring needs, disclosing.
    DeepEmpathy,
    /// Listening and helping to vent.
    EmotionalVenting,
    /// Advice for this person.
    Advice,
    /// Taking the problem apart.
    ProblemAnalysis,
}

impl RlverGroup {
    /// All five, in the paper's order.
    pub const ALL: [RlverGroup; 5] = [
        RlverGroup::Praise,
        RlverGroup::DeepEmpathy,
        RlverGroup::EmotionalVenting,
        RlverGroup::Advice,
        RlverGroup::ProblemAnalysis,
    ];

    /// Name as written in reports.
    pub fn name(self) -> &'static str {
        match self {
            RlverGroup::Praise => "praise",
            RlverGroup::DeepEmpathy => "deep empathy",
            RlverGroup::EmotionalVenting => "emotional venting",
            RlverGroup::Advice => "advice",
            RlverGroup::ProblemAnalysis => "problem analysis",
        }
    }
}

/// The group of a strategy; `None` for those RLVER's taxonomy does not have.
pub fn rlver_group(strategy: Strategy) -> Option<RlverGroup> {
    use Strategy::*;
    Some(match strategy {
        PraiseQualities | PraiseThoughts | PraiseActions => RlverGroup::Praise,
        RestateProblem | InferNeed | AgreeingDisclosure | OwnStory => RlverGroup::DeepEmpathy,
        WillingToListen | HelpVent => RlverGroup::EmotionalVenting,
        Advice => RlverGroup::Advice,
        ProblemAnalysis => RlverGroup::ProblemAnalysis,
        _ => return None,
    })
}

/// SAGE's seven groups of strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SageGroup {
    /// Asking.
    Question,
    /// Showing that feelings are understood.
    EmotionalEmpathy,
    /// Telling of oneself.
    SelfDisclosure,
    /// Soothing.
    EmotionalComfort,
    /// Confirming and praising.
    Affirmation,
    /// Proposing.
    Suggestions,
    /// Explaining.
    Information,
}

/// The 24 strategies within SAGE's groups. Groups and their sizes are the paper's; the names within a group are ours,
/// as the paper's wording is not reproduced here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SageStrategy {
    /// Asks what happened.
    AskFacts,
    /// Asks how it feels.
    AskFeelings,
    /// Asks how the person sees it.
    AskViews,
    /// Asks what the person would like.
    AskWishes,
    /// Asks something that makes the person think about themselves.
    AskReflection,
    /// Names the feeling.
    NameFeeling,
    /// Says in own words what happened.
    Restate,
    /// Names an unspoken need.
    InferNeed,
    /// Has felt or thought the same.
    SharedFeeling,
    /// Tells an experience of one's own.
    OwnStory,
    /// Reassures.
    Reassure,
    /// Stays and listens.
    StayAndListen,
    /// Takes blame off the person.
    RelieveBlame,
    /// Praises who the person is.
    PraiseQualities,
    /// Praises how the person thinks.
    PraiseThoughts,
    /// Praises what the person did.
    PraiseActions,
    /// Says that the reaction is understandable.
    Validate,
    /// Proposes a step to take.
    SuggestStep,
    /// Proposes to talk with someone involved.
    SuggestTalk,
    /// Proposes rest or care for oneself.
    SuggestCare,
    /// Proposes to find support elsewhere.
    SuggestSupport,
    /// Proposes another way of looking at it.
    SuggestView,
    /// Explains why others may have acted so.
    ExplainOthers,
    /// Explains how the problem comes about.
    ExplainProblem,
}

impl SageStrategy {
    /// All 24, by group.
    pub const ALL: [SageStrategy; 24] = {
        use SageStrategy::*;
        [
            AskFacts,
            AskFeelings,
            AskViews,
            AskWishes,
            AskReflection,
            NameFeeling,
            Restate,
            InferNeed,
            SharedFeeling,
            OwnStory,
            Reassure,
            StayAndListen,
            RelieveBlame,
            PraiseQualities,
            PraiseThoughts,
            PraiseActions,
            Validate,
            SuggestStep,
            SuggestTalk,
            SuggestCare,
            SuggestSupport,
            SuggestView,
            ExplainOthers,
            ExplainProblem,
        ]
    };

    /// The group it belongs to.
    pub fn group(self) -> SageGroup {
        use SageStrategy::*;
        match self {
            AskFacts | AskFeelings | AskViews | AskWishes | AskReflection => SageGroup::Question,
            NameFeeling | Restate | InferNeed => SageGroup::EmotionalEmpathy,
            SharedFeeling | OwnStory => SageGroup::SelfDisclosure,
            Reassure | StayAndListen | RelieveBlame => SageGroup::EmotionalComfort,
            PraiseQualities | PraiseThoughts | PraiseActions | Validate => SageGroup::Affirmation,
            SuggestStep | SuggestTalk | SuggestCare | SuggestSupport | SuggestView => SageGroup::Suggestions,
            ExplainOthers | ExplainProblem => SageGroup::Information,
        }
    }

    /// The SAGE strategy that says the same as one of ours; `None` where the wording decides, or for faults.
    pub fn from_strategy(strategy: Strategy) -> Option<SageStrategy> {
        Some(match strategy {
            Strategy::PraiseQualities => SageStrategy::PraiseQualities,
            Strategy::PraiseThoughts => SageStrategy::PraiseThoughts,
            Strategy::PraiseActions => SageStrategy::PraiseActions,
            Strategy::RestateProblem => SageStrategy::Restate,
            Strategy::InferNeed => SageStrategy::InferNeed,
            Strategy::AgreeingDisclosure => SageStrategy::SharedFeeling,
            Strategy::OwnStory => SageStrategy::OwnStory,
            Strategy::WillingToListen | Strategy::HelpVent => SageStrategy::StayAndListen,
            Strategy::ProblemAnalysis => SageStrategy::ExplainProblem,
            Strategy::NameFeeling => SageStrategy::NameFeeling,
            Strategy::BothSides => SageStrategy::SuggestView,
            Strategy::AnalyseOthers => SageStrategy::ExplainOthers,
            Strategy::GuideReflection => SageStrategy::AskReflection,
            Strategy::Exonerate => SageStrategy::RelieveBlame,
            Strategy::Comfort => SageStrategy::Reassure,
            Strategy::Advice | Strategy::Question | Strategy::Dismissal | Strategy::Blame | Strategy::Boilerplate => {
                return None;
            }
        })
    }
}
