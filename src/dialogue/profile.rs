use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CharacterType, HiddenIntention, Language};

/// One simulated person: who they are, what happened to them and what they secretly want.
///
/// Reads and writes the published RLVER JSONL (`id, player, scene, main_cha, cha_group, task[, first_talk]`)
/// unchanged; `language`, `setting` and `details` are optional additions of our own profiles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Unique name of the profile.
    pub id: String,
    /// The persona.
    pub player: String,
    /// What happened, and how the person reacts.
    pub scene: String,
    /// Main character type as written; see [`Profile::character`].
    pub main_cha: String,
    /// Trait words.
    pub cha_group: Vec<String>,
    /// The hidden intention as written; see [`Profile::intention`].
    pub task: String,
    /// A fixed opening line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_talk: Option<String>,
    /// The language the person speaks; detected from the scene when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Where the story plays (work, study, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// Facts the person discloses one by one; derived from the scene when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// One thing a simulated person can disclose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detail {
    /// The sentence as spoken.
    pub say: String,
    /// The noun phrase it is about; occurs verbatim in `say`.
    pub key: String,
}

impl Profile {
    /// The hidden intention. Checked when profiles are loaded, so a loaded profile always has one.
    pub fn intention(&self) -> HiddenIntention {
        HiddenIntention::from_task(&self.task).expect("checked on load")
    }

    /// The main character type. Checked when profiles are loaded.
    pub fn character(&self) -> CharacterType {
        CharacterType::from_main_cha(&self.main_cha).expect("checked on load")
    }

    /// The language the person speaks.
    pub fn language(&self) -> Language {
        self.language.or_else(|| Language::detect(&self.scene)).unwrap_or(Language::En)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, value) in [("id", &self.id), ("player", &self.player), ("scene", &self.scene)] {
            if value.trim().is_empty() {
                return Err((key, "is empty".into()));
            }
        }
        if CharacterType::from_main_cha(&self.main_cha).is_none() {
            let found = &self.main_cha;
            return Err((
                "main_cha",
                format!("is \"{found}\"; expected 负面型, 被动型 or 回避型 (negative, passive, avoidant)"),
            ));
        }
        if HiddenIntention::from_task(&self.task).is_none() {
            return Err(("task", format!("\"{}\" is none of the eight hidden intentions", self.task)));
        }
        if let Some(detail) = self.details.iter().find(|d| d.say.trim().is_empty()) {
            return Err(("details", format!("the detail about \"{}\" says nothing", detail.key)));
        }
        Ok(())
    }
}

/// Why a set of profiles cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read profiles from {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not a profile.
    #[error("{origin}, line {line}: key `{key}` {problem}")]
    Line {
        /// File or built-in set.
        origin: String,
        /// 1-based line number.
        line: usize,
        /// The key at fault, or `(json)` when the line is no JSON object.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No profile at all.
    #[error(
        "{origin} holds no profile; expected one JSON object a line with keys id, player, scene, main_cha, cha_group, task"
    )]
    Empty {
        /// File or built-in set.
        origin: String,
    },
}

/// An ordered set of profiles with unique ids.
#[derive(Debug, Clone)]
pub struct ProfileSet {
    origin: String,
    profiles: Vec<Arc<Profile>>,
}

impl ProfileSet {
    /// Reads a JSONL file.
    ///
    /// # Errors
    /// Names the file, the line and the key of the first broken line; refuses an empty set.
    pub fn load(path: &Path) -> Result<ProfileSet, ProfileError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ProfileError::Read { path: path.to_path_buf(), source })?;
        ProfileSet::parse(&path.display().to_string(), &text)
    }

    /// Reads JSONL text; `origin` is what errors call it.
    ///
    /// # Errors
    /// As [`ProfileSet::load`].
    pub fn parse(origin: &str, text: &str) -> Result<ProfileSet, ProfileError> {
        let mut profiles = Vec::new();
        let mut seen = HashSet::new();
        for (index, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let fail = |key: &str, problem: String| ProfileError::Line {
                origin: origin.into(),
                line: index + 1,
                key: key.into(),
                problem,
            };
            let profile = parse_line(line).map_err(|(key, problem)| fail(&key, problem))?;
            profile.check().map_err(|(key, problem)| fail(key, problem))?;
            if !seen.insert(profile.id.clone()) {
                return Err(fail("id", format!("\"{}\" occurs twice", profile.id)));
            }
            profiles.push(Arc::new(profile));
        }
        if profiles.is_empty() {
            return Err(ProfileError::Empty { origin: origin.into() });
        }
        Ok(ProfileSet { origin: origin.into(), profiles })
    }

    /// Every broken line of a JSONL text, not just the first; empty when [`ProfileSet::parse`] would take it.
    pub fn problems(origin: &str, text: &str) -> Vec<ProfileError> {
        let mut problems = Vec::new();
        let mut lines: Vec<&str> = text.lines().collect();
        // A broken line is left out and the rest read again, so that line numbers stay what they are.
        while let Err(error) = ProfileSet::parse(origin, &lines.join("\n")) {
            match &error {
                ProfileError::Line { line, .. } => lines[line - 1] = "",
                _ if !problems.is_empty() => break,
                _ => {
                    problems.push(error);
                    break;
                }
            }
            problems.push(error);
        }
        problems
    }

    /// The profiles we ship for training: zh and en, all intentions and character types evenly.
    pub fn builtin_train() -> ProfileSet {
        ProfileSet::embedded(
            "built-in training profiles",
            [
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/profiles/train.zh.jsonl")),
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/profiles/train.en.jsonl")),
            ],
        )
    }

    /// The profiles we ship for evaluation, disjoint from the training ones.
    pub fn builtin_heldout() -> ProfileSet {
        ProfileSet::embedded(
            "built-in held-out profiles",
            [
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/profiles/heldout.zh.jsonl")),
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/profiles/heldout.en.jsonl")),
            ],
        )
    }

    fn embedded(origin: &str, parts: [&str; 2]) -> ProfileSet {
        let text = parts.map(str::trim_end).join("\n");
        ProfileSet::parse(origin, &text).expect("the embedded profiles are valid; a test checks them")
    }

    /// What errors and reports call this set.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Number of profiles; never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.profiles.len()
    }

    /// The profiles in file order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.profiles.iter()
    }

    /// The profile at `index` (file order).
    pub fn get(&self, index: usize) -> &Arc<Profile> {
        &self.profiles[index]
    }

    /// The profiles for which `keep` holds.
    ///
    /// # Errors
    /// [`ProfileError::Empty`] when none is left.
    pub fn filtered(&self, keep: impl Fn(&Profile) -> bool) -> Result<ProfileSet, ProfileError> {
        let profiles: Vec<_> = self.profiles.iter().filter(|p| keep(p)).cloned().collect();
        if profiles.is_empty() {
            return Err(ProfileError::Empty { origin: format!("{} (after filtering)", self.origin) });
        }
        Ok(ProfileSet { origin: self.origin.clone(), profiles })
    }
}

/// Parses one line, turning serde's messages into (key, problem).
fn parse_line(line: &str) -> Result<Profile, (String, String)> {
    let value: serde_json::Value =
        serde_json::from_str(line).map_err(|e| ("(json)".to_string(), format!("is not valid JSON: {e}")))?;
    let Some(object) = value.as_object() else {
        return Err(("(json)".into(), "is not a JSON object".into()));
    };
    for key in ["id", "player", "scene", "main_cha", "task", "first_talk"] {
        match object.get(key) {
            Some(v) if !(v.is_string() || key == "first_talk" && v.is_null()) => {
                return Err((key.into(), format!("must be a string, found {v}")));
            }
            None if key != "first_talk" => return Err((key.into(), "is missing".into())),
            _ => {}
        }
    }
    if !object.get("cha_group").is_some_and(|v| v.as_array().is_some_and(|a| a.iter().all(|x| x.is_string()))) {
        return Err(("cha_group".into(), "must be a list of strings".into()));
    }
    if let Some(language) = object.get("language")
        && serde_json::from_value::<Language>(language.clone()).is_err()
    {
        return Err(("language".into(), format!("must be \"zh\" or \"en\", found {language}")));
    }
    serde_json::from_value(value).map_err(|e| ("details".into(), format!("cannot be read: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"id":"a","player":"p","scene":"s","main_cha":"passive","cha_group":["calm"],"task":"You want advice that can really help you out of your present difficulty"}"#;

    #[test]
    fn a_broken_line_names_file_line_and_key() {
        for (broken, key) in [
            (LINE.replace("\"scene\":\"s\",", ""), "scene"),
            (LINE.replace("\"passive\"", "\"shy\""), "main_cha"),
            (LINE.replace("[\"calm\"]", "\"calm\""), "cha_group"),
            (LINE.replace("You want advice", "You want money"), "task"),
            (LINE.replace("\"id\":\"a\"", "\"id\":7"), "id"),
            (LINE[..40].to_string(), "(json)"),
        ] {
            let error = ProfileSet::parse("file.jsonl", &format!("{LINE}\n{broken}")).unwrap_err().to_string();
            assert!(error.starts_with("file.jsonl, line 2:"), "{error}");
            assert!(error.contains(&format!("`{key}`")), "{error} should name {key}");
        }
    }

    #[test]
    fn an_empty_set_and_duplicate_ids_are_refused() {
        assert!(matches!(ProfileSet::parse("x", "\n\n"), Err(ProfileError::Empty { .. })));
        let error = ProfileSet::parse("x", &format!("{LINE}\n{LINE}")).unwrap_err().to_string();
        assert!(error.contains("occurs twice"), "{error}");
    }

    #[test]
    fn a_profile_is_written_as_it_was_read() {
        let set = ProfileSet::parse("x", LINE).unwrap();
        assert_eq!(serde_json::to_string(set.get(0).as_ref()).unwrap(), LINE);
    }
}
