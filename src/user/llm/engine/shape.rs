use serde_json::{Value, json};

/// A JSON object that an answer should be: its fields in the order in which they are to be thought out. Without fields
/// ([`AnswerShape::WORDS`]) it is no object but words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerShape {
    /// Name of the shape (letters and underscores).
    pub name: &'static str,
    /// The fields, all required; none for words.
    pub fields: &'static [Field],
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// What it holds.
    pub kind: FieldKind,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A text of about this many characters at most.
    Text(usize),
    /// A whole number from the first to the second.
    Integer(i8, i8),
    /// True or false.
    Flag,
}

impl AnswerShape {
    /// Words, as a dialogue's reply is.
    pub const WORDS: AnswerShape = AnswerShape { name: "words", fields: &[] };

    /// Whether the answer is words and no object.
    pub fn is_words(&self) -> bool {
        self.fields.is_empty()
    }

    /// The shape as a JSON schema. `bounded` adds the length limits, which some servers enforce and others refuse.
    pub fn schema(&self, bounded: bool) -> Value {
        let property = |field: &Field| match field.kind {
            FieldKind::Text(most) if bounded => json!({"type": "string", "maxLength": most}),
            FieldKind::Text(_) => json!({"type": "string"}),
            FieldKind::Integer(least, most) if bounded => json!({"type": "integer", "minimum": least, "maximum": most}),
            FieldKind::Integer(..) => json!({"type": "integer"}),
            FieldKind::Flag => json!({"type": "boolean"}),
        };
        let properties: serde_json::Map<String, Value> =
            self.fields.iter().map(|field| (field.name.to_string(), property(field))).collect();
        let required: Vec<&str> = self.fields.iter().map(|field| field.name).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}
