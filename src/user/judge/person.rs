//! Who judges: the profile as far as the emotion model reads it.

use std::collections::HashSet;

use crate::dialogue::{CharacterType, HiddenIntention, Language, Profile};
use crate::user::builtin::lexicon::lexicon;
use crate::user::builtin::text::Text;

/// A person whose emotion is modelled. Persona and scene are optional: recorded dialogues name only character type and
/// hidden intention, the rest comes from a profiles file.
#[derive(Debug, Clone)]
pub struct Person {
    /// The language the person speaks.
    pub language: Language,
    /// What the person secretly wants.
    pub intention: HiddenIntention,
    /// The main character type.
    pub character: CharacterType,
    /// Content items of persona and scene; empty when they are unknown.
    pub(super) story: HashSet<u64>,
}

impl Person {
    /// Everything a profile tells.
    pub fn of(profile: &Profile) -> Person {
        let language = profile.language();
        let stop = &lexicon(language).stop;
        let mut story: HashSet<u64> = Text::new(&profile.scene, language).items(stop).into_iter().collect();
        story.extend(Text::new(&profile.player, language).items(stop));
        Person { language, intention: profile.intention(), character: profile.character(), story }
    }

    /// A person of whom only type and hidden intention are known.
    pub fn known_by(intention: HiddenIntention, character: CharacterType, language: Language) -> Person {
        Person { language, intention, character, story: HashSet::new() }
    }
}
