//! Who the client is to a server, and where its password comes from.

use std::fmt;
use std::fs;

use leasehold_core::Invalid;

use super::{decode, invalid};

/// Environment variables that carry passwords, so that no URL has to.
const PASSWORD: &str = "LEASEHOLD_PASSWORD";
const PASSWORD_FILE: &str = "LEASEHOLD_PASSWORD_FILE";
const SENTINEL_PASSWORD: &str = "LEASEHOLD_SENTINEL_PASSWORD";

/// A text that no message and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl Secret {
    /// The text itself, for the server only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A user and its password; without a user, that of `default`.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The user, too: it may be a password without the `:` before it.
        f.write_str("(hidden)")
    }
}

impl Login {
    /// What a URL says before its first host.
    pub(crate) fn parse(credentials: &str) -> Result<Self, Invalid> {
        let (user, password) =
            credentials.split_once(':').map_or((credentials, None), |(a, b)| (a, Some(b)));
        let user = (!user.is_empty()).then(|| decode("user", user)).transpose()?;
        let password = password.map(|text| decode("password", text).map(Secret)).transpose()?;
        Ok(Self { user, password })
    }

    /// Takes a password that is missing from the environment.
    pub(crate) fn complete(
        &mut self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Invalid> {
        if self.password.is_none() {
            self.password = password_from(environment)?;
        }
        match (&self.user, &self.password) {
            // It may be a password without the `:` before it.
            (Some(_), None) => Err(invalid(format!(
                "the store URL names a user and no password: write USER:PASSWORD@ or :PASSWORD@, \
                 or set {PASSWORD} or {PASSWORD_FILE}"
            ))),
            _ => Ok(()),
        }
    }

    /// The same for sentinels, whose password is never in the URL.
    pub(crate) fn complete_for_sentinels(
        &mut self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Invalid> {
        self.password = environment(SENTINEL_PASSWORD).map(Secret);
        match (&self.user, &self.password) {
            (Some(_), None) => Err(invalid(format!(
                "`sentinel_user` is in the store URL and there is no password: set \
                 {SENTINEL_PASSWORD}"
            ))),
            _ => Ok(()),
        }
    }
}

fn password_from(environment: impl Fn(&str) -> Option<String>) -> Result<Option<Secret>, Invalid> {
    if let Some(password) = environment(PASSWORD) {
        return Ok(Some(Secret(password)));
    }
    let Some(path) = environment(PASSWORD_FILE) else { return Ok(None) };
    let text = fs::read_to_string(&path)
        .map_err(|error| invalid(format!("{PASSWORD_FILE} names {path:?}: {error}")))?;
    let line = text.lines().next().unwrap_or_default();
    Ok(Some(Secret(line.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn a_password_may_come_from_the_environment_or_a_file() {
        let file = std::env::temp_dir().join(format!("leasehold-password-{}", std::process::id()));
        fs::write(&file, "from file\n").unwrap();
        let path = file.display().to_string();
        let both = |name: &str| match name {
            PASSWORD => Some("from env".to_owned()),
            PASSWORD_FILE => Some(path.clone()),
            _ => None,
        };
        let only_file = |name: &str| (name == PASSWORD_FILE).then(|| path.clone());
        let password = |url, environment: &dyn Fn(&str) -> Option<String>| {
            Settings::parse_with(url, environment).unwrap().login.password.unwrap().0
        };
        assert_eq!(password("redis://h", &both), "from env");
        assert_eq!(password("redis://u@h", &only_file), "from file");
        assert_eq!(password("redis://u:url@h", &both), "url");
        fs::remove_file(&file).unwrap();
        let refusal = Settings::parse_with("redis://h", only_file).unwrap_err();
        assert!(refusal.why.contains("LEASEHOLD_PASSWORD_FILE"), "{refusal}");
    }

    #[test]
    fn sentinels_have_a_password_of_their_own() {
        let environment = |name: &str| (name == SENTINEL_PASSWORD).then(|| "watch".to_owned());
        let settings = Settings::parse_with("redis+sentinel://a/main", environment).unwrap();
        assert_eq!(settings.sentinel_login.password.unwrap().0, "watch");
        assert_eq!(settings.login.password, None);
        let url = "redis+sentinel://a/main?sentinel_user=eve";
        let refusal = Settings::parse_with(url, |_| None).unwrap_err();
        assert!(refusal.why.contains(SENTINEL_PASSWORD), "{refusal}");
    }
}
