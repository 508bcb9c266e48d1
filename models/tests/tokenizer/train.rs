//! Training is deterministic and gives a tokenizer of Qwen2.5's kind.

use rlver_models::tokenizer::{QWEN_SPECIAL_TOKENS, Tokenizer, TokenizerError, chatml_config, train_bpe};

use super::{CORPUS, Numbers, small};

#[test]
fn the_same_texts_give_the_same_bytes() {
    // Many words with equal counts, so that ties decide most merges.
    let mut numbers = Numbers(3);
    let texts: Vec<String> = (0..400)
        .map(|_| {
            let word = |n: &mut Numbers| -> String {
                (0..3).map(|_| ['a', 'e', 'n', '你', '好', '吗'][n.below(6)]).collect()
            };
            (0..12).map(|_| word(&mut numbers) + " ").collect()
        })
        .collect();
    let train =
        |order: &[String]| train_bpe(order.iter().map(String::as_str), 600, &QWEN_SPECIAL_TOKENS).expect("trains");
    let first = train(&texts);
    for _ in 0..4 {
        assert!(train(&texts) == first, "a second training gave other bytes");
    }
    let mut turned = texts.clone();
    turned.reverse();
    assert!(train(&turned) == first, "the order of texts does not matter");
}

/// The hash of a known training, so that another process, machine or library version is held to it as well.
#[test]
fn the_bytes_are_the_same_in_every_process() {
    let json = train_bpe(CORPUS.into_iter(), 400, &QWEN_SPECIAL_TOKENS).expect("trains");
    let fnv = json.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    assert_eq!(format!("{fnv:016x}"), "eb6807a330e0be33");
}

#[test]
fn ids_are_specials_then_bytes_then_merges() {
    let tokenizer = small();
    for (id, token) in QWEN_SPECIAL_TOKENS.iter().enumerate() {
        assert_eq!(tokenizer.token_id(token), Some(id as u32));
        assert!(tokenizer.is_special(id as u32));
    }
    assert!((3..259).all(|id| tokenizer.token_bytes(id).len() == 1));
    assert!((259..tokenizer.vocab_size() as u32).all(|id| tokenizer.token_bytes(id).len() > 1));
    assert!(tokenizer.vocab_size() > 300 && tokenizer.vocab_size() <= 400);
    assert_eq!(tokenizer.encode("2048").len(), 4, "digits stand alone");
    assert_eq!(tokenizer.encode("e\u{301}"), tokenizer.encode("é"), "texts are composed first (NFC)");
    assert!(tokenizer.encode("I hear you").len() < 6, "frequent words have merged");
}

/// What a small network has to copy must look the same wherever it stands.
#[test]
fn a_word_is_the_same_tokens_wherever_it_stands() {
    let texts = ["他说：经理骂人。经理骂人，她说“经理骂人”。 We met:\tthe boss, “the boss”; (the boss) the boss!"; 20];
    let json = train_bpe(texts.into_iter(), 600, &QWEN_SPECIAL_TOKENS).expect("trains");
    let tokenizer = Tokenizer::from_bytes(&json, &chatml_config()).expect("loads");
    let alone = tokenizer.encode("经理骂人");
    assert_eq!(alone.len(), 4, "each Chinese character is one token");
    for around in ["他说：经理骂人。", "。经理骂人，", "“经理骂人”", "说经理骂人的"] {
        let ids = tokenizer.encode(around);
        assert!(ids.windows(4).any(|w| w == alone), "{around}: {ids:?} instead of {alone:?}");
    }
    let boss = tokenizer.encode("the boss");
    for around in ["“the boss”", "(the boss)", "\tthe boss!"] {
        let ids = tokenizer.encode(around);
        assert!(ids.windows(boss.len()).any(|w| w == boss), "{around}: {ids:?} instead of {boss:?}");
    }
}

#[test]
fn impossible_requests_are_refused() {
    for (size, specials) in [(258, &["a", "b", "c"][..]), (0, &[]), (300, &["a", "a"]), (300, &[""])] {
        let refused = train_bpe(CORPUS.into_iter(), size, specials);
        assert!(matches!(refused, Err(TokenizerError::Training { .. })), "{size} {specials:?}");
    }
    assert!(train_bpe(std::iter::empty(), 300, &QWEN_SPECIAL_TOKENS).is_ok(), "bytes alone are a vocabulary");
}
