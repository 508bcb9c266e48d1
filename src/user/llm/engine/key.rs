use super::EngineError;

/// A key to a server. It comes from an environment variable, goes into one header, and shows nowhere else.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Reads the key from the environment.
    ///
    /// # Errors
    /// When the variable is not set, empty, or holds what cannot be a header's value.
    pub fn from_env(variable: &str) -> Result<ApiKey, EngineError> {
        let fail = |problem| EngineError::Key { variable: variable.into(), problem };
        let value = std::env::var(variable).map_err(|_| fail("cannot be read: the variable is not set"))?;
        let key = value.trim();
        if key.is_empty() {
            return Err(fail("is empty"));
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(fail("holds characters that no key has (spaces, line breaks or letters beyond ASCII)"));
        }
        Ok(ApiKey(key.into()))
    }

    /// The value of the `Authorization` header.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// The text without the key, should it occur in it: servers like to repeat what they were sent.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "[key]")
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}
