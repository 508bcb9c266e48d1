//! Facts a person can disclose when the profile lists none: short sentences of the scene, retold in the first person.

use crate::dialogue::{Detail, Language, Profile, is_han};

/// At most this many facts are taken.
const MOST: usize = 10;

/// Sentences of the scene that tell what happened and give nothing of the script away.
pub(crate) fn facts(profile: &Profile) -> Vec<Detail> {
    let language = profile.language();
    let name = name(&profile.player);
    let mut facts: Vec<Detail> = Vec::new();
    for line in profile.scene.lines() {
        let heading = line.trim_start().starts_with('#') || (line.contains("**") && line.chars().count() < 40);
        if heading && ends_the_story(line) {
            break;
        }
        for sentence in sentences(line, language) {
            if let Some(say) = retold(&sentence, name.as_deref(), language)
                && !facts.iter().any(|f| f.say == say)
            {
                facts.push(Detail { say, key: String::new() });
            }
            if facts.len() == MOST {
                return facts;
            }
        }
    }
    facts
}

/// The persona's name as the profile writes it.
fn name(player: &str) -> Option<String> {
    let (_, rest) =
        ["姓名：", "姓名:", "Name:", "name:"].iter().find_map(|label| player.split_once(label)).filter(|_| true)?;
    let name: String =
        rest.trim_start_matches(['*', ' ']).chars().take_while(|c| c.is_alphabetic() || *c == '·').collect();
    (!name.is_empty()).then_some(name)
}

/// What follows these headings is stage direction, not story.
fn ends_the_story(heading: &str) -> bool {
    ["反应", "NPC", "不同", "隐藏", "reaction", "Reaction", "hidden", "困难", "当前状态", "冲突"]
        .iter()
        .any(|w| heading.contains(w))
}

fn sentences(line: &str, language: Language) -> Vec<String> {
    let line = line.trim().trim_start_matches(['-', '*', '#', ' ', '•']);
    let line = match line.rsplit_once("：").or_else(|| line.rsplit_once("**")) {
        Some((_, rest)) if language == Language::Zh => rest,
        _ => line,
    };
    let ends: &[char] = if language == Language::Zh { &['。', '！', '？', '；'] } else { &['.', '!', '?'] };
    line.split(ends).map(|s| s.trim().trim_matches('*').trim().to_string()).filter(|s| !s.is_empty()).collect()
}

fn retold(sentence: &str, name: Option<&str>, language: Language) -> Option<String> {
    const SCRIPT: [&str; 24] = [
        "NPC", "npc", "玩家", "emotion", "Emotion", "主题", "隐藏", "希望", "渴望", "想要", "倾诉", "建议", "反思",
        "对方", "角色", "情绪", "You want", "you want", "you hope", "You hope", "hidden", "***", "If ", "如果",
    ];
    if SCRIPT.iter().any(|w| sentence.contains(w)) || sentence.contains(|c: char| "（(\"“：:*".contains(c)) {
        return None;
    }
    match language {
        Language::Zh => {
            // Whose "she" a pronoun is cannot be told, so only sentences that name the person or say "you" are taken.
            let own = match name {
                Some(name) if sentence.contains(name) => sentence.replace(name, "我"),
                _ if sentence.contains('你') => sentence.replace('你', "我"),
                _ => return None,
            };
            let size = own.chars().filter(|c| is_han(*c)).count();
            let fits = (8..=34).contains(&size) && !own.contains(['她', '他']) && own.matches('我').count() <= 3;
            fits.then(|| format!("{own}。"))
        }
        Language::En => {
            let words: Vec<String> = sentence.split_whitespace().map(first_person).collect();
            let own = words.join(" ").replace("I are", "I am").replace("I were", "I was").replace("I have", "I've");
            let about = words.iter().any(|w| matches!(w.as_str(), "I" | "my" | "My" | "me"));
            ((5..=20).contains(&words.len()) && about).then(|| format!("{own}."))
        }
    }
}

fn first_person(word: &str) -> String {
    let cut = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
    let (head, tail) = word.split_at(cut);
    let own = match head {
        "You" | "you" => "I",
        "Your" => "My",
        "your" => "my",
        "yours" => "mine",
        "yourself" => "myself",
        other => other,
    };
    format!("{own}{tail}")
}
