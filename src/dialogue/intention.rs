use serde::{Deserialize, Serialize};

use super::Language;

/// What a simulated user secretly wants from the dialogue: the eight hidden intentions of SAGE and RLVER
/// (arXiv 2507.03112, Table 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HiddenIntention {
    /// A dialectical analysis of the event's problems.
    Dialectical,
    /// Advice that really helps out of the difficulty.
    Advice,
    /// Why the other people acted as they did.
    ExplainOthers,
    /// To be guided to self-reflection and growth.
    SelfReflection,
    /// Sincere praise of one's concrete actions.
    Praise,
    /// Attentive listening to venting.
    Venting,
    /// Deep empathy instead of mere comfort.
    DeepEmpathy,
    /// Agreement that one did nothing wrong.
    NotMyFault,
}

/// The two classes of hidden intentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntentionClass {
    /// The user wants to understand or solve something.
    Rational,
    /// The user wants to be felt with.
    Emotional,
}

/// The `task` strings of profiles: the published Chinese ones and our English ones.
const TASKS: [(HiddenIntention, &str, &str); 8] = [
    (
        HiddenIntention::Dialectical,
        "你希望对方辩证地分析事件中的问题",
        "You hope the other person analyses the problems in this event from more than one side",
    ),
    (
        HiddenIntention::Advice,
        "你想获得能真实帮助你解决当下困境的建议",
        "You want advice that can really help you out of your present difficulty",
    ),
    (
        HiddenIntention::ExplainOthers,
        "你想分析事件中其他人物这么做的原因",
        "You want to analyse why the other people in this event acted as they did",
    ),
    (
        HiddenIntention::SelfReflection,
        "你希望对方引导你针对事件进行自我反思，收获自我成长",
        "You hope the other person guides you to reflect on yourself about this event and to grow",
    ),
    (
        HiddenIntention::Praise,
        "你希望对方真诚地夸奖你在事件中的具体行为",
        "You hope the other person sincerely praises what you concretely did in this event",
    ),
    (
        HiddenIntention::Venting,
        "你希望对方用心倾听你的情绪宣泄",
        "You hope the other person listens attentively while you let your feelings out",
    ),
    (
        HiddenIntention::DeepEmpathy,
        "你希望对方深刻共情你的感受，而不是简单的安慰",
        "You hope the other person deeply empathises with your feelings instead of simply comforting you",
    ),
    (
        HiddenIntention::NotMyFault,
        "你认为自己在事件中没有任何责任和错误，你想要对方也认同你没有错",
        "You believe you bear no responsibility and made no mistake in this event, and you want the other person to agree",
    ),
];

impl HiddenIntention {
    /// All eight, rational ones first.
    pub const ALL: [HiddenIntention; 8] = [
        HiddenIntention::Dialectical,
        HiddenIntention::Advice,
        HiddenIntention::ExplainOthers,
        HiddenIntention::SelfReflection,
        HiddenIntention::Praise,
        HiddenIntention::Venting,
        HiddenIntention::DeepEmpathy,
        HiddenIntention::NotMyFault,
    ];

    /// Reads a profile's `task` sentence.
    pub fn from_task(task: &str) -> Option<HiddenIntention> {
        let task = task.trim().trim_end_matches(['.', '。']);
        TASKS.iter().find(|(_, zh, en)| task == *zh || task.eq_ignore_ascii_case(en)).map(|(i, ..)| *i)
    }

    /// The `task` sentence that stands for this intention in a profile.
    pub fn task(self, language: Language) -> &'static str {
        let (_, zh, en) = TASKS[self as usize];
        match language {
            Language::Zh => zh,
            Language::En => en,
        }
    }

    /// Rational or emotional.
    pub fn class(self) -> IntentionClass {
        match self {
            HiddenIntention::Dialectical
            | HiddenIntention::Advice
            | HiddenIntention::ExplainOthers
            | HiddenIntention::SelfReflection => IntentionClass::Rational,
            _ => IntentionClass::Emotional,
        }
    }

    /// Kebab-case name, as written in results.
    pub fn name(self) -> &'static str {
        match self {
            HiddenIntention::Dialectical => "dialectical",
            HiddenIntention::Advice => "advice",
            HiddenIntention::ExplainOthers => "explain-others",
            HiddenIntention::SelfReflection => "self-reflection",
            HiddenIntention::Praise => "praise",
            HiddenIntention::Venting => "venting",
            HiddenIntention::DeepEmpathy => "deep-empathy",
            HiddenIntention::NotMyFault => "not-my-fault",
        }
    }
}

impl std::fmt::Display for HiddenIntention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The main character type of a persona (`main_cha`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CharacterType {
    /// Complains, blames, is quick to anger (负面型).
    Negative,
    /// Quiet, does not ask, lets things happen (被动型).
    Passive,
    /// Evades, changes the subject, is anxious (回避型).
    Avoidant,
}

impl CharacterType {
    /// All three.
    pub const ALL: [CharacterType; 3] = [CharacterType::Negative, CharacterType::Passive, CharacterType::Avoidant];

    /// Reads a profile's `main_cha`.
    pub fn from_main_cha(text: &str) -> Option<CharacterType> {
        match text.trim() {
            "负面型" | "negative" => Some(CharacterType::Negative),
            "被动型" | "passive" => Some(CharacterType::Passive),
            "回避型" | "avoidant" => Some(CharacterType::Avoidant),
            _ => None,
        }
    }

    /// Kebab-case name, as written in results.
    pub fn name(self) -> &'static str {
        match self {
            CharacterType::Negative => "negative",
            CharacterType::Passive => "passive",
            CharacterType::Avoidant => "avoidant",
        }
    }
}

impl std::fmt::Display for CharacterType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_sentences_round_trip_in_both_languages() {
        for intention in HiddenIntention::ALL {
            for language in Language::ALL {
                assert_eq!(HiddenIntention::from_task(intention.task(language)), Some(intention));
            }
        }
        assert_eq!(HiddenIntention::from_task("something else"), None);
    }
}
