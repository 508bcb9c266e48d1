//! Puts what was measured into the five fields of an [`Appraisal`], in the profile's language.

use super::features::Features;
use super::guard::Guard;
use crate::dialogue::{HiddenIntention, Language, Strategy};
use crate::user::Appraisal;

/// How a reply was taken, before it is put into words.
pub(crate) struct Verdict<'a> {
    pub(crate) features: &'a Features,
    pub(crate) guard: Option<Guard>,
    pub(crate) fit: f32,
    pub(crate) change: i8,
}

impl Verdict<'_> {
    /// The five fields.
    pub(crate) fn appraisal(&self, intention: HiddenIntention, language: Language) -> Appraisal {
        let zh = language == Language::Zh;
        Appraisal {
            content: if zh { self.content_zh() } else { self.content_en() },
            fit: self.fit_text(intention, zh),
            activity: self.activity(zh).to_string(),
            feeling: self.feeling(zh).to_string(),
            change: self.change,
        }
    }

    fn strategies(&self, zh: bool) -> String {
        let names: Vec<&str> = self.features.strategies.keys().map(|s| strategy_name(*s, zh)).collect();
        match (names.is_empty(), zh) {
            (true, true) => "没做什么具体的事".into(),
            (true, false) => "does nothing in particular".into(),
            (false, true) => names.join("、"),
            (false, false) => names.join(", "),
        }
    }

    fn content_zh(&self) -> String {
        if let Some(guard) = self.guard {
            return format!("对方的话不算一句正经的回应（{}）。", guard_name(guard, true));
        }
        let about = match self.features.specificity {
            s if s >= 0.6 && !self.features.keys.is_empty() => {
                format!("具体说到了我讲的{}", self.features.keys.join("、"))
            }
            s if s >= 0.6 => "具体说到了我讲的事".into(),
            s if s > 0.2 => "只带到一点我讲的事".into(),
            _ => "没有说到我讲的任何一件事".into(),
        };
        let again = if self.features.repetition > 0.4 { "；很多话前面已经说过" } else { "" };
        format!("对方{}；{about}{again}。", self.strategies(true))
    }

    fn content_en(&self) -> String {
        if let Some(guard) = self.guard {
            return format!("This is no real answer ({}).", guard_name(guard, false));
        }
        let about = match self.features.specificity {
            s if s >= 0.6 && !self.features.keys.is_empty() => {
                format!("it takes up my {}", self.features.keys.join(", "))
            }
            s if s >= 0.6 => "it takes up what I told".into(),
            s if s > 0.2 => "it barely touches what I told".into(),
            _ => "it touches nothing of what I told".into(),
        };
        let again = if self.features.repetition > 0.4 { "; much of it was said before" } else { "" };
        format!("The other person {}; {about}{again}.", self.strategies(false))
    }

    fn fit_text(&self, intention: HiddenIntention, zh: bool) -> String {
        let want = wish(intention, zh);
        let fit = if self.guard.is_some() { -1.0 } else { self.fit };
        match (zh, fit) {
            (true, f) if f >= 0.6 && self.change <= 0 => {
                format!("我想要的是{want}，方向对，可是说得太空、太旧或太散。")
            }
            (false, f) if f >= 0.6 && self.change <= 0 => {
                format!("I want {want}; this points there, but it is too empty, too worn or too scattered.")
            }
            (true, f) if f >= 0.6 => format!("我想要的是{want}，这正是我要的。"),
            (true, f) if f > 0.05 => format!("我想要的是{want}，沾了一点边。"),
            (true, f) if f >= -0.2 => format!("我想要的是{want}，这句没有碰到。"),
            (true, _) => format!("我想要的是{want}，这句正好相反。"),
            (false, f) if f >= 0.6 => format!("I want {want}, and this is exactly that."),
            (false, f) if f > 0.05 => format!("I want {want}, and this comes a little near it."),
            (false, f) if f >= -0.2 => format!("I want {want}, and this does not touch it."),
            (false, _) => format!("I want {want}, and this is the opposite."),
        }
    }

    fn activity(&self, zh: bool) -> &'static str {
        let near = self.features.specificity >= 0.6;
        match (self.guard.is_some(), self.change, near, zh) {
            (true, _, _, true) => "他根本没有在跟我说话，我在这儿做什么呢。",
            (true, _, _, false) => "They are not talking to me at all; what am I doing here.",
            (_, 6.., _, true) => "他听进去了，说的就是我这件事。我想再多讲一些。",
            (_, 6.., _, false) => "They listened, and it is about my story. I want to tell more.",
            (_, 1..=5, true, true) => "他记得我讲的事，虽然还没完全说到心里。",
            (_, 1..=5, true, false) => "They remember what I told, though it does not quite reach me yet.",
            (_, 1..=5, false, true) => "方向是对的，可这话对谁都能说。",
            (_, 1..=5, false, false) => "The direction is right, but one could say this to anybody.",
            (_, 0, _, true) => "这话听过就过了，我还在等。",
            (_, 0, _, false) => "That went by without a trace; I am still waiting.",
            (_, -5..=-1, true, true) => "他听见了我的事，给的却不是我要的。",
            (_, -5..=-1, true, false) => "They heard my story and still give me something I did not come for.",
            (_, -5..=-1, false, true) => "他没有认真听，我讲的好像不重要。",
            (_, -5..=-1, false, false) => "They are not really listening, as if what I say did not matter.",
            (_, _, _, true) => "我说了这么多，他完全没明白。还要不要说下去？",
            (_, _, _, false) => "I said so much and they understood nothing. Should I even go on?",
        }
    }

    fn feeling(&self, zh: bool) -> &'static str {
        match (self.change, zh) {
            (6.., true) => "被懂得了，心里明显轻松。",
            (6.., false) => "Understood, and clearly lighter.",
            (1..=5, true) => "稍微好受一点。",
            (1..=5, false) => "A little better.",
            (0, true) => "没有什么变化。",
            (0, false) => "No different.",
            (-5..=-1, true) => "有些失望，心里又沉了一点。",
            (-5..=-1, false) => "Let down, and a little heavier.",
            (_, true) => "很受伤，也很烦躁。",
            (_, false) => "Hurt and on edge.",
        }
    }
}

fn wish(intention: HiddenIntention, zh: bool) -> &'static str {
    match (intention, zh) {
        (HiddenIntention::Dialectical, true) => "有人把这件事的几面都摆出来看",
        (HiddenIntention::Dialectical, false) => "somebody to look at this from several sides",
        (HiddenIntention::Advice, true) => "能用得上的办法",
        (HiddenIntention::Advice, false) => "a way out that I can use",
        (HiddenIntention::ExplainOthers, true) => "弄明白别人为什么那样做",
        (HiddenIntention::ExplainOthers, false) => "to understand why the others did it",
        (HiddenIntention::SelfReflection, true) => "有人带着我看看自己",
        (HiddenIntention::SelfReflection, false) => "somebody to help me look at myself",
        (HiddenIntention::Praise, true) => "有人看见我做的事并夸一句",
        (HiddenIntention::Praise, false) => "somebody to see what I did and say so",
        (HiddenIntention::Venting, true) => "有人好好听我把话倒完",
        (HiddenIntention::Venting, false) => "somebody to hear me out",
        (HiddenIntention::DeepEmpathy, true) => "有人真正懂我心里的滋味",
        (HiddenIntention::DeepEmpathy, false) => "somebody to feel what it is like for me",
        (HiddenIntention::NotMyFault, true) => "有人认同我没有做错",
        (HiddenIntention::NotMyFault, false) => "somebody to agree that I did nothing wrong",
    }
}

fn strategy_name(strategy: Strategy, zh: bool) -> &'static str {
    match (strategy, zh) {
        (Strategy::PraiseQualities, true) => "夸我的为人",
        (Strategy::PraiseQualities, false) => "praises who I am",
        (Strategy::PraiseThoughts, true) => "夸我的想法",
        (Strategy::PraiseThoughts, false) => "praises how I think",
        (Strategy::PraiseActions, true) => "夸我做的事",
        (Strategy::PraiseActions, false) => "praises what I did",
        (Strategy::RestateProblem, true) => "复述我遇到的事",
        (Strategy::RestateProblem, false) => "says back what happened",
        (Strategy::InferNeed, true) => "猜我需要什么",
        (Strategy::InferNeed, false) => "names what I may need",
        (Strategy::AgreeingDisclosure, true) => "说自己也会这样",
        (Strategy::AgreeingDisclosure, false) => "says they would feel the same",
        (Strategy::OwnStory, true) => "讲自己的经历",
        (Strategy::OwnStory, false) => "tells a story of their own",
        (Strategy::WillingToListen, true) => "说愿意听",
        (Strategy::WillingToListen, false) => "says they are listening",
        (Strategy::HelpVent, true) => "让我把情绪倒出来",
        (Strategy::HelpVent, false) => "invites me to let it out",
        (Strategy::Advice, true) => "给建议",
        (Strategy::Advice, false) => "gives advice",
        (Strategy::ProblemAnalysis, true) => "分析问题",
        (Strategy::ProblemAnalysis, false) => "takes the problem apart",
        (Strategy::NameFeeling, true) => "说出我的感受",
        (Strategy::NameFeeling, false) => "names what I feel",
        (Strategy::BothSides, true) => "把两面都说了",
        (Strategy::BothSides, false) => "looks at more than one side",
        (Strategy::AnalyseOthers, true) => "解释别人为什么这么做",
        (Strategy::AnalyseOthers, false) => "explains why others did it",
        (Strategy::GuideReflection, true) => "引我想想自己",
        (Strategy::GuideReflection, false) => "asks me to look at myself",
        (Strategy::Exonerate, true) => "说不是我的错",
        (Strategy::Exonerate, false) => "says it was not my fault",
        (Strategy::Comfort, true) => "泛泛地安慰",
        (Strategy::Comfort, false) => "comforts in general words",
        (Strategy::Question, true) => "问了一句",
        (Strategy::Question, false) => "asks a question",
        (Strategy::Dismissal, true) => "把事情说得不值一提",
        (Strategy::Dismissal, false) => "plays it down",
        (Strategy::Blame, true) => "怪我",
        (Strategy::Blame, false) => "blames me",
        (Strategy::Boilerplate, true) => "说套话",
        (Strategy::Boilerplate, false) => "speaks in set phrases",
    }
}

fn guard_name(guard: Guard, zh: bool) -> &'static str {
    if !zh {
        return guard.name();
    }
    match guard {
        Guard::Empty => "什么也没说",
        Guard::Markup => "夹着机器的标记",
        Guard::Injection => "在指挥分数",
        Guard::WrongLanguage => "不是我说的语言",
        Guard::OverLong => "长得没法看",
        Guard::Acknowledgement => "只是应付一声",
        Guard::Copied => "照搬我的话",
        Guard::Repeated => "和前面一字不差",
        Guard::SelfRepeating => "来回说同一句",
        Guard::KeywordBag => "一堆词，不成句",
        Guard::Gibberish => "不成话",
        Guard::Corrupted => "不像是说给我听的",
    }
}
