//! Tokenizer, chat template and hub, on the real Qwen2.5 and SmolLM2 tokenizers where `tests/fetch_models.sh` put them.

mod chat;
mod files;
#[cfg(feature = "hub")]
mod hub;
#[cfg(feature = "hub")]
mod hub_server;
mod qwen;
mod stream;
mod template;
mod train;

use std::io::Write;
use std::path::PathBuf;

use rlver_models::tokenizer::{QWEN_SPECIAL_TOKENS, Tokenizer, chatml_config, train_bpe};

/// A fetched model, or `None` with a line on stderr that cannot be overlooked.
fn fetched(name: &str) -> Option<Tokenizer> {
    let models = std::env::var_os("RLVER_MODELS").map(PathBuf::from);
    let models = models.or_else(|| std::env::home_dir().map(|home| home.join(".cache/rlver/models")))?;
    let dir = models.join(name);
    if dir.join("tokenizer.json").is_file() {
        return Some(Tokenizer::load(&dir).expect("a fetched tokenizer loads"));
    }
    // Straight to the stream: the test harness hides what a passing test prints.
    let line = format!("SKIPPED ({} is not there: run tests/fetch_models.sh)\n", dir.display());
    let _ = std::io::stderr().write_all(line.as_bytes());
    None
}

fn qwen() -> Option<Tokenizer> {
    fetched("qwen2.5-tokenizer")
}

fn smollm() -> Option<Tokenizer> {
    fetched("smollm2-135m")
}

const CORPUS: [&str; 4] = [
    "I hear you, and I am here for you. You're not alone; that must have been hard, and it's okay to feel hurt.",
    "我在听,你慢慢说。那一定很难受吧,换作是我也会难过的。你不是一个人。",
    "Thank you for telling me. I hear how much it hurts, and I am not going anywhere. 1234 5678",
    "谢谢你愿意告诉我。我听到了你的难过,我会一直在这里陪着你。🙂🙂",
];

/// A small tokenizer of our own, trained on the spot.
fn small() -> Tokenizer {
    let json = train_bpe(CORPUS.into_iter(), 400, &QWEN_SPECIAL_TOKENS).expect("a corpus this size trains");
    Tokenizer::from_bytes(&json, &chatml_config()).expect("what we train, we load")
}

/// Numbers that look random and are the same on every machine (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

#[test]
#[cfg(not(feature = "hub"))]
fn without_the_hub_a_folder_still_resolves() {
    use rlver_models::hub::resolve;
    assert!(resolve(env!("CARGO_MANIFEST_DIR"), None).is_ok());
    let said = resolve("Qwen/Qwen2.5-0.5B-Instruct", None).expect_err("cannot be fetched").to_string();
    assert!(said.contains("cargo feature `hub`"), "{said}");
}
