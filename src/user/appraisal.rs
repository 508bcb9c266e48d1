use serde::{Deserialize, Serialize};

/// How a simulated user takes one reply: the five-field chain of SAGE and RLVER, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appraisal {
    /// What the reply says and does.
    pub content: String,
    /// How well it fits the hidden intention.
    pub fit: String,
    /// What goes on in the user.
    pub activity: String,
    /// How the user feels about the reply.
    pub feeling: String,
    /// The signed change of the emotion, within ±10.
    pub change: i8,
}

impl Appraisal {
    /// Largest change one reply can make, in either direction.
    pub const MAX_CHANGE: i32 = 10;
}
