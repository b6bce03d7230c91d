//! The URL of a store, which may hold a password.

use std::fmt;
use std::path::Path;

use leasehold::store::shown_url;

/// The URL of a store; what is printed of it, by `Debug` too, has no password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreUrl(String);

impl StoreUrl {
    /// All of it, for the library only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The file that it names, if it does not name servers.
    pub(crate) fn file(&self) -> Option<&Path> {
        let rest = self.0.strip_prefix("file:")?;
        Some(Path::new(rest.split_once('?').map_or(rest, |(path, _options)| path)))
    }

    /// Whether it names servers, which come and go, and not a file.
    pub(crate) fn is_on_servers(&self) -> bool {
        self.file().is_none()
    }
}

impl From<&str> for StoreUrl {
    fn from(url: &str) -> Self {
        Self(url.to_owned())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_url(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
