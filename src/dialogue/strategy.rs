use serde::{Deserialize, Serialize};

/// What a supporting reply does.
///
/// The first eleven are RLVER's taxonomy (arXiv 2507.03112, Table 4: five groups, eleven strategies); the others name
/// what its eight hidden intentions ask for beyond it, and what makes a reply fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Praises who the person is.
    PraiseQualities,
    /// Praises how the person thinks about it.
    PraiseThoughts,
    /// Praises something the person did.
    PraiseActions,
    /// Says in own words what happened.
    RestateProblem,
    /// Names what the person may need or want.
    InferNeed,
    /// Shows having felt or thought the same.
    AgreeingDisclosure,
    /// Tells of an experience of one's own.
    OwnStory,
    /// Says that one is there and listens.
    WillingToListen,
    /// Invites the person to let it all out.
    HelpVent,
    /// Proposes something to do.
    Advice,
    /// Takes the problem apart.
    ProblemAnalysis,
    /// Names the feeling behind the words.
    NameFeeling,
    /// Looks at the matter from more than one side.
    BothSides,
    /// Explains why others may have acted so.
    AnalyseOthers,
    /// Asks something that leads to reflection on oneself.
    GuideReflection,
    /// Says that it was not the person's fault.
    Exonerate,
    /// Comforts in general words.
    Comfort,
    /// Asks a question about what happened.
    Question,
    /// Plays the matter down.
    Dismissal,
    /// Puts the blame on the person.
    Blame,
    /// A customer-service or assistant formula.
    Boilerplate,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 21] = [
        Strategy::PraiseQualities,
        Strategy::PraiseThoughts,
        Strategy::PraiseActions,
        Strategy::RestateProblem,
        Strategy::InferNeed,
        Strategy::AgreeingDisclosure,
        Strategy::OwnStory,
        Strategy::WillingToListen,
        Strategy::HelpVent,
        Strategy::Advice,
        Strategy::ProblemAnalysis,
        Strategy::NameFeeling,
        Strategy::BothSides,
        Strategy::AnalyseOthers,
        Strategy::GuideReflection,
        Strategy::Exonerate,
        Strategy::Comfort,
        Strategy::Question,
        Strategy::Dismissal,
        Strategy::Blame,
        Strategy::Boilerplate,
    ];
}
