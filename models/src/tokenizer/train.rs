//! Training a small tokenizer of Qwen2.5's kind: byte-level BPE over the same normal form and the same word split.

use std::collections::HashSet;

use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior};

use super::TokenizerError;

/// The special tokens a ChatML policy needs, in the order of their ids.
pub const QWEN_SPECIAL_TOKENS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// A ChatML chat template: every message is one turn, no system prompt is made up.
pub const CHATML_TEMPLATE: &str = "\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
";

/// Qwen2's split: English clitics, letters with one leading mark, single digits, punctuation, line ends, spaces.
const WORD_SPLIT: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The pieces merges are counted in: like [`WORD_SPLIT`], but a Chinese character and a mark before letters stand alone.
const PIECE_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|\p{Han}| ?[\p{L}--\p{Han}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Trains a byte-level BPE and returns its `tokenizer.json`: the same texts give the same bytes.
///
/// No merge joins two Chinese characters, or a mark with the letters behind it: a word is the same tokens wherever it
/// stands, which a small network needs to take up what was said. The written file splits words as Qwen2.5's does; both
/// splits give the same ids, because no merge crosses a piece.
///
/// Ids are, in order: the special tokens, the 256 bytes, the merges from the most to the least frequent. The vocabulary
/// stays below `vocab_size` when the texts run out of pairs that occur twice.
///
/// # Errors
/// `vocab_size` has no room for the special tokens and the bytes, or a special token is empty or given twice.
pub fn train_bpe<'a>(
    texts: impl Iterator<Item = &'a str>,
    vocab_size: usize,
    special_tokens: &[&str],
) -> Result<Vec<u8>, TokenizerError> {
    let refuse = |reason: String| TokenizerError::Training { reason };
    let least = special_tokens.len() + 256;
    if vocab_size < least {
        return Err(refuse(format!(
            "a vocabulary of {vocab_size} has no room for {} special tokens and 256 bytes; ask for more than {least}",
            special_tokens.len()
        )));
    }
    let mut seen = HashSet::new();
    if let Some(bad) = special_tokens.iter().find(|token| token.is_empty() || !seen.insert(**token)) {
        return Err(refuse(format!("the special token {bad:?} is empty or given twice; name each one once")));
    }

    let byte_level = ByteLevel::new(false, false, false);
    let splitting = |pattern: &str| {
        let split = Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false);
        let split = PreTokenizerWrapper::Split(split.map_err(|e| refuse(e.to_string()))?);
        Ok(Sequence::new(vec![split, PreTokenizerWrapper::ByteLevel(byte_level)]))
    };
    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    tokenizer.with_normalizer(Some(NFC)).map_err(|e| refuse(e.to_string()))?;
    tokenizer
        .with_pre_tokenizer(Some(splitting(PIECE_SPLIT)?))
        .with_post_processor(Some(byte_level))
        .with_decoder(Some(byte_level));

    // Counts and their tie-breaks (the lower pair of ids first) do not depend on the order or threads of counting.
    let trainer = BpeTrainerBuilder::new()
        .vocab_size(vocab_size)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special_tokens.iter().map(|token| AddedToken::from(*token, true)).collect())
        .build();
    let texts: Vec<&str> = texts.collect();
    tokenizer
        .train(&mut TrainerWrapper::BpeTrainer(trainer), texts.into_iter())
        .map_err(|e| refuse(e.to_string()))?
        .with_pre_tokenizer(Some(splitting(WORD_SPLIT)?));
    tokenizer.to_string(false).map(String::into_bytes).map_err(|e| refuse(e.to_string()))
}

/// `tokenizer_config.json` for a tokenizer trained with [`QWEN_SPECIAL_TOKENS`], with [`CHATML_TEMPLATE`].
pub fn chatml_config() -> Vec<u8> {
    let [end_of_text, im_start, im_end] = QWEN_SPECIAL_TOKENS;
    let config = serde_json::json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": false,
        "clean_up_tokenization_spaces": false,
        "bos_token": null,
        "eos_token": im_end,
        "pad_token": end_of_text,
        "unk_token": null,
        "additional_special_tokens": [im_start, im_end],
        "chat_template": CHATML_TEMPLATE,
    });
    format!("{config:#}\n").into_bytes()
}
