//! Decoding while tokens are still coming.

use super::Tokenizer;

/// Turns ids into text as they arrive, never cutting a character in half.
///
/// Emoji and rare Hanzi are often split over two or three tokens; their bytes wait here until the character is whole.
/// All pushes and the final [`flush`](Self::flush) together give exactly what [`Tokenizer::decode`] gives for the whole
/// sequence, and each push costs only the bytes of its own token.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    skip_special: bool,
    /// The start of a character, at most three bytes between pushes.
    pending: Vec<u8>,
}

impl StreamDecoder {
    /// A decoder at the start of a text; `skip_special` leaves out ids such as `<|im_end|>`.
    pub fn new(tokenizer: &Tokenizer, skip_special: bool) -> Self {
        Self { tokenizer: tokenizer.clone(), skip_special, pending: Vec::new() }
    }

    /// Takes the next id and returns the text it completed, if any.
    ///
    /// Bytes that can never become a character come out as U+FFFD.
    pub fn push(&mut self, id: u32) -> Option<String> {
        if self.skip_special && self.tokenizer.is_special(id) {
            return None;
        }
        self.pending.extend_from_slice(self.tokenizer.token_bytes(id));
        let mut text = String::new();
        let mut done = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            // The last chunk's invalid part may be the start of a character: only then more bytes can mend it.
            let invalid = chunk.invalid();
            let unfinished = done + invalid.len() == self.pending.len()
                && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
            if unfinished {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                done += invalid.len();
            }
        }
        self.pending.drain(..done);
        (!text.is_empty()).then_some(text)
    }

    /// Ends the text: what was left of an unfinished character comes out as U+FFFD.
    pub fn flush(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.pending);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }
}
