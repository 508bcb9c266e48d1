//! Reading what a model answered. Strict: an answer that lacks a field is no answer, and never counts as "no change".

use serde_json::{Map, Value};

use super::engine::{AnswerShape, Field, FieldKind};
use crate::dialogue::{Language, think};
use crate::user::Appraisal;

/// Most characters of a line; whoever says more is not chatting.
const LONGEST_LINE: usize = 800;

/// The answer of the first chain.
pub const APPRAISAL: AnswerShape = AnswerShape {
    name: "appraisal",
    fields: &[
        Field { name: "content", kind: FieldKind::Text(160) },
        Field { name: "fit", kind: FieldKind::Text(160) },
        Field { name: "activity", kind: FieldKind::Text(160) },
        Field { name: "feeling", kind: FieldKind::Text(160) },
        Field { name: "change", kind: FieldKind::Integer(-10, 10) },
    ],
};

/// The answer of the second chain.
pub const LINE: AnswerShape = AnswerShape {
    name: "line",
    fields: &[Field { name: "reply", kind: FieldKind::Text(240) }, Field { name: "farewell", kind: FieldKind::Flag }],
};

/// Reads an appraisal.
///
/// The change is the first whole number of its field, with its sign, kept within ±10.
///
/// # Errors
/// What is missing, in words the model can be told.
pub fn appraisal(text: &str) -> Result<Appraisal, String> {
    let object = object(text)?;
    let change = match object.get("change") {
        // Not by its digits: -1e29 is a large number.
        Some(Value::Number(number)) => number.as_f64().map(|number| number.clamp(-1e6, 1e6) as i64),
        Some(Value::String(text)) => first_integer(text),
        _ => None,
    };
    let change = change.ok_or("the field \"change\" holds no whole number")?;
    let most = i64::from(Appraisal::MAX_CHANGE);
    Ok(Appraisal {
        content: field(&object, "content")?,
        fit: field(&object, "fit")?,
        activity: field(&object, "activity")?,
        feeling: field(&object, "feeling")?,
        change: change.clamp(-most, most) as i8,
    })
}

/// Reads what the user says next, and whether it is a goodbye.
///
/// # Errors
/// As [`appraisal`]; also when the line gives the hidden intention `task` away.
pub fn line(text: &str, task: &str, language: Language) -> Result<(String, bool), String> {
    let object = object(text)?;
    let line = field(&object, "reply")?;
    let farewell = match object.get("farewell") {
        Some(Value::Bool(farewell)) => *farewell,
        Some(Value::String(word)) if word.trim().eq_ignore_ascii_case("true") => true,
        Some(Value::String(word)) if word.trim().eq_ignore_ascii_case("false") => false,
        _ => return Err("the field \"farewell\" is neither true nor false".into()),
    };
    if line.chars().count() > LONGEST_LINE {
        return Err(format!("the reply is longer than {LONGEST_LINE} characters"));
    }
    if reveals(&line, task, language) {
        return Err("the reply says outright what you secretly want".into());
    }
    Ok((line, farewell))
}

/// A text field of an object, not empty.
pub(crate) fn field(object: &Map<String, Value>, name: &str) -> Result<String, String> {
    match object.get(name) {
        // The placeholder of the form that was shown has no letter in it, either.
        Some(Value::String(text)) if text.chars().any(char::is_alphanumeric) => Ok(text.trim().into()),
        Some(Value::String(_)) => Err(format!("the field \"{name}\" holds no word")),
        Some(_) => Err(format!("the field \"{name}\" is no text")),
        None => Err(format!("the field \"{name}\" is missing")),
    }
}

/// The first JSON object in a text; thoughts before it, fences around it and words after it do not matter.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.rsplit_once(think::CLOSE).map_or(text, |(_, after)| after);
    let start = text.find('{').ok_or("there is no JSON object in it")?;
    let read = |text: &str| serde_json::Deserializer::from_str(text).into_iter::<Value>().next();
    let first = match read(&text[start..]) {
        // Models like to write +5, which JSON does not know.
        Some(Err(_)) => read(&without_plus(&text[start..])),
        first => first,
    };
    match first {
        Some(Ok(Value::Object(object))) => Ok(object),
        Some(Err(error)) => Err(format!("it is no valid JSON ({error})")),
        _ => Err("there is no JSON object in it".into()),
    }
}

/// Takes the plus signs before numbers out of JSON text.
fn without_plus(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        if c != '+' || in_string {
            out.push(c);
        }
        in_string ^= c == '"' && !escaped;
        escaped = c == '\\' && in_string && !escaped;
    }
    out
}

/// The first whole number in a text, with the sign right before it, if any.
fn first_integer(text: &str) -> Option<i64> {
    let plain = |c: char| match c {
        '－' | '−' | '–' | '—' => '-',
        '＋' => '+',
        '０'..='９' => char::from_digit(c as u32 - '０' as u32, 10).unwrap_or(c),
        c => c,
    };
    let chars: Vec<char> = text.chars().map(plain).collect();
    let start = chars.iter().position(char::is_ascii_digit)?;
    let digits = chars[start..].iter().map_while(|c| c.to_digit(10));
    let size = digits.fold(0i64, |n, digit| n.saturating_mul(10).saturating_add(i64::from(digit)));
    let minus = start > 0 && chars[start - 1] == '-';
    Some(if minus { -size } else { size })
}

/// Whether a line repeats most of the hidden intention, whoever "you" and "I" are in it.
fn reveals(line: &str, task: &str, language: Language) -> bool {
    let units = |text: &str| -> Vec<String> {
        match language {
            Language::Zh => {
                let text = text.replace("对方", "").replace("自己", "");
                text.chars().filter(|c| c.is_alphanumeric() && !"你我您".contains(*c)).map(String::from).collect()
            }
            Language::En => text
                .to_lowercase()
                .replace("the other person", "")
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !matches!(*word, "" | "i" | "me" | "my" | "you" | "your" | "that"))
                .map(String::from)
                .collect(),
        }
    };
    let (line, task) = (units(line), units(task));
    !task.is_empty() && 10 * longest_common_run(&line, &task) >= 6 * task.len()
}

/// Length of the longest run of units that both hold.
fn longest_common_run(a: &[String], b: &[String]) -> usize {
    let mut longest = 0;
    let mut previous = vec![0; b.len() + 1];
    for x in a {
        let mut current = vec![0; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            if x == y {
                current[j + 1] = previous[j] + 1;
                longest = longest.max(current[j + 1]);
            }
        }
        previous = current;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::HiddenIntention;

    fn with_change(change: &str) -> String {
        format!(r#"{{"content":"c","fit":"f","activity":"a","feeling":"e","change":{change}}}"#)
    }

    #[test]
    fn the_change_is_the_first_whole_number_within_ten() {
        for (written, read) in [
            ("5", 5),
            ("-7", -7),
            ("+9999", 10),
            ("\"+9999\"", 10),
            ("-100000000000000000000000000000", -10),
            ("\"about -3, at most +8\"", -3),
            ("\"－５\"", -5),
            ("\"−4 points\"", -4),
            ("0", 0),
            ("2.9", 2),
            ("1e3", 10),
            ("-0.5", 0),
            ("+5", 5),
        ] {
            assert_eq!(appraisal(&with_change(written)).map(|a| a.change), Ok(read), "{written}");
        }
        for written in ["\"none\"", "null", "\"\"", "true", "[5]"] {
            let problem = appraisal(&with_change(written)).unwrap_err();
            assert!(problem.contains("change"), "{written}: {problem}");
        }
    }

    #[test]
    fn what_stands_around_the_object_does_not_matter() {
        let plain = with_change("3");
        for around in [
            format!("```json\n{plain}\n```"),
            format!("Here you are: {plain} I hope {{this}} helps"),
            format!("<think>{{\"change\": 9}} no, less</think>\n{plain}"),
        ] {
            assert_eq!(appraisal(&around).unwrap().change, 3, "{around}");
        }
    }

    #[test]
    fn half_an_answer_is_no_answer() {
        let whole = with_change("3");
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert!(appraisal(&whole[..end]).is_err(), "{}", &whole[..end]);
        }
        for field in ["content", "fit", "activity", "feeling", "change"] {
            let problem = appraisal(&whole.replace(field, "other")).unwrap_err();
            assert!(problem.contains(field), "{problem}");
        }
        for empty in ["\" \"", "\"…\""] {
            assert!(appraisal(&whole.replace("\"f\"", empty)).unwrap_err().contains("no word"), "{empty}");
        }
        assert!(appraisal("I feel +5 better").is_err(), "a number without an object is not enough");
    }

    #[test]
    fn lines_have_a_flag_and_keep_the_secret() {
        let zh = HiddenIntention::Venting.task(Language::Zh);
        let ok = |text: &str| line(text, zh, Language::Zh);
        assert_eq!(ok(r#"{"reply":"嗯，你说。","farewell":false}"#), Ok(("嗯，你说。".into(), false)));
        assert_eq!(ok(r#"{"reply":"再见。","farewell":"True"}"#), Ok(("再见。".into(), true)));
        assert!(ok(r#"{"reply":"嗯"}"#).unwrap_err().contains("farewell"));
        assert!(ok(r#"{"reply":"我希望你用心倾听我的情绪宣泄！","farewell":false}"#).unwrap_err().contains("secretly"));
        let en = HiddenIntention::Advice.task(Language::En);
        let said =
            r#"{"reply":"I want advice that can really help me out of my present difficulty.","farewell":false}"#;
        assert!(line(said, en, Language::En).unwrap_err().contains("secretly"));
        let near = r#"{"reply":"No idea how to get out of this. What would you do?","farewell":false}"#;
        assert!(line(near, en, Language::En).is_ok());
        for intention in HiddenIntention::ALL {
            for language in Language::ALL {
                assert!(reveals(intention.task(language), intention.task(language), language), "{intention}");
            }
        }
    }
}
