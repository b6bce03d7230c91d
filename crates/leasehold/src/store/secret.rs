//! Passwords, which are never shown. The same goes for the user in a URL, if it could be a password
//! in the wrong place.

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

/// The result of asking for a password.
pub(crate) type Fetched = Result<Secret, Box<dyn Error + Send + Sync>>;

/// The source of a password.
#[derive(Clone)]
pub(crate) enum Password {
    /// The password stays the same.
    Fixed(Secret),
    /// The password is asked for with each new connection.
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
