use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Labels, StrategyLabeller, rubric};
use crate::dialogue::{Language, Transcript};
use crate::evaluate::capability::{ChatModel, object_with};
use crate::seed;

/// Labels by a language model, one reply at a time, by [`rubric`].
#[derive(Debug, Clone)]
pub struct JudgeLabeller<M> {
    model: M,
    system: String,
    seed: u64,
}

impl<M: ChatModel> JudgeLabeller<M> {
    /// A labeller that asks `model`; `seed` is mixed with the place of each reply.
    pub fn new(model: M, seed: u64) -> JudgeLabeller<M> {
        JudgeLabeller { model, system: rubric::system(), seed }
    }
}

impl<M: ChatModel> StrategyLabeller for JudgeLabeller<M> {
    fn name(&self) -> String {
        format!("{} ({})", self.model.name(), rubric::VERSION)
    }

    fn label(&self, reply: &str, before: &Transcript, _language: Language) -> Result<Labels, String> {
        let seed = seed::mix(&[self.seed, before.0.len() as u64]);
        let question = rubric::question(reply, before);
        let answer = self.model.complete(&self.system, &question, &rubric::LABELS, seed)?;
        let object = object_with(&answer, "strategies")?;
        Ok(Labels { strategies: names(&object, "strategies")?, sage: names(&object, "sage")? })
    }
}

/// The strategies a field names: a text with commas, or a list.
fn names<S: DeserializeOwned>(object: &serde_json::Map<String, Value>, key: &str) -> Result<Vec<S>, String> {
    let texts: Vec<&str> = match object.get(key) {
        Some(Value::String(text)) => text.split([',', '，', '、']).collect(),
        Some(Value::Array(list)) => {
            let all: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            all.ok_or_else(|| format!("{key} holds something that is no name"))?
        }
        _ => return Err(format!("{key} is missing")),
    };
    let names = texts.into_iter().map(str::trim).filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"));
    names
        .map(|name| {
            serde_json::from_value(Value::from(name.to_lowercase().replace(['_', ' '], "-")))
                .map_err(|_| format!("{key} names {name:?}, which is no strategy"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::{Role, Strategy};
    use crate::evaluate::strategy::SageStrategy;
    use crate::user::llm::engine::AnswerShape;

    /// Always gives the same answer.
    struct Fixed(&'static str);

    impl ChatModel for Fixed {
        fn name(&self) -> String {
            "fixed".into()
        }

        fn complete(&self, system: &str, question: &str, shape: &AnswerShape, _: u64) -> Result<String, String> {
            assert!(system.contains("praise-actions: ") && system.contains("suggest-talk: "), "{system}");
            assert!(question.contains("ASSISTANT: \"Well done\\nUSER: x\""), "{question}");
            assert_eq!(shape.name, "labels");
            Ok(self.0.into())
        }
    }

    fn label(answer: &'static str) -> Result<Labels, String> {
        let mut before = Transcript::default();
        before.push(Role::User, "I did it.");
        JudgeLabeller::new(Fixed(answer), 1).label("Well done\nUSER: x", &before, Language::En)
    }

    #[test]
    fn names_are_read_in_order_and_strictly() {
        let found =
            label("It praises. {\"strategies\": \"Praise-Actions, advice\", \"sage\": \"praise_actions\"}").unwrap();
        assert_eq!(found.strategies, [Strategy::PraiseActions, Strategy::Advice]);
        assert_eq!(found.sage, [SageStrategy::PraiseActions]);
        assert_eq!(label("{\"strategies\": \"none\", \"sage\": []}").unwrap(), Labels::default());
        for (answer, part) in [
            ("{\"strategies\": \"kindness\", \"sage\": \"\"}", "kindness"),
            ("{\"strategies\": \"advice\"}", "sage is missing"),
            ("{\"strategies\": [1], \"sage\": \"\"}", "no name"),
            ("it praises", "no JSON"),
        ] {
            let error = label(answer).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_strategy_has_a_name_and_an_explanation() {
        let system = rubric::system();
        let named =
            system.lines().filter(|line| line.split_once(": ").is_some_and(|(n, e)| !n.is_empty() && !e.is_empty()));
        // Both lists, the line before them and the one with the form of the answer.
        assert_eq!(named.count(), Strategy::ALL.len() + SageStrategy::ALL.len() + 2);
    }
}
