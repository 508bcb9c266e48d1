//! The checkpoint's own chat template, rendered as `transformers` renders it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::TokenizerError;

/// One message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChatMessage<'a> {
    /// `system`, `user` or `assistant`.
    pub role: &'a str,
    /// What was said.
    pub content: &'a str,
}

impl<'a> ChatMessage<'a> {
    /// A message of the system.
    pub fn system(content: &'a str) -> Self {
        Self { role: "system", content }
    }

    /// A message of the user.
    pub fn user(content: &'a str) -> Self {
        Self { role: "user", content }
    }

    /// A message of the policy.
    pub fn assistant(content: &'a str) -> Self {
        Self { role: "assistant", content }
    }
}

/// What the template is called inside its engine.
const NAME: &str = "chat_template";

/// A template, compiled when it is made.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    env: Environment<'static>,
    /// The file the template stands in.
    pub(super) origin: String,
    bos: Option<String>,
    eos: Option<String>,
}

impl ChatTemplate {
    /// Compiles a template in the dialect chat templates are written in.
    ///
    /// `tools` and `strftime_now` stay undefined: the same conversation is the same text on any day.
    pub(super) fn new(
        origin: String,
        source: String,
        bos: Option<String>,
        eos: Option<String>,
    ) -> Result<Self, TokenizerError> {
        let mut env = Environment::new();
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        env.add_filter("tojson", to_json);
        let compiled = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map(|syntax| env.set_syntax(syntax))
            .and_then(|()| env.add_template_owned(NAME, source));
        compiled.map_err(|e| failure(&origin, &e, &[]))?;
        Ok(Self { env, origin, bos, eos })
    }

    /// Renders a conversation, with the header of the next assistant turn where asked.
    pub(super) fn render(&self, messages: &[ChatMessage<'_>], open: bool) -> Result<String, TokenizerError> {
        // Undefined, not none: templates ask `is defined`.
        let token = |t: &Option<String>| t.as_ref().map_or(Value::UNDEFINED, Value::from);
        let context = context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => open,
            bos_token => token(&self.bos),
            eos_token => token(&self.eos),
        };
        let rendered = self.env.get_template(NAME).and_then(|template| template.render(context));
        rendered.map_err(|e| failure(&self.origin, &e, messages))
    }
}

/// The engine's error with all its causes.
fn failure(origin: &str, error: &Error, messages: &[ChatMessage<'_>]) -> TokenizerError {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        message = format!("{message}: {inner}");
        cause = inner.source();
    }
    let roles: Vec<&str> = messages.iter().map(|m| m.role).collect();
    TokenizerError::Template { file: origin.to_owned(), message, roles: roles.join(", ") }
}

/// `tojson` as `transformers` has it: Python's separators, nothing escaped for HTML, `indent` on request.
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let fail = |e: serde_json::Error| Error::new(ErrorKind::BadSerialization, e.to_string());
    let mut out = Vec::new();
    match indent {
        Some(width) => {
            // An indent wider than this is a mistake, and would be allocated.
            let spaces = " ".repeat(width.min(16));
            value.serialize(&mut Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(spaces.as_bytes())))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, PythonStyle)),
    }
    .map_err(fail)?;
    String::from_utf8(out).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
}

/// `json.dumps` writes `", "` and `": "`.
struct PythonStyle;

impl PythonStyle {
    fn comma<W: ?Sized + std::io::Write>(writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
}

impl Formatter for PythonStyle {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        Self::comma(writer, first)
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        Self::comma(writer, first)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}
