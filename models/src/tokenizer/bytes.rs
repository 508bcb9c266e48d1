//! The bytes every id stands for.
//!
//! A byte-level BPE spells each byte as one printable character (GPT-2's table); a token is a string of those. Ids are
//! turned back into bytes here once, so that decoding is a lookup and streaming needs no look-back.

use tokenizers::{Model, Tokenizer};

use super::TokenizerError;

/// Bytes of all ids, in one allocation.
#[derive(Debug)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    /// Where the bytes of id `i` end; they start where those of `i − 1` end.
    ends: Vec<u32>,
    special: Vec<bool>,
    /// The id of each single byte, where the vocabulary has one.
    single: [Option<u32>; 256],
}

impl TokenBytes {
    /// Spells out the vocabulary of `inner`, or says what is wrong with its ids.
    pub(super) fn new(inner: &Tokenizer, file: &str) -> Result<Self, TokenizerError> {
        let unsupported = |found: String, expected| {
            Err(TokenizerError::Unsupported { file: file.to_owned(), key: "model.vocab", found, expected })
        };
        let mut tokens: Vec<(u32, String, bool)> =
            inner.get_model().get_vocab().into_iter().map(|(token, id)| (id, token, false)).collect();
        // Added tokens come later in the stable sort, so that where an id has two spellings theirs is kept.
        tokens.extend(inner.get_added_tokens_decoder().into_iter().map(|(id, t)| (id, t.content, t.special)));
        tokens.sort_by_key(|(id, ..)| *id);
        let Some(&(highest, ..)) = tokens.last() else {
            return unsupported("empty".to_owned(), "at least one token");
        };
        // A table is as long as the highest id: a damaged id must not ask for gigabytes.
        if highest as usize > 2 * tokens.len() + 1024 {
            let found = format!("{} tokens with ids up to {highest}", tokens.len());
            return unsupported(found, "ids without large holes");
        }

        let from_char = byte_of_char();
        let mut table = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(highest as usize + 1),
            special: vec![false; highest as usize + 1],
            single: [None; 256],
        };
        let mut at = 0;
        for id in 0..=highest {
            let first = at;
            while tokens.get(at).is_some_and(|(i, ..)| *i == id) {
                at += 1;
            }
            if let Some((_, token, special)) = tokens[first..at].last() {
                let start = table.bytes.len();
                // Added tokens may hold characters outside the table: those stand for themselves, as in `tokenizers`.
                match token.chars().map(|c| from_char.get(c as usize).copied().flatten()).collect::<Option<Vec<u8>>>() {
                    Some(bytes) => table.bytes.extend(bytes),
                    None => table.bytes.extend(token.as_bytes()),
                }
                if let [byte] = table.bytes[start..] {
                    table.single[byte as usize].get_or_insert(id);
                }
                table.special[id as usize] = *special;
            }
            table.ends.push(u32::try_from(table.bytes.len()).unwrap_or(u32::MAX));
        }
        Ok(table)
    }

    /// The highest id, plus one.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of an id; none for an id the tokenizer does not have.
    pub(super) fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Whether the id is marked special (skipped when text for a reader is decoded).
    pub(super) fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// The text spelled with one id a byte.
    pub(super) fn spell(&self, text: &str) -> Vec<u32> {
        text.bytes().filter_map(|b| self.single[b as usize]).collect()
    }
}

/// GPT-2's table, read backwards: printable Latin-1 characters are their own byte, the other 68 bytes are written as
/// the characters from U+0100 on, in order.
fn byte_of_char() -> Vec<Option<u8>> {
    let mut table = vec![None; 256 + 68];
    let mut next = 256;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let code = if printable {
            usize::from(byte)
        } else {
            next += 1;
            next - 1
        };
        table[code] = Some(byte);
    }
    table
}
