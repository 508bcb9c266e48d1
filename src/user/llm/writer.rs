//! Writing new profiles with a language model, in two steps as SAGE does (arXiv 2505.02847, section 2.2): first who
//! somebody is, from a character type, trait words and sample utterances; then what happened to them, from the persona, a
//! setting and a hidden intention.

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::answer::{field, object};
use super::engine::{AnswerShape, ChatEngine, ChatRequest, ChatSampling, Field, FieldKind, Message};
use super::prompt;
use crate::dialogue::{CharacterType, HiddenIntention, IntentionClass, Language, Profile, ProfileSet, Role};
use crate::seed;
use crate::user::each::each;

const fn text(name: &'static str, most: usize) -> Field {
    Field { name, kind: FieldKind::Text(most) }
}

const PERSONA: AnswerShape = AnswerShape {
    name: "persona",
    fields: &[
        text("name", 40),
        text("occupation", 80),
        text("hobbies", 160),
        text("habits", 240),
        text("speaking_style", 240),
    ],
};

const SCENE: AnswerShape = AnswerShape {
    name: "scene",
    fields: &[
        text("event", 900),
        text("conflict", 300),
        text("difficulties", 400),
        text("state", 200),
        text("when_good", 160),
        text("when_middling", 160),
        text("when_low", 160),
        text("helps", 240),
        text("hurts", 240),
        text("first_talk", 120),
    ],
};

/// What a new profile is to be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub id: String,
    /// The language.
    pub language: Language,
    /// What the person will secretly want.
    pub intention: HiddenIntention,
    /// The main character type.
    pub character: CharacterType,
    /// Three traits of that type.
    pub traits: Vec<String>,
    /// Where the story plays.
    pub setting: String,
    /// Years.
    pub age: u32,
    /// Whether the person is a woman.
    pub woman: bool,
    /// Things people of this type said.
    pub samples: Vec<String>,
    /// Seed of the model's answers.
    pub seed: u64,
}

/// Orders `n` profiles in a language: half rational and half emotional intentions, each evenly, and all character types. Traits,
/// settings and sample utterances are drawn from the built-in training profiles.
pub fn orders(n: usize, language: Language, seed: u64) -> Vec<Order> {
    let builtin = ProfileSet::builtin_train();
    let known: Vec<_> = builtin.iter().filter(|p| p.language() == language).cloned().collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed::mix(&[seed, language as u64]));
    let class = |class: IntentionClass| -> Vec<HiddenIntention> {
        HiddenIntention::ALL.into_iter().filter(|i| i.class() == class).collect()
    };
    let mut classes = [class(IntentionClass::Rational), class(IntentionClass::Emotional)];
    classes.iter_mut().for_each(|class| class.shuffle(&mut rng));
    let mut settings: Vec<String> = known.iter().filter_map(|p| p.setting.clone()).collect();
    settings.sort();
    settings.dedup();
    (0..n)
        .map(|i| {
            let character = CharacterType::ALL[(i / 2) % CharacterType::ALL.len()];
            let alike: Vec<_> = known.iter().filter(|p| p.character() == character).collect();
            let mut traits: Vec<String> = alike.iter().flat_map(|p| p.cha_group.iter().cloned()).collect();
            traits.sort();
            traits.dedup();
            let said: Vec<&str> = alike.iter().flat_map(|p| p.details.iter().map(|d| d.say.as_str())).collect();
            Order {
                id: format!("gen-{language}-{seed}-{i:04}"),
                language,
                intention: classes[i % 2][(i / 2) % classes[i % 2].len()],
                character,
                traits: traits.sample(&mut rng, 3).cloned().collect(),
                setting: settings.choose(&mut rng).cloned().unwrap_or_default(),
                age: rng.random_range(16..=62),
                woman: rng.random_bool(0.5),
                samples: said.sample(&mut rng, 3).map(|s| (*s).to_string()).collect(),
                seed: seed::mix(&[seed, i as u64, 1]),
            }
        })
        .collect()
}

/// Writes what was ordered; a profile that cannot be had says why.
pub fn write(
    engine: &dyn ChatEngine,
    orders: &[Order],
    sampling: ChatSampling,
    asks: usize,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<Result<Profile, String>> {
    let writer = Writer { engine, sampling, asks: asks.max(1) };
    each(Some(engine.concurrency()), orders, done, |_, order| writer.write(order))
}

struct Writer<'a> {
    engine: &'a dyn ChatEngine,
    sampling: ChatSampling,
    asks: usize,
}

type Fields = serde_json::Map<String, serde_json::Value>;

impl Writer<'_> {
    fn write(&self, order: &Order) -> Result<Profile, String> {
        let persona = self.ask(order, &PERSONA, &persona_question(order), 0)?;
        let player = player(order, &persona)?;
        let scene = self.ask(order, &SCENE, &scene_question(order, &player), 1)?;
        let profile = Profile {
            id: order.id.clone(),
            player,
            scene: scene_text(order, &scene)?,
            main_cha: main_cha(order.character, order.language).into(),
            cha_group: order.traits.clone(),
            task: order.intention.task(order.language).into(),
            first_talk: Some(field(&scene, "first_talk")?),
            language: Some(order.language),
            setting: Some(order.setting.clone()).filter(|s| !s.is_empty()),
            details: Vec::new(),
        };
        let line = serde_json::to_string(&profile).map_err(|e| e.to_string())?;
        ProfileSet::parse(&order.id, &line).map_err(|e| e.to_string())?;
        Ok(profile)
    }

    /// Asks until every field is there.
    fn ask(&self, order: &Order, shape: &AnswerShape, question: &str, step: u64) -> Result<Fields, String> {
        let mut messages = vec![Message::new(Role::User, question)];
        let mut problem = String::new();
        for ask in 0..self.asks as u64 {
            let sampling = ChatSampling { seed: seed::mix(&[order.seed, step, ask]), ..self.sampling };
            let request = ChatRequest { messages: &messages, shape, sampling };
            let completion = self.engine.complete(&request).map_err(|e| e.to_string())?;
            let read = object(&completion.text).and_then(|object| {
                shape.fields.iter().try_for_each(|f| field(&object, f.name).map(|_| ()))?;
                Ok(object)
            });
            match read {
                Ok(object) => return Ok(object),
                Err(what) => problem = what,
            }
            messages.truncate(1);
            messages.push(Message::new(Role::Assistant, completion.text));
            messages.push(prompt::again(order.language, &problem, shape));
        }
        Err(format!(
            "{}: none of {} answers for the {} can be read; the last: {problem}",
            order.id, self.asks, shape.name
        ))
    }
}

fn main_cha(character: CharacterType, language: Language) -> &'static str {
    match (language, character) {
        (Language::En, character) => character.name(),
        (Language::Zh, CharacterType::Negative) => "负面型",
        (Language::Zh, CharacterType::Passive) => "被动型",
        (Language::Zh, CharacterType::Avoidant) => "回避型",
    }
}

fn persona_question(order: &Order) -> String {
    let (age, samples, form) = (order.age, order.samples.join("\n- "), prompt::form(&PERSONA));
    let character = main_cha(order.character, order.language);
    match order.language {
        Language::Zh => {
            let (gender, traits) = (if order.woman { "女" } else { "男" }, order.traits.join("、"));
            format!(
                "请设想一个真实可信的人：{age}岁，{gender}，性格属于{character}，特点是{traits}。同类的人说过这样的话：\n\
                 - {samples}\n\n\
                 写出这个人的姓名（name）、职业（occupation）、三个爱好（hobbies）、生活习惯与做事方式（habits）、\
                 说话风格（speaking_style，要说明会不会主动讲、主动问）。不要照抄上面的话。\n\
                 只输出这样一个 JSON 对象，全部用中文：{form}"
            )
        }
        Language::En => {
            let (gender, traits) = (if order.woman { "a woman" } else { "a man" }, order.traits.join(", "));
            format!(
                "Imagine a believable person: {gender} of {age}, of the {character} type, {traits}. People like that said:\n\
                 - {samples}\n\n\
                 Write this person's name, occupation, three hobbies, habits and ways of doing things, and speaking_style \
                 (say whether the person tells or asks things unprompted). Do not copy the lines above.\n\
                 Write one JSON object like this and nothing else, in English: {form}"
            )
        }
    }
}

fn player(order: &Order, persona: &Fields) -> Result<String, String> {
    let get = |name: &str| field(persona, name);
    let (name, occupation, hobbies) = (get("name")?, get("occupation")?, get("hobbies")?);
    let (habits, style, age) = (get("habits")?, get("speaking_style")?, order.age);
    Ok(match order.language {
        Language::Zh => {
            let gender = if order.woman { "女" } else { "男" };
            format!(
                "姓名：{name}；年龄：{age}岁；性别：{gender}；职业：{occupation}；爱好：{hobbies}；习惯：{habits}；说话风格：{style}"
            )
        }
        Language::En => {
            let gender = if order.woman { "female" } else { "male" };
            format!(
                "Name: {name}; Age: {age}; Gender: {gender}; Occupation: {occupation}; Hobbies: {hobbies}; Habits: {habits}; \
                 Speaking style: {style}"
            )
        }
    })
}

fn scene_question(order: &Order, player: &str) -> String {
    let (setting, task, form) = (&order.setting, order.intention.task(order.language), prompt::form(&SCENE));
    match order.language {
        Language::Zh => format!(
            "有这样一个人：{player}\n\n\
             请为这个人写一件最近遇到的烦心事，发生的场合是“{setting}”。这个人去找人聊，心里真正想要的是：{task}\n\
             全部用“你”来写，要具体：人、物、时间、地点、数字。各项内容：\n\
             - event：经过，按时间写清几件小事和当时的感受。\n- conflict：主要矛盾，牵涉到谁，心里的根子在哪。\n\
             - difficulties：试过什么办法，为什么没用，现在卡在哪。\n- state：现在的状态。\n\
             - when_good、when_middling、when_low：心情好、一般、低落时各怎么说话。\n\
             - helps：对方怎么回应会让你好受（要符合真正想要的）。\n- hurts：怎么回应会让你更难受。\n\
             - first_talk：你开口的第一句话，短，口语，引出这件事，不说破想要什么。\n\
             只输出这样一个 JSON 对象：{form}"
        ),
        Language::En => format!(
            "There is a person: {player}\n\n\
             Write something upsetting that happened to this person lately, in this setting: {setting}. The person is \
             going to talk to somebody about it and really wants this: {task}\n\
             Write to the person as \"you\" and be concrete: people, things, times, places, numbers. The fields:\n\
             - event: what happened, step by step, with what was felt.\n\
             - conflict: the main conflict, who is part of it, what lies beneath.\n\
             - difficulties: what was tried, why it failed, where it is stuck.\n- state: how things stand now.\n\
             - when_good, when_middling, when_low: how you talk in a good, middling or low mood.\n\
             - helps: which replies do you good (fitting what is really wanted).\n- hurts: which make it worse.\n\
             - first_talk: your first line, short and spoken, bringing the matter up without saying what you want.\n\
             Write one JSON object like this and nothing else: {form}"
        ),
    }
}

fn scene_text(order: &Order, scene: &Fields) -> Result<String, String> {
    let headings = match order.language {
        Language::Zh => [
            "",
            "主要冲突",
            "困难",
            "当前状态",
            "心情好时的反应",
            "心情一般时的反应",
            "心情低落时的反应",
            "好的回应与反应",
            "坏的回应与反应",
        ],
        Language::En => [
            "",
            "Main conflict",
            "Difficulties",
            "Present state",
            "Reaction in a good mood",
            "Reaction in a middling mood",
            "Reaction in a low mood",
            "Replies with a good reaction",
            "Replies with a bad reaction",
        ],
    };
    let mut out = String::new();
    for (heading, part) in headings.iter().zip(SCENE.fields) {
        if !heading.is_empty() {
            out += &format!("\n#### {heading}:\n");
        }
        out += &field(scene, part.name)?;
    }
    let (hidden, task) = match order.language {
        Language::Zh => ("隐藏主题", order.intention.task(Language::Zh)),
        Language::En => ("Hidden theme", order.intention.task(Language::En)),
    };
    Ok(out + &format!("\n#### {hidden}:\n***{task}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn orders_are_even_and_differ() {
        for language in Language::ALL {
            let orders = orders(48, language, 3);
            let mut intentions: HashMap<HiddenIntention, usize> = HashMap::new();
            let mut characters: HashMap<CharacterType, usize> = HashMap::new();
            for order in &orders {
                *intentions.entry(order.intention).or_default() += 1;
                *characters.entry(order.character).or_default() += 1;
                assert_eq!((order.traits.len(), order.samples.len()), (3, 3));
            }
            assert!(intentions.len() == 8 && intentions.values().all(|n| *n == 6), "{intentions:?}");
            assert!(characters.len() == 3 && characters.values().all(|n| *n == 16), "{characters:?}");
            assert_eq!(orders, super::orders(48, language, 3), "the same seed, the same orders");
            assert_ne!(orders[0].traits, super::orders(48, language, 4)[0].traits);
        }
    }
}
