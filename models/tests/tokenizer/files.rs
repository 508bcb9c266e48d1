//! Folders that are missing, damaged or mixed up; saving.

use std::fs;
use std::path::Path;

use rlver_models::tokenizer::{ChatFormat, QWEN_SPECIAL_TOKENS, Tokenizer, TokenizerError, chatml_config, train_bpe};
use serde_json::{Value, json};

use super::{CORPUS, Numbers};

fn json_bytes() -> Vec<u8> {
    train_bpe(CORPUS.into_iter(), 300, &QWEN_SPECIAL_TOKENS).expect("trains")
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("tokenizer.json"), json_bytes()).expect("writes");
    fs::write(dir.path().join("tokenizer_config.json"), chatml_config()).expect("writes");
    dir
}

fn refusal(dir: &Path) -> String {
    Tokenizer::load(dir).expect_err("is refused").to_string()
}

#[test]
fn a_missing_file_is_named() {
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let dir = folder();
        fs::remove_file(dir.path().join(name)).expect("removes");
        let said = refusal(dir.path());
        assert!(said.contains(name) && said.contains("is missing") && said.contains("copy both"), "{said}");
    }
    assert!(refusal(Path::new("no/such/folder")).contains("no/such/folder"));
    let dir = folder();
    fs::create_dir(dir.path().join("chat_template.jinja")).expect("creates");
    assert!(refusal(dir.path()).contains("cannot read"));
}

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let whole = json_bytes();
    let config = chatml_config();
    let mut numbers = Numbers(1);
    for _ in 0..300 {
        let cut = &whole[..numbers.below(whole.len())];
        assert!(matches!(Tokenizer::from_bytes(cut, &config), Err(TokenizerError::Corrupt { .. })));
        let mut flipped = whole.clone();
        flipped[numbers.below(whole.len())] = numbers.below(256) as u8;
        if let Ok(tokenizer) = Tokenizer::from_bytes(&flipped, &config) {
            let _ = tokenizer.decode(&tokenizer.encode("Hi <|im_end|> 你好 🧋 123"), true);
        }
        let _ = Tokenizer::from_bytes(&whole, &config[..numbers.below(config.len())]).map(|_| ());
    }
    let parsed: Value = serde_json::from_slice(&whole).expect("JSON");
    for _ in 0..600 {
        let mut json = parsed.clone();
        let mut at = &mut json;
        // Walk to some place in the file and put something else there.
        while let Some(next) = match &*at {
            Value::Object(map) if !map.is_empty() => map.keys().nth(numbers.below(map.len())).map(|key| json!(key)),
            Value::Array(list) if !list.is_empty() => Some(json!(numbers.below(list.len()))),
            _ => None,
        } {
            at = match &next {
                Value::String(key) => &mut at[key.as_str()],
                index => &mut at[index.as_u64().unwrap_or(0) as usize],
            };
            if numbers.below(4) == 0 {
                break;
            }
        }
        let others =
            [json!(null), json!(""), json!(-1), json!(70_000), json!("Precompiled"), json!([]), json!({}), json!(true)];
        *at = others[numbers.below(others.len())].clone();
        if let Ok(tokenizer) = Tokenizer::from_bytes(json.to_string().as_bytes(), &config) {
            let _ = tokenizer.decode(&tokenizer.encode("Hi <|im_end|> 你好 🧋 123"), true);
            let _ = ChatFormat::probe(&tokenizer);
        }
    }
    for (config, what) in [("[]", "a list"), ("{", "EOF"), ("", "EOF"), ("\u{feff}{}", "expected value")] {
        let said = Tokenizer::from_bytes(&whole, config.as_bytes()).expect_err("is refused").to_string();
        assert!(said.contains("tokenizer_config.json is damaged") && said.contains(what), "{said}");
    }
}

#[test]
fn what_is_not_byte_level_bpe_is_refused_by_key() {
    let edited = |edit: fn(&mut Value)| {
        let mut json: Value = serde_json::from_slice(&json_bytes()).expect("JSON");
        edit(&mut json);
        Tokenizer::from_bytes(json.to_string().as_bytes(), &chatml_config()).expect_err("is refused").to_string()
    };
    assert!(edited(|t| t["decoder"] = Value::Null).contains("`decoder` is null"));
    assert!(edited(|t| t["decoder"] = json!({"type": "Fuse"})).contains("Fuse"));
    assert!(
        edited(|t| t["model"] = json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}))
            .contains("WordLevel")
    );
    assert!(edited(|t| t["model"]["dropout"] = json!(0.1)).contains("model.dropout"));
    assert!(edited(|t| t["model"]["continuing_subword_prefix"] = json!("##")).contains("continuing_subword_prefix"));
    assert!(edited(|t| t["normalizer"] = json!({"type": "Precompiled"})).contains("Precompiled"));
    assert!(edited(|t| t["model"]["vocab"]["far"] = json!(4_000_000_000u32)).contains("4000000000"));
}

#[test]
fn a_training_scripts_truncation_is_not_ours() {
    let mut json: Value = serde_json::from_slice(&json_bytes()).expect("JSON");
    json["truncation"] = json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 64}, "direction": "Left", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"});
    let tokenizer = Tokenizer::from_bytes(json.to_string().as_bytes(), &chatml_config()).expect("loads");
    let text = "a sentence of more than four tokens";
    assert_eq!(tokenizer.decode(&tokenizer.encode(text), false), text);
}

#[test]
fn files_of_different_models_are_noticed() {
    let mut config: Value = serde_json::from_slice(&chatml_config()).expect("JSON");
    config["eos_token"] = "</s>".into();
    let said = Tokenizer::from_bytes(&json_bytes(), config.to_string().as_bytes()).expect_err("refused").to_string();
    assert!(said.contains("eos_token") && said.contains("</s>") && said.contains("different models"), "{said}");
    config["eos_token"] = 2.into();
    let said = Tokenizer::from_bytes(&json_bytes(), config.to_string().as_bytes()).expect_err("refused").to_string();
    assert!(said.contains("a number"), "{said}");
    for eos in ["151645", "[1, 151645]", "-1", "\"x\""] {
        let dir = folder();
        fs::write(dir.path().join("generation_config.json"), format!("{{\"eos_token_id\": {eos}}}")).expect("writes");
        let said = refusal(dir.path());
        assert!(said.contains("generation_config.json") && said.contains("eos_token_id"), "{said}");
    }
}

#[test]
fn ends_of_replies_are_gathered_from_all_files() {
    let dir = folder();
    assert_eq!(Tokenizer::load(dir.path()).expect("loads").eos_ids(), [2, 0]);
    fs::write(dir.path().join("generation_config.json"), r#"{"eos_token_id": [0, 2, 17], "top_k": 20}"#)
        .expect("writes");
    assert_eq!(Tokenizer::load(dir.path()).expect("loads").eos_ids(), [2, 0, 17]);
}

#[test]
fn saving_writes_the_same_bytes() {
    let dir = folder();
    let extra = [
        ("chat_template.jinja", "{{ messages[0].content }}\n\n"),
        ("generation_config.json", "{ \"eos_token_id\" : 2 }"),
        ("special_tokens_map.json", "{  }\n"),
    ];
    for (name, text) in extra {
        fs::write(dir.path().join(name), text).expect("writes");
    }
    fs::write(dir.path().join("config.json"), "{}").expect("writes");
    let tokenizer = Tokenizer::load(dir.path()).expect("loads");
    let copy = dir.path().join("deep/copy");
    tokenizer.save(&copy).expect("saves");
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
        "special_tokens_map.json",
    ] {
        assert_eq!(
            fs::read(copy.join(name)).expect("saved"),
            fs::read(dir.path().join(name)).expect("source"),
            "{name}"
        );
    }
    assert!(!copy.join("config.json").exists(), "the model's own files are not the tokenizer's");
    let again = Tokenizer::load(&copy).expect("loads");
    assert_eq!(again.render(&[rlver_models::tokenizer::ChatMessage::user("hi")], true).expect("renders"), "hi\n");
    let blocked = dir.path().join("tokenizer.json").join("under a file");
    assert!(tokenizer.save(&blocked).expect_err("is a file").to_string().contains("cannot write"));
}
