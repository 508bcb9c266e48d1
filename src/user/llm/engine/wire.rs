//! The JSON of the chat-completions protocol.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ChatRequest, Completion};

/// How the server is told that it should answer with JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// A schema; where the server refuses it, an object; where it refuses that, words alone.
    #[default]
    Auto,
    /// `json_schema` with the answer's schema.
    JsonSchema,
    /// `json_object`; with the schema in it, as llama.cpp's Python server takes it and others ignore it.
    JsonObject,
    /// Nothing but the words of the prompt.
    Text,
}

impl ResponseFormat {
    /// What is tried, in order.
    pub(super) fn attempts(self) -> &'static [ResponseFormat] {
        use ResponseFormat::{Auto, JsonObject, JsonSchema, Text};
        match self {
            Auto => &[JsonSchema, JsonObject, Text],
            JsonSchema => &[JsonSchema],
            JsonObject => &[JsonObject],
            Text => &[Text],
        }
    }
}

/// The body of a request.
pub(super) fn body(model: &str, request: &ChatRequest<'_>, format: ResponseFormat) -> Value {
    let sampling = request.sampling;
    let mut body = json!({
        "model": model,
        "messages": request.messages,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        // Many servers read a signed 32-bit number.
        "seed": sampling.seed >> 33,
        "stream": false,
    });
    let shape = request.shape;
    match format {
        ResponseFormat::JsonSchema | ResponseFormat::Auto => {
            let schema = json!({"name": shape.name, "strict": true, "schema": shape.schema(false)});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        ResponseFormat::JsonObject => {
            body["response_format"] = json!({"type": "json_object", "schema": shape.schema(true)});
        }
        ResponseFormat::Text => {}
    }
    body
}

/// Reads the body of a successful response.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn read(bytes: &[u8]) -> Result<Completion, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| format!("its answer is no JSON ({e})"))?;
    if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
        return Err(format!("it reports {error}"));
    }
    let choice = value.pointer("/choices/0").ok_or("its answer has no choices")?;
    let finish = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
    let text = choice.pointer("/message/content").and_then(Value::as_str);
    let text = text.ok_or_else(|| format!("its answer has no content (finish_reason \"{finish}\")"))?;
    let tokens = |key: &str| value.get("usage").and_then(|u| u.get(key)).and_then(Value::as_u64).unwrap_or(0);
    Ok(Completion {
        text: text.into(),
        truncated: finish == "length",
        prompt_tokens: tokens("prompt_tokens"),
        completion_tokens: tokens("completion_tokens"),
    })
}
