//! The URL of a store, which may hold a password.

use std::fmt;
use std::path::Path;

use leasehold::store::{self, shown_url};
use serde::{Deserialize, Serialize};

/// The URL of a store. `Display` and `Debug` hide its password. The serialized form has the
/// password, for a pipe to another process of leasehold.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoreUrl(String);

impl StoreUrl {
    /// The whole URL with its password, for the library only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The file that the URL names, if it does not name servers.
    pub(crate) fn file(&self) -> Option<&Path> {
        let rest = self.0.strip_prefix("file:")?;
        Some(Path::new(rest.split_once('?').map_or(rest, |(path, _options)| path)))
    }

    /// Whether the URL names servers and not a file.
    pub(crate) fn is_on_servers(&self) -> bool {
        self.file().is_none()
    }

    /// Whether the URL names a quorum of independent servers.
    pub(crate) fn is_on_quorum(&self) -> bool {
        self.0.split_once(':').is_some_and(|(scheme, _)| scheme.ends_with("+quorum"))
    }

    /// Whether the URL names a PostgreSQL database.
    pub(crate) fn is_on_postgres(&self) -> bool {
        ["postgres:", "postgresql:"].iter().any(|scheme| self.0.starts_with(scheme))
    }

    /// Whether the URL names servers with TLS.
    pub(crate) fn is_tls(&self) -> bool {
        let scheme = self.0.split([':', '+']).next();
        matches!(scheme, Some("rediss" | "valkeys"))
    }

    /// The URL without its password, for processes that need no password or have it from elsewhere.
    pub(crate) fn without_password(&self) -> String {
        let shown = shown_url(&self.0);
        if shown.contains("://***@") {
            return self.0.clone(); // a user without a password in the URL
        }
        shown.replace("://:***@", "://").replace(":***@", "@")
    }

    /// The place that the URL names (servers, database, keys) in one form, the same for all
    /// spellings of the URL.
    pub(crate) fn place(&self) -> String {
        store::place(&self.0).map_or_else(|| shown_url(&self.0), |place| place.id)
    }

    /// The servers of the URL without passwords and files, if all are named by hosts. The URL comes
    /// from somebody else, so it must not lead to anything on this machine.
    pub(crate) fn remote(&self) -> Option<Self> {
        store::place(&self.0)?.remote.map(Self)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> String {
        StoreUrl::from(url).place()
    }

    #[test]
    fn the_spellings_of_one_server_are_one_place() {
        for (one, other) in [
            ("redis://127.0.0.1:7618", "redis://localhost:7618/0"),
            ("redis://h", "valkey://u:p@H:6379/?timeout=1s"),
            ("redis://h/?layout=plain&prefix=a:", "redis://h?prefix=a:&timeout=1s&layout=plain"),
            ("redis+quorum://a,b:7000,c/", "redis+quorum://:p@c:6379,a,b:7000/0"),
            ("redis+sentinel://a/main/0", "redis+sentinel://a:26379/main/"),
            ("redis+unix:///run/a.sock", "redis+unix://u:p@/run/a.sock?timeout=1s"),
            ("file:/a/b.db", "file:///a/b.db?"),
            ("postgres://u@h", "postgresql://u:p@H:5432/u?timeout=1s"),
            ("postgres://u@h/d?schema=a", "postgres://other@h/d?timeout=1s&schema=a"),
            ("postgres://u@%2Frun%2FPG/d", "postgres://u@%2frun%2FPG:5432/d"),
        ] {
            assert_eq!(place(one), place(other));
        }
        for (one, other) in [
            ("redis://h", "redis://h:6380"),
            ("redis://h/0", "redis://h/10"),
            ("redis://h/", "rediss://h/"),
            ("redis://h/?prefix=a:", "redis://h/?prefix=b:"),
            ("redis+unix:///a", "redis+unix:///b"),
            ("file:/a", "file:/b"),
            ("postgres://u@h/0", "postgres://u@h/1"),
            ("postgres://u@h/d", "postgres://u@h/d?schema=a"),
            ("postgres://u@%2FA/d", "postgres://u@%2Fa/d"),
        ] {
            assert_ne!(place(one), place(other));
        }
    }

    #[test]
    fn of_a_url_from_elsewhere_hosts_and_keys_are_left_and_no_path_and_no_login() {
        let remote = |url: &str| StoreUrl::from(url).remote().map(|url| url.0);
        assert_eq!(
            remote("rediss://u:***@h/2?ca=/etc/x&cert=/etc/c&key=/etc/k&prefix=a:").as_deref(),
            Some("rediss://h/2?prefix=a:")
        );
        assert_eq!(
            remote("postgresql://app:***@db/shop?sslcert=/etc/c&sslkey=/etc/k&schema=a").as_deref(),
            Some("postgresql://app@db/shop?schema=a")
        );
        for url in [
            "file:/a",
            "postgres://u@%2Frun/d",
            "redis+unix:///run/a",
            "valkey+unix://u@/run/a",
            "memory:",
            "",
            "x",
        ] {
            assert_eq!(remote(url), None, "{url}");
        }
    }

    #[test]
    fn without_its_password_a_url_still_names_its_user_and_its_server() {
        for (url, without) in [
            ("redis://u:hunter@h:1/2?timeout=1s", "redis://u@h:1/2?timeout=1s"),
            ("redis://:hunter@h", "redis://h"),
            ("redis+unix://:hunter@/run/a", "redis+unix:///run/a"),
            ("redis://u@h", "redis://u@h"),
            ("redis://h", "redis://h"),
            ("file:/a:b@c", "file:/a:b@c"),
            ("redis://h:hunter", "redis:***"),
        ] {
            assert_eq!(StoreUrl::from(url).without_password(), without);
        }
    }
}
