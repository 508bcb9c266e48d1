//! Streaming equals decoding at once, and never shows half a character.

use rlver_models::tokenizer::{StreamDecoder, Tokenizer};

use super::{Numbers, qwen, small, smollm};

fn streamed(tokenizer: &Tokenizer, ids: &[u32], skip_special: bool) -> Vec<String> {
    let mut stream = StreamDecoder::new(tokenizer, skip_special);
    let mut parts: Vec<String> = ids.iter().filter_map(|&id| stream.push(id)).collect();
    parts.extend(stream.flush());
    assert_eq!(stream.flush(), None);
    parts
}

#[test]
fn a_split_character_appears_once_it_is_whole() {
    for tokenizer in [Some(small()), qwen(), smollm()].into_iter().flatten() {
        for text in ["𩸽", "龘", "🧋", "好🧋!"] {
            let parts = streamed(&tokenizer, &tokenizer.encode(text), false);
            assert!(!parts.iter().any(|part| part.contains('\u{fffd}') || part.is_empty()), "{parts:?}");
            assert_eq!(parts.concat(), text);
        }
    }
}

#[test]
fn random_ids_stream_as_they_decode() {
    let mut numbers = Numbers(7);
    for tokenizer in [Some(small()), qwen(), smollm()].into_iter().flatten() {
        // Tokens that are no whole character are rare in a large vocabulary: draw half of the ids from them.
        let pieces: Vec<u32> = (0..tokenizer.vocab_size() as u32)
            .filter(|&id| std::str::from_utf8(tokenizer.token_bytes(id)).is_err())
            .collect();
        for round in 0..2000 {
            let ids: Vec<u32> = (0..numbers.below(24))
                .map(|_| match numbers.below(2) {
                    0 => pieces[numbers.below(pieces.len())],
                    _ => numbers.below(tokenizer.vocab_size() + 2) as u32,
                })
                .collect();
            let skip = round % 2 == 0;
            assert_eq!(streamed(&tokenizer, &ids, skip).concat(), tokenizer.decode(&ids, skip), "{ids:?}");
        }
    }
}

#[test]
fn an_unfinished_character_is_flushed_as_a_replacement() {
    let tokenizer = small();
    let ids = tokenizer.encode("🧋");
    let mut stream = StreamDecoder::new(&tokenizer, true);
    assert_eq!(stream.push(ids[0]), None);
    assert_eq!(stream.flush().as_deref(), Some("\u{fffd}"));
    assert_eq!(stream.push(tokenizer.im_end_id().expect("ChatML")), None);
    assert_eq!(stream.push(u32::MAX), None);
}

#[test]
fn decoding_is_that_of_the_library() {
    let Some(tokenizer) = qwen() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    tokenizer.save(dir.path()).expect("saves");
    let library = tokenizers::Tokenizer::from_file(dir.path().join("tokenizer.json")).expect("loads");
    let mut numbers = Numbers(11);
    for _ in 0..2000 {
        let ids: Vec<u32> = (0..numbers.below(12)).map(|_| numbers.below(151_700) as u32).collect();
        for skip in [false, true] {
            assert_eq!(tokenizer.decode(&ids, skip), library.decode(&ids, skip).expect("decodes"), "{ids:?}");
        }
    }
    for text in ["Hello<|im_end|>\n你好 <tool_call>x", " \u{a0}\r\n\t ", "e\u{301}\u{327}"] {
        assert_eq!(tokenizer.encode(text), library.encode_fast(text, false).expect("encodes").get_ids());
    }
}

#[test]
fn very_long_texts_are_encoded_whole() {
    for tokenizer in [Some(small()), qwen(), smollm()].into_iter().flatten() {
        for text in [" ".repeat(300_000), "\n ".repeat(100_000), "a".repeat(300_000), "好".repeat(100_000)] {
            assert!(tokenizer.decode(&tokenizer.encode(&text), false) == text);
        }
    }
}
