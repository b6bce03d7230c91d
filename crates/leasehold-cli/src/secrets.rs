//! Passwords that a process has besides a store URL. No process that outlives this one inherits
//! them.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use leasehold::Client;
use leasehold::store::connect_with;
use serde::{Deserialize, Serialize};

use crate::store_url::StoreUrl;

/// The variable with the URL of the store, which may contain a password.
pub(crate) const STORE: &str = "LEASEHOLD_STORE";

/// Variables whose values are passwords.
const PASSWORDS: [&str; 2] = ["LEASEHOLD_PASSWORD", "LEASEHOLD_SENTINEL_PASSWORD"];

/// The source of passwords that are not in a URL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Secrets {
    /// This process's environment.
    OfEnvironment,
    /// Passwords that were passed on, keyed by the names of their variables. A file that another
    /// variable names may contain a newer password.
    PassedOn(BTreeMap<String, String>),
    /// No passwords: none may be sent to a server that the user did not choose.
    Nowhere,
}

impl Secrets {
    /// The passwords of this process, for another process that does not have them in its
    /// environment.
    pub(crate) fn passed_on() -> Self {
        Self::PassedOn(passwords().collect())
    }

    /// Builds a client of this store with these passwords.
    pub(crate) async fn client(
        &self,
        url: &StoreUrl,
        builder: leasehold::ClientBuilder,
    ) -> leasehold::Result<Client> {
        let environment = |name: &str| match self {
            Self::OfEnvironment => std::env::var(name).ok(),
            Self::PassedOn(found) => found.get(name).cloned().or_else(|| std::env::var(name).ok()),
            Self::Nowhere => None,
        };
        let builder = match url.is_on_servers() && *self != Self::OfEnvironment {
            true => builder.store(connect_with(url.reveal(), environment).await?),
            false => builder.url(url.reveal()),
        };
        builder.build().await
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Removes all passwords from the environment of a process. A leasehold that the process runs still
/// finds the same store, and fails because the password is missing. Without the variable
/// `LEASEHOLD_STORE` it would use a local file.
pub(crate) fn keep_from(command: &mut Command) {
    for name in PASSWORDS {
        command.env_remove(name);
    }
    if let Some(url) = store_with_password() {
        command.env(STORE, StoreUrl::from(url.as_str()).without_password());
    }
}

/// The variables that [`keep_from`] removes, for a process that should have them.
pub(crate) fn variables() -> Vec<(String, String)> {
    let store = store_with_password().map(|url| (STORE.to_owned(), url));
    passwords().chain(store).collect()
}

/// The variables of this process that are passwords.
fn passwords() -> impl Iterator<Item = (String, String)> {
    PASSWORDS.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
}

fn store_with_password() -> Option<String> {
    // A URL that is not UTF-8 is refused before any process is started.
    let url = std::env::var(STORE).ok()?;
    (StoreUrl::from(url.as_str()).without_password() != url).then_some(url)
}
