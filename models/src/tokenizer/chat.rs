//! Conversations as ids, extended turn by turn without ever re-encoding what was sampled.
//!
//! A rollout keeps the ids the policy sampled. What goes around them – closing newline, the user's turn, the next
//! assistant header – is read off the checkpoint's template by rendering conversations whose contents are known and
//! cutting the text at those contents. A template for which the cuts differ from turn to turn is refused.
//!
//! Words of a user or of the policy are data: a special token spelled out in them (`<|im_end|>`) is encoded as the
//! characters it is made of, so nobody can close a turn or open another by writing so.

use tokenizers::{NormalizerWrapper, OffsetReferential, OffsetType};

use super::{ChatMessage, Tokenizer, TokenizerError};

/// How a checkpoint's chat template wraps turns, as ids.
#[derive(Debug, Clone)]
pub struct ChatFormat {
    tokenizer: Tokenizer,
    turn_end: u32,
    /// Text from behind the token that ends a reply to the user's words.
    after_reply: String,
    /// Text from the user's words to the assistant's.
    before_reply: String,
    turn_suffix: Vec<u32>,
    user_header: Vec<u32>,
    assistant_header: Vec<u32>,
}

impl ChatFormat {
    /// Reads the format off the checkpoint's template.
    ///
    /// # Errors
    /// There is no template, it does not render a plain conversation, or it writes earlier turns differently once later
    /// ones follow.
    pub fn probe(tokenizer: &Tokenizer) -> Result<Self, TokenizerError> {
        let file = &tokenizer.template()?.origin;
        let refuse = |reason: String| TokenizerError::NotTurnwise { file: file.clone(), reason };
        let shape = Shape::of(tokenizer, None, PLAIN).and_then(|s| s.map_err(refuse))?;
        for (system, contents) in [(None, SPACED), (Some("A system prompt."), PLAIN), (Some("系统\n提示"), SPACED)]
        {
            match Shape::of(tokenizer, system, contents) {
                Ok(Ok(other)) if other == shape => {}
                Ok(Ok(_)) => return Err(refuse("the text around a turn depends on the conversation".to_owned())),
                Ok(Err(reason)) => return Err(refuse(reason)),
                // A template may refuse system messages; conversations without one are then all it has.
                Err(_) if system.is_some() => {}
                Err(e) => return Err(e),
            }
        }

        let ids = tokenizer.encode(&shape.after_reply);
        let (Some(&turn_end), true) = (ids.first(), ids.first().is_some_and(|&id| tokenizer.is_special(id))) else {
            return Err(refuse(format!("a reply ends with {:?} and not with a special token", shape.after_reply)));
        };
        let literal = tokenizer.id_to_token(turn_end).unwrap_or_default();
        let after_reply = shape.after_reply.strip_prefix(&literal).unwrap_or_default().to_owned();
        let rest = tokenizer.encode(&after_reply);
        let header = rest.iter().position(|&id| tokenizer.is_special(id)).unwrap_or(rest.len());
        Ok(Self {
            tokenizer: tokenizer.clone(),
            turn_end,
            after_reply,
            turn_suffix: rest[..header].to_vec(),
            user_header: rest[header..].to_vec(),
            assistant_header: tokenizer.encode(&shape.before_reply),
            before_reply: shape.before_reply,
        })
    }

    /// The token that ends a turn: sampled by the policy, hence an action.
    pub fn turn_end(&self) -> u32 {
        self.turn_end
    }

    /// What the template adds behind [`turn_end`](Self::turn_end) before anybody's next turn (ChatML: a newline).
    pub fn turn_suffix(&self) -> &[u32] {
        &self.turn_suffix
    }

    /// What opens a user's turn.
    pub fn user_header(&self) -> &[u32] {
        &self.user_header
    }

    /// What stands between a user's words and the assistant's: the end of one turn and the header of the next.
    pub fn assistant_header(&self) -> &[u32] {
        &self.assistant_header
    }

    /// Ids of a conversation up to where the policy starts its reply.
    ///
    /// Equal to encoding the rendered text, except that special tokens spelled out in contents stay plain characters.
    ///
    /// # Errors
    /// The template refuses the conversation.
    pub fn prompt_ids(&self, messages: &[ChatMessage<'_>]) -> Result<Vec<u32>, TokenizerError> {
        let guard = Guard::new(&self.tokenizer, messages.iter().map(|m| m.content));
        let guarded: Vec<String> = messages.iter().map(|m| guard.protect(m.content, m.role)).collect();
        let guarded: Vec<ChatMessage<'_>> =
            messages.iter().zip(&guarded).map(|(m, content)| ChatMessage { role: m.role, content }).collect();
        Ok(guard.encode(&self.tokenizer.render(&guarded, true)?))
    }

    /// Ids to append behind a sampled [`turn_end`](Self::turn_end) so that the policy can reply to `user_text`.
    pub fn continuation_ids(&self, user_text: &str) -> Vec<u32> {
        let guard = Guard::new(&self.tokenizer, [user_text]);
        let user_text = guard.protect(user_text, "user");
        guard.encode(&[&self.after_reply, user_text.as_str(), &self.before_reply].concat())
    }
}

/// Keeps special tokens in contents from being recognised: a character that occurs nowhere is put into each of them
/// before rendering and taken out again once the rendered text has been cut at the template's own special tokens.
struct Guard<'t> {
    tokenizer: &'t Tokenizer,
    mark: char,
    special: Vec<String>,
    ordinary: Vec<String>,
}

impl<'t> Guard<'t> {
    fn new<'a>(tokenizer: &'t Tokenizer, contents: impl IntoIterator<Item = &'a str> + Clone) -> Self {
        // Unicode noncharacters, then a plane of private use: more candidates than a context window has characters.
        let unused = |mark: &char| contents.clone().into_iter().all(|text| !text.contains(*mark));
        let mark = ('\u{fdd0}'..='\u{fdef}').chain('\u{f0000}'..='\u{10fffd}').find(unused).unwrap_or('\u{fdd0}');
        let added = tokenizer.0.inner.get_added_vocabulary().get_added_tokens_decoder().values();
        let (special, ordinary): (Vec<_>, Vec<_>) = added.partition(|token| token.special);
        let spelled = |tokens: Vec<&tokenizers::AddedToken>| tokens.iter().map(|t| t.content.clone()).collect();
        Self { tokenizer, mark, special: spelled(special), ordinary: spelled(ordinary) }
    }

    /// The content with special tokens broken up. Added tokens that are not special (`<tool_call>`, in some checkpoints
    /// `<think>`) are part of how the policy and its instructions write, and are kept there; a user writes none.
    fn protect(&self, content: &str, role: &str) -> String {
        let also: &[String] = if matches!(role, "assistant" | "system") { &[] } else { &self.ordinary };
        let mut text = content.to_owned();
        for token in self.special.iter().chain(also).filter(|token| content.contains(token.as_str())) {
            let mut rest = token.chars();
            if let Some(first) = rest.next() {
                text = text.replace(token, &format!("{first}{}{}", self.mark, rest.as_str()));
            }
        }
        text
    }

    /// Ids of rendered text: the template's added tokens are recognised, all else is plain.
    fn encode(&self, rendered: &str) -> Vec<u32> {
        let added = self.tokenizer.0.inner.get_added_vocabulary();
        let pieces = added.extract_and_normalize::<NormalizerWrapper>(None, rendered);
        let mut ids = Vec::new();
        for (text, _, tokens) in pieces.get_splits(OffsetReferential::Original, OffsetType::None) {
            match tokens {
                Some(tokens) => ids.extend(tokens.iter().map(|token| token.id)),
                None => ids.extend(self.tokenizer.encode_plain(&text.replace(self.mark, ""))),
            }
        }
        ids
    }
}

/// Contents of a probed conversation, user and assistant by turns; each occurs once and in no template.
type Contents = [&'static str; 5];
const PLAIN: Contents = ["Uone1", "Aone2", "Utwo3", "Atwo4", "Uthree5"];
/// White space inside and outside: a template that trims would make continued and rendered conversations differ.
const SPACED: Contents = [" 一 1\n", "\tzwei 2 ", " trois\n3 ", "quatro 4\n\n", "  fünf  5 "];

/// The text a template puts around contents.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    before_reply: String,
    after_reply: String,
}

impl Shape {
    /// Renders a conversation of two and a half exchanges and cuts it at its contents. The outer error is the
    /// template's, the inner one the property that does not hold.
    fn of(
        tokenizer: &Tokenizer,
        system: Option<&str>,
        contents: Contents,
    ) -> Result<Result<Self, String>, TokenizerError> {
        let mut messages: Vec<ChatMessage<'_>> = system.map(ChatMessage::system).into_iter().collect();
        let first = messages.len();
        let roles = ["user", "assistant"].into_iter().cycle();
        messages.extend(contents.iter().zip(roles).map(|(content, role)| ChatMessage { role, content }));
        let rendered = tokenizer.render(&messages, true)?;

        let mut around = Vec::new();
        let mut rest = rendered.as_str();
        for content in contents {
            let Some((before, after)) = rest.split_once(content) else {
                return Ok(Err(format!("it does not write the content {content:?} of a turn as it is")));
            };
            around.push(before);
            rest = after;
        }
        around.push(rest);
        if around[1] != around[3] || around[1] != around[5] || around[2] != around[4] {
            return Ok(Err(format!("it writes turns in different ways: {around:?}")));
        }
        for turns in [1, 3] {
            let earlier = tokenizer.render(&messages[..first + turns], true)?;
            if !rendered.starts_with(&earlier) {
                return Ok(Err(format!("a conversation of {turns} turns changes when more follow")));
            }
        }
        Ok(Ok(Self { before_reply: around[1].to_owned(), after_reply: around[2].to_owned() }))
    }
}
