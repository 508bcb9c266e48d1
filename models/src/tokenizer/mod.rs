//! Text to ids and back, and conversations to ids, as the checkpoint itself defines them.
//!
//! [`Tokenizer`] reads a checkpoint's byte-level BPE and chat template; [`ChatFormat`] knows how that template can be
//! extended turn by turn, in tokens; [`StreamDecoder`] decodes while a reply is being sampled; [`train_bpe`] makes a
//! small tokenizer of the same kind.

mod bytes;
mod chat;
mod error;
mod files;
mod parse;
mod stream;
mod template;
mod train;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokenizers::{AddedVocabulary, Model, OffsetType, PreTokenizer};

use bytes::TokenBytes;
pub use chat::ChatFormat;
pub use error::TokenizerError;
use files::TokenizerFiles;
pub use stream::StreamDecoder;
pub use template::ChatMessage;
use template::ChatTemplate;
pub use train::{CHATML_TEMPLATE, QWEN_SPECIAL_TOKENS, chatml_config, train_bpe};

/// The token that ends a ChatML turn.
const IM_END: &str = "<|im_end|>";
/// The token that ends a document in the Qwen family; a policy that emits it has stopped, too.
const END_OF_TEXT: &str = "<|endoftext|>";

/// A checkpoint's tokenizer and chat template. Cheap to clone: clones share one vocabulary.
#[derive(Debug, Clone)]
pub struct Tokenizer(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    inner: tokenizers::Tokenizer,
    /// Knows no added token: with it, nothing in a text is special.
    no_added: AddedVocabulary,
    bytes: TokenBytes,
    eos: Vec<u32>,
    template: Option<ChatTemplate>,
    files: TokenizerFiles,
}

impl Tokenizer {
    /// Reads `tokenizer.json` and `tokenizer_config.json` of a model folder, and `chat_template.jinja`,
    /// `special_tokens_map.json` and `generation_config.json` where there are any.
    ///
    /// # Errors
    /// A missing, unreadable or damaged file; a tokenizer that is not byte-level BPE; files that do not belong
    /// together.
    pub fn load(dir: &Path) -> Result<Self, TokenizerError> {
        Self::from_files(TokenizerFiles::read(dir)?)
    }

    /// A tokenizer from the contents of its two files.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn from_bytes(tokenizer_json: &[u8], tokenizer_config_json: &[u8]) -> Result<Self, TokenizerError> {
        Self::from_files(TokenizerFiles::from_bytes(tokenizer_json, tokenizer_config_json))
    }

    fn from_files(files: TokenizerFiles) -> Result<Self, TokenizerError> {
        let inner = parse::parse(&files)?;
        let bytes = TokenBytes::new(&inner, &files.path(files::TOKENIZER))?;
        let config = files.json(files::CONFIG)?.unwrap_or(Value::Null);
        let bos = files.named_token(&config, "bos_token")?;
        let eos_token = files.named_token(&config, "eos_token")?;
        let template =
            files.template(&config)?.map(|(origin, source)| ChatTemplate::new(origin, source, bos, eos_token.clone()));
        let eos = eos_ids(&files, &inner, &bytes, eos_token)?;
        let template = template.transpose()?;
        Ok(Self(Arc::new(Parts { inner, no_added: AddedVocabulary::new(), bytes, eos, template, files })))
    }

    /// Writes the tokenizer's files into `dir` exactly as they were read.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), TokenizerError> {
        self.0.files.write(dir)
    }

    /// Ids of a text. Special tokens written in it are recognised; none are added.
    ///
    /// For text of strangers inside a conversation use [`ChatFormat`], which recognises none.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.encode_with(self.0.inner.get_added_vocabulary(), text)
    }

    /// Ids of a text in which nothing is special: `<|im_end|>` is ten characters like any others.
    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        self.encode_with(&self.0.no_added, text)
    }

    fn encode_with(&self, added: &AddedVocabulary, text: &str) -> Vec<u32> {
        let inner = &self.0.inner;
        let ids = || -> tokenizers::Result<Vec<u32>> {
            let mut pieces = added.extract_and_normalize(inner.get_normalizer(), text);
            if let Some(pre_tokenizer) = inner.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut pieces)?;
            }
            pieces.tokenize(|piece| inner.get_model().tokenize(piece.get()))?;
            Ok(pieces.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
        };
        // Byte-level BPE has an id for every byte, so a piece that the merges cannot take can always be spelled.
        ids().unwrap_or_else(|_| self.0.bytes.spell(text))
    }

    /// Text of ids; `skip_special` leaves out special tokens. Bytes that are not UTF-8 become U+FFFD, ids that the
    /// tokenizer does not have become nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let kept = ids.iter().filter(|&&id| !(skip_special && self.is_special(id)));
        let bytes: Vec<u8> = kept.flat_map(|&id| self.token_bytes(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Number of ids: the highest one, added tokens included, plus one. Model heads may have more rows; those are
    /// never to be sampled.
    pub fn vocab_size(&self) -> usize {
        self.0.bytes.len()
    }

    /// Id of a token, spelled as in `tokenizer.json`.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.0.inner.token_to_id(token)
    }

    /// Token of an id, spelled as in `tokenizer.json`.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.0.inner.id_to_token(id)
    }

    /// Bytes an id stands for: none for an id the tokenizer does not have.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.0.bytes.get(id)
    }

    /// Whether an id is a special token.
    pub fn is_special(&self, id: u32) -> bool {
        self.0.bytes.is_special(id)
    }

    /// Ids that end a reply: the checkpoint's own, and `<|im_end|>` and `<|endoftext|>` where it has them.
    pub fn eos_ids(&self) -> &[u32] {
        &self.0.eos
    }

    /// Id of `<|im_end|>`, where the tokenizer has it as a special token.
    pub fn im_end_id(&self) -> Option<u32> {
        self.token_id(IM_END).filter(|&id| self.is_special(id))
    }

    /// A conversation as the checkpoint's chat template writes it.
    ///
    /// # Errors
    /// There is no template, or it refuses the conversation.
    pub fn render(&self, messages: &[ChatMessage<'_>], add_generation_prompt: bool) -> Result<String, TokenizerError> {
        self.template()?.render(messages, add_generation_prompt)
    }

    fn template(&self) -> Result<&ChatTemplate, TokenizerError> {
        self.0.template.as_ref().ok_or(TokenizerError::NoTemplate)
    }
}

/// End-of-reply ids, the configured one first, without repeats.
fn eos_ids(
    files: &TokenizerFiles,
    inner: &tokenizers::Tokenizer,
    bytes: &TokenBytes,
    eos_token: Option<String>,
) -> Result<Vec<u32>, TokenizerError> {
    let unknown = |name, key, token: String| TokenizerError::UnknownToken {
        file: files.path(name),
        key,
        token,
        vocab_size: bytes.len(),
    };
    let mut ids = Vec::new();
    if let Some(token) = eos_token {
        let id = inner.token_to_id(&token).ok_or_else(|| unknown(files::CONFIG, "eos_token", format!("{token:?}")))?;
        ids.push(id);
    }
    let generation = files.json(files::GENERATION)?.unwrap_or(Value::Null);
    let listed = match &generation["eos_token_id"] {
        Value::Null => Vec::new(),
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    };
    for value in listed {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < bytes.len());
        ids.push(id.ok_or_else(|| unknown(files::GENERATION, "eos_token_id", value.to_string()))?);
    }
    let known = [IM_END, END_OF_TEXT].into_iter().filter_map(|token| inner.token_to_id(token));
    ids.extend(known.filter(|&id| bytes.is_special(id)));
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(*id));
    Ok(ids)
}
