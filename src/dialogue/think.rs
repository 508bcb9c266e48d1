//! Think-then-say: reading a policy's raw text.
//!
//! A well-formed reply is `<think>` thoughts `</think>` reply, with each tag exactly once, in this order, nothing but
//! white space before the first tag, and neither part empty. The user hears the reply only; thoughts never enter the
//! history of later turns. A malformed reply gives the whole dialogue reward 0 (RLVER, section 2.3).

/// The opening tag.
pub const OPEN: &str = "<think>";
/// The closing tag.
pub const CLOSE: &str = "</think>";

/// How the policy is asked to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyMode {
    /// The reply alone.
    #[default]
    Direct,
    /// Thoughts first, then the reply.
    Think,
}

/// A policy's turn, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The thoughts, in think mode.
    pub thought: Option<String>,
    /// What the user hears.
    pub text: String,
    /// Whether the format was kept.
    pub well_formed: bool,
}

/// Reads raw text in the given mode.
///
/// In direct mode everything is the reply. Malformed think output still yields what the user would hear: the text
/// after the last closing tag, or all of it.
pub fn parse(raw: &str, mode: ReplyMode) -> Reply {
    if mode == ReplyMode::Direct {
        return Reply { thought: None, text: raw.trim().into(), well_formed: true };
    }
    if let Some((thought, text)) = split(raw) {
        return Reply { thought: Some(thought.into()), text: text.into(), well_formed: true };
    }
    let heard = raw.rsplit_once(CLOSE).map_or(raw, |(_, after)| after);
    Reply { thought: None, text: heard.trim().into(), well_formed: false }
}

fn split(raw: &str) -> Option<(&str, &str)> {
    let (thought, text) = raw.trim().strip_prefix(OPEN)?.split_once(CLOSE)?;
    let once = [thought, text].iter().all(|part| !part.contains(OPEN) && !part.contains(CLOSE));
    let (thought, text) = (thought.trim(), text.trim());
    (once && !thought.is_empty() && !text.is_empty()).then_some((thought, text))
}

/// Writes thoughts and reply as a policy should.
pub fn format(thought: &str, text: &str) -> String {
    format!("{OPEN}\n{thought}\n{CLOSE}\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_output_is_taken_apart() {
        let reply = parse(&format("sad", "I am here."), ReplyMode::Think);
        assert_eq!(reply, Reply { thought: Some("sad".into()), text: "I am here.".into(), well_formed: true });
    }

    #[test]
    fn every_way_to_break_the_format_is_seen() {
        for (raw, heard) in [
            ("no tags", "no tags"),
            ("<think>a</think>", ""),
            ("<think></think>b", "b"),
            ("<think>a<think>b</think>c", "c"),
            ("<think>a</think>b</think>c", "c"),
            ("a</think>b", "b"),
            ("<think>a b", "<think>a b"),
            ("hello <think>a</think>b", "b"),
            ("<think>a</think>b<think>", "b<think>"),
            ("", ""),
        ] {
            let reply = parse(raw, ReplyMode::Think);
            assert!(!reply.well_formed, "{raw:?}");
            assert_eq!(reply.text, heard, "{raw:?}");
        }
    }

    #[test]
    fn direct_mode_takes_everything_as_the_reply() {
        assert_eq!(parse(" <think>x ", ReplyMode::Direct).text, "<think>x");
    }
}
