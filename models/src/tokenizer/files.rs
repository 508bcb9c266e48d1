//! The files of a tokenizer folder: read once, kept as they are, written back byte for byte.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::TokenizerError;

pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const CONFIG: &str = "tokenizer_config.json";
pub(super) const TEMPLATE: &str = "chat_template.jinja";
pub(super) const GENERATION: &str = "generation_config.json";
/// Files that may be there; they travel with the tokenizer when they are.
const OPTIONAL: [&str; 3] = [TEMPLATE, "special_tokens_map.json", GENERATION];

/// Raw files of one tokenizer and where they came from.
#[derive(Debug)]
pub(super) struct TokenizerFiles {
    folder: String,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl TokenizerFiles {
    /// Reads the folder's files without looking into them.
    pub(super) fn read(dir: &Path) -> Result<Self, TokenizerError> {
        let mut files = Vec::new();
        for name in [TOKENIZER, CONFIG] {
            let path = dir.join(name);
            files.push((name, fs::read(&path).map_err(|e| TokenizerError::reading(&path, e))?));
        }
        for name in OPTIONAL {
            let path = dir.join(name);
            match fs::read(&path).map_err(|e| TokenizerError::reading(&path, e)) {
                Ok(bytes) => files.push((name, bytes)),
                Err(TokenizerError::Missing { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Self { folder: format!("{}{}", dir.display(), std::path::MAIN_SEPARATOR), files })
    }

    /// The two required files, given as bytes.
    pub(super) fn from_bytes(tokenizer: &[u8], config: &[u8]) -> Self {
        Self { folder: String::new(), files: vec![(TOKENIZER, tokenizer.to_vec()), (CONFIG, config.to_vec())] }
    }

    /// Writes every file into `dir`, which is made if need be.
    pub(super) fn write(&self, dir: &Path) -> Result<(), TokenizerError> {
        fs::create_dir_all(dir).map_err(|e| TokenizerError::writing(dir, e))?;
        for (name, bytes) in &self.files {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|e| TokenizerError::writing(&path, e))?;
        }
        Ok(())
    }

    /// The bytes of a file, if the folder has it.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(n, _)| *n == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// How messages call a file.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    /// A file as JSON, `None` when the folder does not have it.
    pub(super) fn json(&self, name: &str) -> Result<Option<Value>, TokenizerError> {
        let Some(bytes) = self.get(name) else { return Ok(None) };
        let corrupt =
            |found: String| TokenizerError::Corrupt { file: self.path(name), expected: "a JSON object", found };
        match serde_json::from_slice(bytes) {
            Ok(value @ Value::Object(_)) => Ok(Some(value)),
            Ok(other) => Err(corrupt(kind(&other).to_owned())),
            Err(e) => Err(corrupt(e.to_string())),
        }
    }

    /// The chat template and the file it stands in. `chat_template.jinja` wins over `tokenizer_config.json`, as it
    /// does in `transformers`.
    pub(super) fn template(&self, config: &Value) -> Result<Option<(String, String)>, TokenizerError> {
        if let Some(bytes) = self.get(TEMPLATE) {
            let text = String::from_utf8(bytes.to_vec()).map_err(|e| TokenizerError::Corrupt {
                file: self.path(TEMPLATE),
                expected: "UTF-8 text",
                found: e.to_string(),
            })?;
            return Ok(Some((self.path(TEMPLATE), text)));
        }
        let found = match &config["chat_template"] {
            Value::Null => return Ok(None),
            Value::String(text) => Some(text.as_str()),
            Value::Array(named) => named.iter().find(|t| t["name"] == "default").and_then(|t| t["template"].as_str()),
            _ => None,
        };
        let text = found.ok_or_else(|| TokenizerError::Corrupt {
            file: self.path(CONFIG),
            expected: "`chat_template` as a string or a list with a template named \"default\"",
            found: kind(&config["chat_template"]).to_owned(),
        })?;
        Ok(Some((self.path(CONFIG), text.to_owned())))
    }

    /// A token named in `tokenizer_config.json`, as a string or as `{"content": …}`.
    pub(super) fn named_token(&self, config: &Value, key: &'static str) -> Result<Option<String>, TokenizerError> {
        match &config[key] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            Value::Object(token) if token.get("content").is_some_and(Value::is_string) => {
                Ok(token["content"].as_str().map(str::to_owned))
            }
            other => Err(TokenizerError::Unsupported {
                file: self.path(CONFIG),
                key,
                found: kind(other).to_owned(),
                expected: "a string, an object with `content`, or null",
            }),
        }
    }
}

/// What kind of JSON value this is, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
