//! The dialect of chat templates.

use rlver_models::tokenizer::{ChatMessage, QWEN_SPECIAL_TOKENS, Tokenizer, TokenizerError, train_bpe};
use serde_json::json;

use super::{CORPUS, small};

fn with(config: &serde_json::Value) -> Result<Tokenizer, TokenizerError> {
    let tokenizer = train_bpe(CORPUS.into_iter(), 300, &QWEN_SPECIAL_TOKENS).expect("trains");
    Tokenizer::from_bytes(&tokenizer, &serde_json::to_vec(config).expect("JSON"))
}

fn render(template: &str) -> String {
    let config = json!({ "chat_template": template, "eos_token": {"content": "<|im_end|>"}, "bos_token": null });
    let messages = [ChatMessage::user("a 'b' <c>&"), ChatMessage::assistant(" <think>x</think> d")];
    with(&config).expect("loads").render(&messages, true).unwrap_or_else(|e| e.to_string())
}

#[test]
fn templates_may_use_what_transformers_gives_them() {
    for (template, expected) in [
        ("{{ messages[0].content }}", "a 'b' <c>&"),
        ("{{ messages[1].content.split('</think>')[-1].strip() }}", "d"),
        ("{{ messages[1]['content'].lstrip().startswith('<think>') }}", "True"),
        ("{% for m in messages %}{% if m.role == 'assistant' %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "user"),
        ("{{ messages[0] | tojson }}", r#"{"role": "user", "content": "a 'b' <c>&"}"#),
        ("{{ [1, [], {}] | tojson(indent=2) }}", "[\n  1,\n  [],\n  {}\n]"),
        ("{{ tools is defined }} {{ strftime_now is defined }} {{ bos_token is defined }}", "False False False"),
        ("{{ eos_token }}{% if add_generation_prompt %}!{% endif %}", "<|im_end|>!"),
        ("  {%- if true %}\n    x\n    {% endif %}\ny\n", "    x\ny"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"),
    ] {
        assert_eq!(render(template), expected, "{template}");
    }
}

#[test]
fn a_named_default_template_is_found() {
    let config = json!({ "chat_template": [
        {"name": "tool_use", "template": "no"},
        {"name": "default", "template": "{{ messages[0].content }}"},
    ]});
    assert_eq!(with(&config).expect("loads").render(&[ChatMessage::user("yes")], false).expect("renders"), "yes");
}

#[test]
fn template_faults_are_errors_that_say_where() {
    let said = |config: serde_json::Value| with(&config).expect_err("is refused").to_string();
    let syntax = said(json!({ "chat_template": "{% if %}" }));
    assert!(syntax.contains("tokenizer_config.json") && syntax.contains("syntax error"), "{syntax}");
    assert!(said(json!({ "chat_template": [{"name": "rag"}] })).contains("default"));
    assert!(said(json!({ "chat_template": 3 })).contains("a number"));
    let none = with(&json!({})).expect("loads without one").render(&[ChatMessage::user("x")], false);
    assert!(matches!(none, Err(TokenizerError::NoTemplate)));
    assert!(render("{{ raise_exception('roles must alternate') }}").contains("roles must alternate"));
    assert!(render("{{ nothing.at.all }}").contains("failed"));
    assert!(small().render(&[], false).expect("ours asks for no message").is_empty());
}
