use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The instruction to the policy.
    System,
    /// The simulated (or real) person.
    User,
    /// The policy.
    Assistant,
}

impl Role {
    /// The name chat templates use.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One thing said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    /// Who said it.
    pub role: Role,
    /// What the other side hears (an assistant's thoughts are not part of it).
    pub content: String,
}

/// What was said so far, oldest first, without the system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Transcript(pub Vec<Utterance>);

impl Transcript {
    /// Appends an utterance.
    pub fn push(&mut self, role: Role, content: impl Into<String>) {
        self.0.push(Utterance { role, content: content.into() });
    }

    /// All utterances of `role`, oldest first.
    pub fn said_by(&self, role: Role) -> impl DoubleEndedIterator<Item = &str> {
        self.0.iter().filter(move |u| u.role == role).map(|u| u.content.as_str())
    }
}
