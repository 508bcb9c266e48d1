//! `rlver score`.

use serde_json::Value;

use rlver::train::load_policy;
use rlver_models::qwen2::Packed;

use super::{Said, say, say_with_input, text};
use crate::tiny::Home;

fn lists(said: &Said) -> Vec<(Vec<f32>, Vec<f32>)> {
    let list = |v: &Value| v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
    let line = |line| -> Value { serde_json::from_str(line).unwrap() };
    said.out.lines().map(line).map(|v| (list(&v["logprobs"]), list(&v["entropy"]))).collect()
}

#[test]
fn a_file_and_standard_input_give_the_models_own_numbers() {
    let home = Home::new();
    let folder = home.path("policy");
    let input = "{\"ids\": [5, 6, 7, 300, 9]}\n\n{\"ids\":[1]}\n{\"ids\":[]}\n{\"ids\":[2,600]}\n";
    std::fs::write(home.path("tokens.jsonl"), input).unwrap();
    let tokens = home.path("tokens.jsonl");
    let from_file = say(&["score", "--model", text(&folder), "--tokens", text(&tokens)]).well();
    // Neither a tokenizer nor a chat template is needed.
    std::fs::remove_file(folder.join("tokenizer.json")).unwrap();
    std::fs::remove_file(folder.join("tokenizer_config.json")).unwrap();
    let from_stdin = say_with_input(&["score", "--model", text(&folder), "--tokens", "-"], input).well();
    assert_eq!(from_file.out, from_stdin.out);
    let found = lists(&from_file);
    assert_eq!(found.iter().map(|(l, e)| (l.len(), e.len())).collect::<Vec<_>>(), [(4, 4), (0, 0), (0, 0), (1, 1)]);

    let model = crate::tiny::policy().model;
    let logits = model.logits(model.forward(&Packed::new([&[5u32, 6, 7, 300][..]])).unwrap()).unwrap();
    let width = model.config().vocab_size;
    let logits: Vec<f32> = logits.into_data().try_into_vec().unwrap();
    for (row, target) in [6usize, 7, 300, 9].into_iter().enumerate() {
        let row_logits: Vec<f64> = logits[row * width..][..width].iter().map(|z| f64::from(*z)).collect();
        let top = row_logits.iter().copied().fold(f64::MIN, f64::max);
        let total = row_logits.iter().map(|z| (z - top).exp()).sum::<f64>().ln() + top;
        let entropy: f64 = row_logits.iter().map(|z| -(z - total).exp() * (z - total)).sum();
        assert!((f64::from(found[0].0[row]) - (row_logits[target] - total)).abs() < 1e-5);
        assert!((f64::from(found[0].1[row]) - entropy).abs() < 1e-4);
    }
    let _ = load_policy(text(&folder), "", &burn::tensor::Device::flex()).unwrap_err();
}

#[test]
fn a_bad_line_is_named_and_lines_before_it_are_kept() {
    let home = Home::new();
    let folder = home.path("policy");
    let score = |input: &str| say_with_input(&["score", "--model", text(&folder), "--tokens", "-"], input);
    for (bad, named) in [
        ("{\"ids\": [1, 2", "expected {\"ids\""),
        ("{\"tokens\": [1]}", "tokens"),
        ("{\"ids\": [-1]}", "ids"),
        ("[1, 2]", "ids"),
        ("{\"ids\": [1, 100000, 2]}", "100000"),
        ("{\"ids\": [1, 100000]}", "100000"),
        ("{\"ids\": [4294967296]}", "ids"),
    ] {
        let said = score(&format!("{{\"ids\": [1, 2, 3]}}\n{bad}\n{{\"ids\": [1, 2, 3]}}\n"));
        said.refused(&["line 2", named]);
        assert_eq!(lists(&said).len(), 1, "the line before it was answered");
    }
    say(&["score", "--model", text(&folder), "--tokens", "no/such/file"]).refused(&["no/such/file"]);
    say(&["score", "--model", text(&folder), "--tokens", "-", "--temperature", "0"]).refused(&["--temperature"]);
    say(&["score", "--model", "/no/such/model", "--tokens", "-"]).refused(&["/no/such/model"]);
}
