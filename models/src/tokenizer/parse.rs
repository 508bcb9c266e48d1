//! From `tokenizer.json` to the library's tokenizer.
//!
//! The `tokenizers` crate takes some things about the file for granted and panics where they do not hold; those are
//! looked at first. What is asked for is also what byte-level BPE needs to be deterministic.

use serde_json::Value;

use super::TokenizerError;
use super::files::{TOKENIZER, TokenizerFiles};

/// Parses and admits a tokenizer, without truncation or padding.
pub(super) fn parse(files: &TokenizerFiles) -> Result<tokenizers::Tokenizer, TokenizerError> {
    let file = files.path(TOKENIZER);
    // Well-formed JSON as a whole: the library's decoder entry panics on anything else.
    let mut json = files.json(TOKENIZER)?.unwrap_or(Value::Null);
    let refuse = |key, found: &Value, expected| {
        let mut found = found.to_string();
        found.truncate(found.floor_char_boundary(80));
        Err(TokenizerError::Unsupported { file: file.clone(), key, found, expected })
    };
    let model = &json["model"];
    if model["type"] != "BPE" {
        return refuse("model.type", &model["type"], "\"BPE\"");
    }
    // Merges are spelled without affixes; a prefix longer than a token underflows in the library.
    for (key, value) in [
        ("model.continuing_subword_prefix", &model["continuing_subword_prefix"]),
        ("model.end_of_word_suffix", &model["end_of_word_suffix"]),
    ] {
        if !value.is_null() && value != "" {
            return refuse(key, value, "null or an empty string");
        }
    }
    if model["dropout"].as_f64().is_some_and(|p| p != 0.0) {
        return refuse("model.dropout", &model["dropout"], "null: the same text must give the same ids");
    }
    let normalizer = &json["normalizer"];
    if normalizer.to_string().contains("\"Precompiled\"") {
        return refuse("normalizer", normalizer, "a Unicode normal form or null");
    }
    let decoder = &json["decoder"];
    if decoder["type"] != "ByteLevel" {
        return refuse("decoder", decoder, "a decoder of type \"ByteLevel\"");
    }

    // Some files carry the truncation or padding of a training script; both would silently change ids here.
    let set = |key: &str| json.get(key).is_some_and(|value| !value.is_null());
    let stripped = if set("truncation") || set("padding") {
        json["truncation"] = Value::Null;
        json["padding"] = Value::Null;
        Some(json.to_string())
    } else {
        None
    };
    let bytes = stripped.as_deref().map_or(files.get(TOKENIZER).unwrap_or_default(), str::as_bytes);
    tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| TokenizerError::Corrupt {
        file: file.clone(),
        expected: "a Hugging Face tokenizer",
        found: e.to_string(),
    })
}
