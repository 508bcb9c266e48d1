//! A real model: SmolLM2-135M in Qwen2 form (`tests/fetch_models.sh`), against greedy replies of transformers.

use std::io::Write;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rlver_models::generate::{Engine, Sampler, SamplingSettings};
use rlver_models::qwen2::{HeadKind, Packed, Qwen2};
use rlver_models::tokenizer::{ChatFormat, ChatMessage, Tokenizer};
use rlver_models::weights;
use serde_json::Value;

/// How close log-probabilities have to be.
const TOLERANCE: f64 = 2e-3;

struct Case {
    messages: Vec<(String, String)>,
    prompt: Vec<u32>,
    reply: Vec<u32>,
    logprobs: Vec<f64>,
    text: String,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/smollm2_greedy.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let ids = |v: &Value| v.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect();
    let text = |v: &Value| v.as_str().unwrap().to_string();
    let message = |m: &Value| (text(&m["role"]), text(&m["content"]));
    let case = |c: &Value| Case {
        messages: c["messages"].as_array().unwrap().iter().map(message).collect(),
        prompt: ids(&c["prompt_ids"]),
        reply: ids(&c["greedy_ids"]),
        logprobs: c["greedy_logprobs"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect(),
        text: text(&c["greedy_text"]),
    };
    file["cases"].as_array().unwrap().iter().map(case).collect()
}

/// The model's folder, or `None` with a line on stderr that cannot be overlooked.
fn folder() -> Option<PathBuf> {
    let models = std::env::var_os("RLVER_MODELS").map(PathBuf::from);
    let models = models.or_else(|| std::env::home_dir().map(|home| home.join(".cache/rlver/models")))?;
    let folder = models.join("smollm2-135m");
    if folder.join("model.safetensors").is_file() {
        return Some(folder);
    }
    let line = format!("SKIPPED ({} is not there: run tests/fetch_models.sh)\n", folder.display());
    let _ = std::io::stderr().write_all(line.as_bytes());
    None
}

fn argmax(values: &[f32]) -> u32 {
    values.iter().enumerate().fold((0, f32::NEG_INFINITY), |b, (i, &v)| if v > b.1 { (i, v) } else { b }).0 as u32
}

/// Teacher-forced log-probabilities of the replies, and the likeliest id at each of their places.
fn teacher_forced(model: &Qwen2, case: &Case) -> (Vec<f32>, Vec<u32>) {
    let ids = [case.prompt.as_slice(), &case.reply].concat();
    let hidden = model.forward(&Packed::new([&ids[..ids.len() - 1]])).unwrap();
    let hidden = hidden.narrow(0, case.prompt.len() - 1, case.reply.len());
    let vocabulary = model.config().vocab_size;
    let logprob = model.logprob(hidden.clone(), &case.reply, 1.0, vocabulary).unwrap().logprob;
    let logits: Vec<f32> = model.logits(hidden).unwrap().into_data().try_into_vec().unwrap();
    (logprob.into_data().try_into_vec().unwrap(), logits.chunks(vocabulary).map(argmax).collect())
}

#[test]
fn a_real_model_says_what_transformers_says() {
    let Some(folder) = folder() else { return };
    let tokenizer = Tokenizer::load(&folder).unwrap();
    let model = weights::load(&folder, HeadKind::Vocabulary, &Device::flex()).unwrap();
    let chat = ChatFormat::probe(&tokenizer);
    let cases = cases();
    let mut worst = 0f64;
    for case in &cases {
        let (logprobs, likeliest) = teacher_forced(&model, case);
        worst = logprobs.iter().zip(&case.logprobs).map(|(a, b)| (f64::from(*a) - b).abs()).fold(worst, f64::max);
        assert_eq!(likeliest, case.reply, "given what came before, each greedy id is the likeliest");
        assert_eq!(tokenizer.decode(&case.reply, false), case.text);
        let message = |(role, content): &'_ (String, String)| -> (String, String) { (role.clone(), content.clone()) };
        let messages: Vec<_> = case.messages.iter().map(message).collect();
        let messages: Vec<ChatMessage<'_>> =
            messages.iter().map(|(role, content)| ChatMessage { role, content }).collect();
        assert_eq!(tokenizer.encode(&tokenizer.render(&messages, true).unwrap()), case.prompt, "the chat template");
        if let Ok(chat) = &chat {
            assert_eq!(chat.prompt_ids(&messages).unwrap(), case.prompt);
        }
    }
    println!("SmolLM2-135M: largest error of a log-probability {worst:.2e}");
    assert!(worst < TOLERANCE, "{worst}");

    // Three conversations side by side, as a rollout holds them.
    let mut engine = Engine::new(&model, tokenizer.vocab_size(), cases.len(), 160);
    let rows: Vec<_> = cases
        .iter()
        .map(|case| {
            let row = engine.open().unwrap();
            engine.set_prompt(row, case.prompt.clone());
            engine.start_turn(row, Sampler::new(SamplingSettings::GREEDY, 0), case.reply.len(), tokenizer.eos_ids());
            row
        })
        .collect();
    let mut gap = 0f64;
    let mut place = vec![0; cases.len()];
    while engine.is_busy() {
        for sampled in engine.step().unwrap() {
            let index = rows.iter().position(|row| *row == sampled.row).unwrap();
            gap = gap.max((f64::from(sampled.logprob) - cases[index].logprobs[place[index]]).abs());
            place[index] += 1;
        }
    }
    for (case, row) in cases.iter().zip(rows) {
        let said = &engine.ids(row)[case.prompt.len()..];
        assert_eq!(said, &case.reply[..said.len()], "{}", tokenizer.decode(said, true));
        assert_eq!(tokenizer.decode(said, false), case.text);
    }
    println!("SmolLM2-135M: largest error of a sampled log-probability {gap:.2e}");
    assert!(gap < TOLERANCE, "{gap}");
}
