use super::{Labels, SageStrategy, StrategyLabeller};
use crate::dialogue::{Language, Strategy, Transcript};
use crate::user::builtin::recognise;

/// Labels by the built-in user's recogniser, one sentence at a time: cues, no understanding. Cheap, deterministic and
/// an estimate.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltinLabeller;

impl StrategyLabeller for BuiltinLabeller {
    fn name(&self) -> String {
        "built-in recogniser (estimate)".into()
    }

    fn label(&self, reply: &str, _before: &Transcript, language: Language) -> Result<Labels, String> {
        let mut labels = Labels::default();
        for sentence in sentences(reply) {
            let found = recognise(sentence, language);
            labels.sage.extend(sage(sentence, &found, language));
            labels.strategies.extend(found);
        }
        Ok(labels)
    }
}

/// The sentences of a text, each with its end mark.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let end = sentence_end(rest);
            let (sentence, tail) = rest.split_at(end);
            rest = tail;
            if sentence.chars().any(char::is_alphanumeric) {
                return Some(sentence.trim());
            }
        }
    })
}

fn sentence_end(text: &str) -> usize {
    let ends = |c: char, next: Option<char>| match c {
        '。' | '！' | '？' | '!' | '?' | '；' | ';' | '\n' | '…' => true,
        '.' => next.is_none_or(char::is_whitespace),
        _ => false,
    };
    let closes =
        |c: char| matches!(c, '。' | '！' | '？' | '!' | '?' | '…' | '.' | '"' | '”' | '」' | '’' | ')' | '）');
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if ends(c, chars.peek().map(|(_, next)| *next)) {
            let after = &text[at + c.len_utf8()..];
            let more: usize = after.chars().take_while(|c| closes(*c)).map(char::len_utf8).sum();
            return at + c.len_utf8() + more;
        }
    }
    text.len()
}

/// Words that decide within a group; lower case.
struct Cues {
    zh: &'static [&'static str],
    en: &'static [&'static str],
}

impl Cues {
    fn found(&self, sentence: &str, language: Language) -> bool {
        let words = if language == Language::Zh { self.zh } else { self.en };
        words.iter().any(|word| sentence.contains(word))
    }
}

/// What a question asks about, first match first.
const QUESTIONS: [(SageStrategy, Cues); 3] = [
    (
        SageStrategy::AskFeelings,
        Cues {
            zh: &["什么感受", "感觉怎么样", "什么心情", "心情怎么样", "难受吗", "什么滋味", "感受如何", "心里怎么样"],
            en: &[
                "how do you feel",
                "how did you feel",
                "how are you feeling",
                "what are you feeling",
                "how does that feel",
                "how did that feel",
                "feel about",
            ],
        },
    ),
    (
        SageStrategy::AskWishes,
        Cues {
            zh: &["希望", "想要", "想怎么", "打算", "期待", "需要我", "你想"],
            en: &[
                "would you like",
                "do you want",
                "what do you need",
                "do you need",
                "do you hope",
                "would help you",
                "are you planning",
                "do you plan",
            ],
        },
    ),
    (
        SageStrategy::AskViews,
        Cues {
            zh: &["你觉得", "你认为", "怎么看", "你怎么想"],
            en: &["do you think", "your view", "how do you see", "what do you make of", "your opinion"],
        },
    ),
];

/// What a piece of advice proposes, first match first.
const SUGGESTIONS: [(SageStrategy, Cues); 3] = [
    (
        SageStrategy::SuggestSupport,
        Cues {
            zh: &["咨询师", "心理咨询", "医生", "老师聊", "家人聊", "朋友聊", "求助", "找人帮", "专业"],
            en: &[
                "counsellor",
                "counselor",
                "therapist",
                "a doctor",
                "professional",
                "support group",
                "reach out to",
                "ask for help",
                "helpline",
            ],
        },
    ),
    (
        SageStrategy::SuggestTalk,
        Cues {
            zh: &[
                "跟他说",
                "跟她说",
                "和他谈",
                "和她谈",
                "跟他谈",
                "跟她谈",
                "聊一聊",
                "沟通",
                "谈一谈",
                "当面",
                "告诉他",
                "告诉她",
            ],
            en: &[
                "talk to",
                "talk with",
                "tell him",
                "tell her",
                "tell them",
                "sit down with",
                "have a conversation",
                "speak to",
                "speak with",
            ],
        },
    ),
    (
        SageStrategy::SuggestCare,
        Cues {
            zh: &["休息", "睡", "散步", "放松", "照顾好自己", "深呼吸", "喝点", "缓一缓", "歇"],
            en: &[
                "rest",
                "sleep",
                "a walk",
                "relax",
                "take care of yourself",
                "a breath",
                "breathe",
                "a break",
                "be kind to yourself",
            ],
        },
    ),
];

const UNDERSTANDABLE: Cues = Cues {
    zh: &["换谁", "谁都会", "可以理解", "很正常", "人之常情", "情有可原", "理所当然", "怎么可能不"],
    en: &[
        "anyone would",
        "understandable",
        "makes sense",
        "no wonder",
        "of course you",
        "only natural",
        "who would not",
        "who wouldn't",
    ],
};

fn sage(sentence: &str, found: &[Strategy], language: Language) -> Vec<SageStrategy> {
    let lower = sentence.to_lowercase();
    let first = |list: &[(SageStrategy, Cues)], otherwise| {
        list.iter().find(|(_, cues)| cues.found(&lower, language)).map_or(otherwise, |(strategy, _)| *strategy)
    };
    let mut labels: Vec<SageStrategy> = Vec::new();
    for strategy in found {
        labels.extend(match strategy {
            Strategy::Advice => Some(first(&SUGGESTIONS, SageStrategy::SuggestStep)),
            Strategy::Question => Some(first(&QUESTIONS, SageStrategy::AskFacts)),
            other => SageStrategy::from_strategy(*other),
        });
    }
    if UNDERSTANDABLE.found(&lower, language) {
        labels.push(SageStrategy::Validate);
    }
    labels.sort_unstable();
    labels.dedup();
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_keep_their_marks() {
        let split = |text| sentences(text).collect::<Vec<_>>();
        assert_eq!(split("他说晚了。“凭什么？”我不服"), ["他说晚了。", "“凭什么？”", "我不服"]);
        assert_eq!(split("It cost 3.50. Why?! …"), ["It cost 3.50.", "Why?!"]);
        assert_eq!(split(" \n…"), [""; 0]);
    }

    #[test]
    fn wording_decides_within_questions_and_suggestions() {
        let label = |reply, language| BuiltinLabeller.label(reply, &Transcript::default(), language).unwrap().sage;
        assert_eq!(label("How did you feel about that?", Language::En), [SageStrategy::AskFeelings]);
        assert_eq!(label("你觉得是谁的问题呢？", Language::Zh), [SageStrategy::AskViews]);
        let advice = label("You could talk to your manager about it tomorrow.", Language::En);
        assert!(advice.contains(&SageStrategy::SuggestTalk), "{advice:?}");
        assert!(label("换谁都会生气的。", Language::Zh).contains(&SageStrategy::Validate));
    }
}
