//! The published Qwen2.5 tokenizer and template.

use rlver_models::tokenizer::ChatMessage;

use super::{qwen, smollm};

#[test]
fn qwen_ids_are_the_published_ones() {
    let Some(tokenizer) = qwen() else { return };
    assert_eq!(tokenizer.vocab_size(), 151_665);
    assert_eq!(tokenizer.im_end_id(), Some(151_645));
    assert_eq!(tokenizer.eos_ids(), [151_645, 151_643]);
    assert_eq!(tokenizer.token_id("<|im_start|>"), Some(151_644));
    assert_eq!(tokenizer.id_to_token(151_643).as_deref(), Some("<|endoftext|>"));
    assert_eq!(tokenizer.id_to_token(151_665), None);
    // `<think>` is no token of Qwen2.5: three pieces, and the closing tag behind a line end three others.
    assert_eq!(tokenizer.encode("<think>\n"), [13708, 766, 397]);
    let close = tokenizer.encode("hm\n</think>");
    assert_eq!(close[close.len() - 3..], [522, 26865, 29]);
    assert_eq!(tokenizer.encode("Hello<|im_end|>\n").last(), Some(&198));
    assert!(tokenizer.encode("Hello<|im_end|>").contains(&151_645));
    assert!(!tokenizer.encode_plain("Hello<|im_end|>").contains(&151_645));
    assert!(tokenizer.encode("").is_empty());
}

#[test]
fn every_text_comes_back_from_its_ids() {
    let texts = [
        "I'm so sorry to hear that. You've been carrying 12345 things alone.",
        "我最近压力很大,晚上总是睡不着。",
        "🙂👩‍👩‍👧‍👦🏳️‍🌈 and 🤷🏽‍♀️",
        "𠮷野家的𩸽定食,龘䶮靐齉",
        "  leading, trailing  \n\n\ttabs\r\n",
        "مرحبا עולם नमस्ते สวัสดี",
        "",
        "\u{0}\u{1}\u{7f}\u{fdd0}",
    ];
    for tokenizer in [qwen(), smollm()].into_iter().flatten() {
        for text in texts {
            let ids = tokenizer.encode(text);
            assert_eq!(tokenizer.decode(&ids, false), text);
            assert_eq!(ids, tokenizer.encode_plain(text), "{text:?} has no special token in it");
        }
        assert_eq!(tokenizer.decode(&tokenizer.encode("Hi<|im_end|>"), true), "Hi");
        assert_eq!(tokenizer.decode(&tokenizer.encode("Hi<|im_end|>"), false), "Hi<|im_end|>");
    }
}

#[test]
fn rare_characters_are_split_over_tokens() {
    let Some(tokenizer) = qwen() else { return };
    for text in ["𩸽", "龘", "🧋"] {
        let ids = tokenizer.encode(text);
        assert!(ids.len() > 1, "{text} is one token");
        assert!(tokenizer.decode(&ids[..1], false).contains('\u{fffd}'), "half of {text} is a whole character");
    }
}

#[test]
fn qwen_template_writes_roles_and_its_default_system_prompt() {
    let Some(tokenizer) = qwen() else { return };
    let conversation = [ChatMessage::system("Be kind."), ChatMessage::user("你好"), ChatMessage::assistant("Hi <3")];
    assert_eq!(
        tokenizer.render(&conversation, false).expect("renders"),
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n你好<|im_end|>\n<|im_start|>assistant\nHi <3<|im_end|>\n"
    );
    assert_eq!(
        tokenizer.render(&conversation[1..2], true).expect("renders"),
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n\
         <|im_start|>user\n你好<|im_end|>\n<|im_start|>assistant\n"
    );
    assert!(tokenizer.render(&[], true).is_err(), "the template looks at the first message");
}

#[test]
fn smollm2_prompts_are_those_of_the_reference() {
    let Some(tokenizer) = smollm() else { return };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/smollm2_greedy.json");
    let fixture: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).expect("fixture")).expect("fixture is JSON");
    let format = rlver_models::tokenizer::ChatFormat::probe(&tokenizer).expect("ChatML");
    for case in fixture["cases"].as_array().expect("cases") {
        let field = |m: &'static str| move |v: &serde_json::Value| v[m].as_str().expect("a string").to_owned();
        let messages: Vec<(String, String)> = case["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(|m| (field("role")(m), field("content")(m)))
            .collect();
        let messages: Vec<ChatMessage<'_>> =
            messages.iter().map(|(role, content)| ChatMessage { role, content }).collect();
        let ids = |key: &str| -> Vec<u32> { serde_json::from_value(case[key].clone()).expect("ids") };
        let text = tokenizer.render(&messages, true).expect("renders");
        assert_eq!(text, case["prompt_text"].as_str().expect("text"));
        assert_eq!(tokenizer.encode(&text), ids("prompt_ids"));
        assert_eq!(format.prompt_ids(&messages).expect("renders"), ids("prompt_ids"));
        assert_eq!(tokenizer.decode(&ids("greedy_ids"), false), case["greedy_text"].as_str().expect("text"));
    }
    assert_eq!(tokenizer.vocab_size(), 49_152);
    assert_eq!(tokenizer.eos_ids(), [2, 0]);
}
