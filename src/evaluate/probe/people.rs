use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::Probe;
use crate::dialogue::{CharacterType, HiddenIntention, Language, Profile, ProfileSet};
use crate::user::{Appraisal, Emotion, SessionSettings, UserEngine, UserError, UserSession, UserTurn};

/// A probe's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    person: Vec<Person>,
    /// Words by what they show, per language code.
    pub(super) cues: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    id: String,
    language: Language,
    kind: String,
    #[serde(default)]
    wrong: String,
    lines: Vec<String>,
}

macro_rules! script {
    ($file:literal) => {
        toml::from_str(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/probes/", $file)))
            .expect("the embedded probes are valid; a test reads them")
    };
}

static SCRIPTS: LazyLock<[Script; 3]> =
    LazyLock::new(|| [script!("sycophancy.toml"), script!("adversarial.toml"), script!("dependency.toml")]);

pub(super) fn script(probe: Probe) -> &'static Script {
    &SCRIPTS[probe as usize]
}

fn person(id: &str) -> Option<&'static Person> {
    SCRIPTS.iter().flat_map(|s| &s.person).find(|p| p.id == id)
}

/// The kind of a probe's person by profile id, such as `gaslighting`; `None` for other people.
pub fn kind_of(id: &str) -> Option<&'static str> {
    person(id).map(|p| p.kind.as_str())
}

pub(super) fn profiles(probe: Probe) -> ProfileSet {
    let lines: Vec<String> = script(probe).person.iter().map(|p| line(probe, p)).collect();
    ProfileSet::parse("built-in probes", &lines.join("\n")).expect("the embedded probes are valid profiles")
}

pub(super) fn longest(probe: Probe) -> usize {
    script(probe).person.iter().map(|p| p.lines.len()).max().unwrap_or(0)
}

/// A person as a profile line; intention and character are the nearest of the published ones.
fn line(probe: Probe, person: &Person) -> String {
    let intention = match probe {
        Probe::Sycophancy => HiddenIntention::NotMyFault,
        Probe::Adversarial => HiddenIntention::Venting,
        Probe::Dependency => HiddenIntention::DeepEmpathy,
    };
    let scene = match (person.wrong.as_str(), person.language) {
        ("", Language::Zh) => format!("探测对话：{}。{}", person.kind, person.lines[0]),
        ("", Language::En) => format!("A probe, {}: {}", person.kind, person.lines[0]),
        (wrong, _) => wrong.to_string(),
    };
    let profile = Profile {
        id: person.id.clone(),
        player: format!("{} · {}", probe.name(), person.kind),
        scene,
        main_cha: CharacterType::ALL[0].to_string(),
        cha_group: vec![person.kind.clone()],
        task: intention.task(person.language).into(),
        first_talk: Some(person.lines[0].clone()),
        language: Some(person.language),
        setting: None,
        details: Vec::new(),
    };
    serde_json::to_string(&profile).expect("plain data")
}

/// The user of all probes: says a person's lines in order, whatever the reply, and leaves after the last.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProbeUser;

impl UserEngine for ProbeUser {
    fn name(&self) -> String {
        "probe/1".into()
    }

    fn open(&self, profile: Arc<Profile>, settings: SessionSettings) -> Box<dyn UserSession> {
        Box::new(Lines { person: person(&profile.id), id: profile.id.clone(), said: 0, emotion: settings.start })
    }
}

struct Lines {
    person: Option<&'static Person>,
    id: String,
    said: usize,
    emotion: Emotion,
}

impl Lines {
    fn next(&mut self) -> Result<Option<String>, UserError> {
        let person = self.person.ok_or_else(|| UserError {
            user: ProbeUser.name(),
            problem: format!("profile {} belongs to no probe", self.id),
        })?;
        let line = person.lines.get(self.said).cloned();
        self.said += 1;
        Ok(line)
    }
}

impl UserSession for Lines {
    fn opening(&mut self) -> Result<String, UserError> {
        Ok(self.next()?.unwrap_or_default())
    }

    fn respond(&mut self, _reply: &str) -> Result<UserTurn, UserError> {
        let line = self.next()?;
        Ok(UserTurn {
            appraisal: Appraisal::default(),
            before: self.emotion,
            after: self.emotion,
            farewell: line.is_none(),
            line: line.unwrap_or_default(),
            guard: None,
        })
    }

    fn emotion(&self) -> Emotion {
        self.emotion
    }
}
