use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{SessionSettings, UserEngine, UserError, UserSession, UserTurn};
use crate::dialogue::Profile;
use crate::rollout::Episode;

/// A user session as it can be written down: what was said and felt so far, which is all there is to a user.
/// [`UserEngine::restore`] makes a session of it that goes on from there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedSession {
    /// The engine's name; no other can go on.
    pub user: String,
    /// The profile's id.
    pub profile: String,
    /// What the session was opened with.
    pub settings: SessionSettings,
    /// The first line, once it was said.
    pub opening: Option<String>,
    /// Every reply with what the user made of it, oldest first.
    pub turns: Vec<(String, UserTurn)>,
}

impl SavedSession {
    /// A session in which nobody has spoken.
    pub fn new(user: &dyn UserEngine, profile: &Profile, settings: SessionSettings) -> SavedSession {
        SavedSession { user: user.name(), profile: profile.id.clone(), settings, opening: None, turns: Vec::new() }
    }

    /// Why `user` cannot go on with this session and `profile`, if it cannot.
    pub(crate) fn fits(&self, user: &str, profile: &Profile) -> Result<(), UserError> {
        let error = |problem| Err(UserError { user: user.into(), problem });
        if self.user != user {
            return error(format!("the saved session is one with {}; open it with that user", self.user));
        }
        if self.profile != profile.id {
            return error(format!("the saved session is one with {}, not with {}", self.profile, profile.id));
        }
        if self.opening.is_none() && !self.turns.is_empty() {
            return error("the saved session has turns but no first line".into());
        }
        Ok(())
    }
}

/// The user's side of a recorded dialogue, up to the last reply it heard.
impl From<&Episode> for SavedSession {
    fn from(episode: &Episode) -> SavedSession {
        let heard = episode.turns.iter().map_while(|t| Some((t.reply.clone(), t.user.clone()?)));
        SavedSession {
            user: episode.user.clone(),
            profile: episode.profile.clone(),
            settings: SessionSettings { start: episode.start_emotion, seed: episode.user_seed },
            opening: Some(episode.opening.clone()),
            turns: heard.collect(),
        }
    }
}

/// Restores a session of a user that says the same to the same by letting it hear everything again.
pub(super) fn hear_again<U: UserEngine + ?Sized>(
    user: &U,
    profile: Arc<Profile>,
    saved: &SavedSession,
) -> Result<Box<dyn UserSession>, UserError> {
    saved.fits(&user.name(), &profile)?;
    let differs = |what: String| UserError {
        user: user.name(),
        problem: format!("the saved session was not held with this user or was changed: {what} differs"),
    };
    let mut session = user.open(profile, saved.settings);
    if let Some(opening) = &saved.opening
        && session.opening()? != *opening
    {
        return Err(differs("the first line".into()));
    }
    for (number, (reply, heard)) in saved.turns.iter().enumerate() {
        if session.respond(reply)? != *heard {
            return Err(differs(format!("the answer to reply {}", number + 1)));
        }
    }
    session.take_calls();
    Ok(session)
}
