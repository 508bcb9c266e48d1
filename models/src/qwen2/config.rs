use std::path::Path;

use serde_json::{Map, Value, json};

use rlver_kernels::host::DecoderShape;

use crate::ModelError;

/// Architecture of a Qwen2 or Qwen2.5 model, as Hugging Face's `config.json` describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Qwen2Config {
    /// Rows of the embedding; may exceed the tokenizer's ids.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Number of query heads.
    pub num_attention_heads: usize,
    /// Number of key/value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Longest sequence the model was made for.
    pub max_position_embeddings: usize,
    /// ε of the normalisations.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether the output projection is the embedding.
    pub tie_word_embeddings: bool,
    /// Whether the q, k and v projections have a bias.
    pub attention_bias: bool,
    /// Standard deviation of freshly initialised weights.
    pub initializer_range: f64,
    /// Every key as it was read, so that saving keeps what we do not interpret.
    raw: Map<String, Value>,
}

/// Sizes of a model made from scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qwen2Shape {
    /// See [`Qwen2Config`] for all fields.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key/value heads.
    pub kv_heads: usize,
    /// Longest sequence.
    pub max_positions: usize,
}

impl Qwen2Config {
    /// A configuration for a new model with a tied head and Qwen2.5's conventions.
    pub fn new(shape: Qwen2Shape) -> Qwen2Config {
        let raw = json!({
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "hidden_size": shape.hidden_size,
            "initializer_range": 1.0 / (shape.hidden_size as f64).sqrt(),
            "intermediate_size": shape.intermediate_size,
            "max_position_embeddings": shape.max_positions,
            "num_attention_heads": shape.heads,
            "num_hidden_layers": shape.layers,
            "num_key_value_heads": shape.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10_000.0,
            "tie_word_embeddings": true,
            "torch_dtype": "float32",
            "use_cache": true,
            "use_sliding_window": false,
            "vocab_size": shape.vocab_size,
        });
        Qwen2Config::parse(Path::new("new configuration"), raw).expect("a valid literal")
    }

    /// Reads `config.json` of a model folder.
    ///
    /// # Errors
    /// When a key is missing, mistyped or asks for something that is not implemented; the error names the key.
    pub fn load(folder: &Path) -> Result<Qwen2Config, ModelError> {
        let path = folder.join("config.json");
        let bytes = std::fs::read(&path).map_err(|e| ModelError::read(&path, e))?;
        Qwen2Config::from_json(&path, &bytes)
    }

    /// Reads the contents of a `config.json`; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`Qwen2Config::load`].
    pub fn from_json(path: &Path, json: &[u8]) -> Result<Qwen2Config, ModelError> {
        let value = serde_json::from_slice(json).map_err(|e| ModelError::Config {
            path: path.into(),
            key: "(json)".into(),
            problem: format!("cannot be parsed: {e}"),
        })?;
        Qwen2Config::parse(path, value)
    }

    fn parse(path: &Path, value: Value) -> Result<Qwen2Config, ModelError> {
        let Value::Object(raw) = value else {
            return Err(ModelError::Config {
                path: path.into(),
                key: "(json)".into(),
                problem: "must be an object".into(),
            });
        };
        let keys = Keys { path, raw: &raw };
        keys.refuse_unsupported()?;
        let num_attention_heads = keys.count("num_attention_heads")?;
        let hidden_size = keys.count("hidden_size")?;
        let num_key_value_heads = if raw.contains_key("num_key_value_heads") {
            keys.count("num_key_value_heads")?
        } else {
            num_attention_heads
        };
        let head_dim = match raw.get("head_dim") {
            None | Some(Value::Null) => hidden_size / num_attention_heads,
            Some(_) => keys.count("head_dim")?,
        };
        if !num_attention_heads.is_multiple_of(num_key_value_heads) {
            return Err(keys.wrong("num_key_value_heads", "must divide num_attention_heads"));
        }
        if head_dim == 0 || !head_dim.is_multiple_of(2) {
            return Err(keys.wrong("head_dim", "must be even and above 0"));
        }
        Ok(Qwen2Config {
            vocab_size: keys.count("vocab_size")?,
            hidden_size,
            intermediate_size: keys.count("intermediate_size")?,
            num_hidden_layers: keys.count("num_hidden_layers")?,
            num_attention_heads,
            num_key_value_heads,
            head_dim,
            max_position_embeddings: keys.count("max_position_embeddings")?,
            rms_norm_eps: keys.number("rms_norm_eps", 1e-6)? as f32,
            rope_theta: keys.rope_theta()?,
            tie_word_embeddings: keys.flag("tie_word_embeddings", false)?,
            attention_bias: keys.flag("attention_bias", true)?,
            initializer_range: keys.number("initializer_range", 0.02)?,
            raw: raw.clone(),
        })
    }

    /// The `config.json` to save beside weights of the given type (`float32`, `bfloat16` …); `value_head` describes a
    /// critic (`Qwen2ForTokenClassification` with one label).
    pub fn to_json(&self, dtype: &str, value_head: bool) -> Value {
        let mut raw = self.raw.clone();
        let dtype_key = if raw.contains_key("dtype") { "dtype" } else { "torch_dtype" };
        raw.insert(dtype_key.into(), dtype.into());
        if value_head {
            raw.insert("architectures".into(), json!(["Qwen2ForTokenClassification"]));
            raw.insert("num_labels".into(), 1.into());
            raw.insert("id2label".into(), json!({"0": "value"}));
            raw.insert("label2id".into(), json!({"value": 0}));
        }
        Value::Object(raw)
    }

    /// The sizes that the host's decoder needs.
    pub(crate) fn decoder_shape(&self) -> DecoderShape {
        DecoderShape {
            hidden: self.hidden_size,
            intermediate: self.intermediate_size,
            vocabulary: self.vocab_size,
            layers: self.num_hidden_layers,
            heads: self.num_attention_heads,
            kv_heads: self.num_key_value_heads,
            head_dim: self.head_dim,
            rms_norm_eps: self.rms_norm_eps,
            rope_theta: self.rope_theta,
        }
    }

    /// Number of parameters without a value head.
    pub fn num_parameters(&self) -> usize {
        let (h, f) = (self.hidden_size, self.intermediate_size);
        let (q, kv) = (self.num_attention_heads * self.head_dim, self.num_key_value_heads * self.head_dim);
        let bias = if self.attention_bias { q + 2 * kv } else { 0 };
        let block = h * q * 2 + h * kv * 2 + bias + 3 * h * f + 2 * h;
        let head = if self.tie_word_embeddings { 0 } else { self.vocab_size * h };
        self.vocab_size * h + self.num_hidden_layers * block + h + head
    }
}

/// Typed access to the keys with errors that name them.
struct Keys<'a> {
    path: &'a Path,
    raw: &'a Map<String, Value>,
}

impl Keys<'_> {
    fn wrong(&self, key: &str, problem: &str) -> ModelError {
        let found = self.raw.get(key).map_or("nothing".to_string(), Value::to_string);
        ModelError::Config { path: self.path.into(), key: key.into(), problem: format!("{problem}; found {found}") }
    }

    fn unsupported(&self, key: &str, found: &Value, supported: &'static str) -> ModelError {
        ModelError::Unsupported { path: self.path.into(), key: key.into(), found: found.to_string(), supported }
    }

    fn count(&self, key: &str) -> Result<usize, ModelError> {
        match self.raw.get(key).and_then(Value::as_u64) {
            Some(n) if n > 0 && n < 1 << 40 => Ok(n as usize),
            _ => Err(self.wrong(key, "must be a whole number above 0")),
        }
    }

    fn number(&self, key: &str, default: f64) -> Result<f64, ModelError> {
        match self.raw.get(key) {
            None => Ok(default),
            Some(v) => v
                .as_f64()
                .filter(|n| n.is_finite() && *n > 0.0)
                .ok_or_else(|| self.wrong(key, "must be a number above 0")),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, ModelError> {
        match self.raw.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(v) => v.as_bool().ok_or_else(|| self.wrong(key, "must be true or false")),
        }
    }

    /// At top level (transformers before 5) or inside `rope_parameters`.
    fn rope_theta(&self) -> Result<f64, ModelError> {
        match self.raw.get("rope_parameters").and_then(|p| p.get("rope_theta")) {
            Some(theta) => theta
                .as_f64()
                .filter(|t| *t > 0.0)
                .ok_or_else(|| self.wrong("rope_parameters", "must hold a rope_theta above 0")),
            None => self.number("rope_theta", 10_000.0),
        }
    }

    fn refuse_unsupported(&self) -> Result<(), ModelError> {
        let get = |key: &str| self.raw.get(key).filter(|v| !v.is_null());
        match get("model_type") {
            Some(v) if v == "qwen2" => {}
            other => {
                let found = other.cloned().unwrap_or(Value::Null);
                return Err(self.unsupported("model_type", &found, "qwen2 (Qwen2 and Qwen2.5)"));
            }
        }
        if let Some(v) = get("hidden_act").filter(|v| *v != "silu") {
            return Err(self.unsupported("hidden_act", v, "silu"));
        }
        if let Some(v) = get("use_sliding_window").filter(|v| *v != false) {
            return Err(self.unsupported("use_sliding_window", v, "false"));
        }
        if let Some(v) =
            get("layer_types").filter(|v| v.as_array().is_none_or(|types| types.iter().any(|t| t != "full_attention")))
        {
            return Err(self.unsupported("layer_types", v, "full_attention in every layer"));
        }
        if let Some(v) = get("rope_scaling") {
            return Err(self.unsupported("rope_scaling", v, "null (plain rotary embedding)"));
        }
        if let Some(parameters) = get("rope_parameters")
            && let Some(kind) = parameters.get("rope_type").or_else(|| parameters.get("type"))
            && kind != "default"
        {
            return Err(self.unsupported("rope_parameters.rope_type", kind, "default"));
        }
        if let Some(v) = get("quantization_config") {
            return Err(self.unsupported("quantization_config", v, "f32, f16 or bf16 weights"));
        }
        if let Some(v) = get("attention_dropout").filter(|v| v.as_f64() != Some(0.0)) {
            return Err(self.unsupported("attention_dropout", v, "0.0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: Value) -> Result<Qwen2Config, ModelError> {
        let mut raw = Qwen2Config::new(SHAPE).raw;
        raw.insert(key.into(), value);
        Qwen2Config::parse(Path::new("config.json"), Value::Object(raw))
    }

    const SHAPE: Qwen2Shape = Qwen2Shape {
        vocab_size: 100,
        hidden_size: 16,
        intermediate_size: 32,
        layers: 1,
        heads: 4,
        kv_heads: 2,
        max_positions: 64,
    };

    #[test]
    fn what_is_not_implemented_is_refused_by_name() {
        for (key, value, named) in [
            ("use_sliding_window", json!(true), "use_sliding_window"),
            ("rope_scaling", json!({"type": "yarn", "factor": 4.0}), "rope_scaling"),
            ("rope_parameters", json!({"rope_type": "yarn", "rope_theta": 1e6}), "rope_type"),
            ("quantization_config", json!({"bits": 4}), "quantization_config"),
            ("model_type", json!("llama"), "model_type"),
            ("hidden_act", json!("gelu"), "hidden_act"),
            ("layer_types", json!(["sliding_attention"]), "layer_types"),
            ("num_key_value_heads", json!(3), "num_key_value_heads"),
            ("hidden_size", json!("16"), "hidden_size"),
            ("rms_norm_eps", json!(-1), "rms_norm_eps"),
        ] {
            let error = with(key, value).unwrap_err().to_string();
            assert!(error.contains(named), "{error} should name {named}");
        }
    }

    #[test]
    fn theta_is_read_from_both_places() {
        assert_eq!(with("rope_theta", json!(5e5)).unwrap().rope_theta, 5e5);
        let nested = with("rope_parameters", json!({"rope_type": "default", "rope_theta": 1e6})).unwrap();
        assert_eq!(nested.rope_theta, 1e6);
        assert!(!with("attention_bias", json!(false)).unwrap().attention_bias);
    }
}
