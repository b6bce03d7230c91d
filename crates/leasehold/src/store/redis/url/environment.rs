//! Passwords that are not in a URL: they come from environment variables.

use leasehold_core::InvalidInput;

use crate::store::redis::options::{RedisOptions, Servers};
use crate::store::url_parts;

const SENTINEL_PASSWORD: &str = "LEASEHOLD_SENTINEL_PASSWORD";

/// Takes missing passwords from the environment. The password for sentinels is never in a URL.
pub(super) fn complete(
    mut options: RedisOptions,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<RedisOptions, InvalidInput> {
    if options.0.login.password.is_none()
        && let Some(password) = url_parts::password(&environment)?
    {
        options = options.password(password);
    }
    if matches!(options.0.servers, Servers::Sentinel { .. })
        && let Some(password) = environment(SENTINEL_PASSWORD)
    {
        options = options.sentinel_password(password);
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::redis::options::{Login, Password};

    const PASSWORD: &str = "LEASEHOLD_PASSWORD";
    const PASSWORD_FILE: &str = "LEASEHOLD_PASSWORD_FILE";

    fn revealed(login: Login) -> Option<String> {
        match login.password? {
            Password::Fixed(secret) => Some(secret.reveal().to_owned()),
            Password::Rotating(_) => None,
        }
    }

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
            revealed(RedisOptions::from_url_with(url, environment).unwrap().0.login).unwrap()
        };
        assert_eq!(password("redis://h", &both), "from env");
        assert_eq!(password("redis://u@h", &only_file), "from file");
        assert_eq!(password("redis://u:url@h", &both), "url");
        fs::remove_file(&file).unwrap();
        let refusal = RedisOptions::from_url_with("redis://h", only_file).unwrap_err();
        assert!(refusal.why.contains("LEASEHOLD_PASSWORD_FILE"), "{refusal}");
    }

    #[test]
    fn sentinels_have_their_own_password() {
        let environment = |name: &str| (name == SENTINEL_PASSWORD).then(|| "watch".to_owned());
        let options = RedisOptions::from_url_with("redis+sentinel://a/main", environment).unwrap();
        assert_eq!(revealed(options.0.sentinel_login()).as_deref(), Some("watch"));
        assert_eq!(revealed(options.0.login), None);
        let url = "redis+sentinel://a/main?sentinel_user=eve";
        let refusal = RedisOptions::from_url_with(url, |_| None).unwrap_err();
        assert!(refusal.why.contains(SENTINEL_PASSWORD), "{refusal}");
    }
}
