//! Who the client is to a server, and where its password comes from.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use leasehold_core::BoxFuture;

/// A text that no message and no `Debug` shows.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the server only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// What came of asking for a password.
pub(crate) type Fetched = Result<Secret, Box<dyn Error + Send + Sync>>;

/// Where a password comes from.
#[derive(Clone)]
pub(crate) enum Password {
    /// It stays the same.
    Fixed(Secret),
    /// It is asked for with each new connection.
    Rotating(Arc<dyn Fn() -> BoxFuture<'static, Fetched> + Send + Sync>),
}

impl Password {
    /// The password of a connection that is being opened.
    pub(crate) async fn fetch(&self) -> Fetched {
        match self {
            Self::Fixed(secret) => Ok(secret.clone()),
            Self::Rotating(source) => source().await,
        }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A user and its password; without a user, that of `default`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// Hidden as well: it may be a password without the `:` before it.
    pub(crate) user: Option<Secret>,
    pub(crate) password: Option<Password>,
}

impl Login {
    /// Who the client is to a server.
    pub(crate) fn user(&self) -> &str {
        self.user.as_ref().map_or("default", Secret::reveal)
    }
}
