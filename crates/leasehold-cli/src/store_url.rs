//! The URL of a store, which may hold a password.

use std::fmt;
use std::path::Path;

use leasehold::store::shown_url;
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
        match (self.file(), Servers::of(&self.0)) {
            (Some(path), _) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                format!("file:{}", path.display())
            }
            (None, Some(mut servers)) => {
                servers.hosts.iter_mut().for_each(|host| *host = under_one_name(host));
                servers.url()
            }
            (None, None) => shown_url(&self.0),
        }
    }

    /// The servers of the URL without passwords and files, if all are named by hosts. The URL comes
    /// from somebody else, so it must not lead to anything on this machine.
    pub(crate) fn remote(&self) -> Option<Self> {
        let servers = Servers::of(&self.0).filter(|servers| !servers.is_on_sockets())?;
        // A database admits nobody without a role, and the name of a role is no secret.
        let user = servers.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        Some(Self(servers.url().replacen("://", &format!("://{user}"), 1)))
    }
}

/// The options that select the keys or tables of the locks.
const WHICH_KEYS: [&str; 3] = ["layout", "prefix", "schema"];

/// The parts of a URL of servers that say where the locks are.
struct Servers {
    scheme: String,
    /// The role, for a database.
    user: Option<String>,
    hosts: Vec<String>,
    path: String,
    options: Vec<String>,
}

impl Servers {
    fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.replace("valkey", "redis").replace("postgresql", "postgres");
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let user = login.split(':').next().filter(|user| scheme == "postgres" && !user.is_empty());
        let database = path.strip_suffix('/').unwrap_or(path);
        // The port and the path, also if the URL leaves them out.
        let (port, path) = match scheme.rsplit('+').next().unwrap_or_default() {
            "unix" => ("", path),
            // The default database has the name of the role.
            "postgres" if database.is_empty() => ("5432", user.unwrap_or_default()),
            "postgres" => ("5432", database),
            "sentinel" => ("26379", database.strip_suffix("/0").unwrap_or(database)),
            _ if database == "0" => ("6379", ""),
            _ => ("6379", database),
        };
        let hosts = hosts.split(',').filter(|host| !host.is_empty());
        let mut hosts: Vec<_> = hosts.map(|host| with_port(host, port)).collect();
        hosts.sort_unstable();
        let is_of_keys = |option: &&str| {
            WHICH_KEYS.contains(&option.split_once('=').map_or(*option, |(name, _)| name))
        };
        let mut options: Vec<_> =
            query.split('&').filter(is_of_keys).map(ToOwned::to_owned).collect();
        options.sort_unstable();
        let (path, user) = (path.to_owned(), user.map(ToOwned::to_owned));
        Some(Self { scheme, user, hosts, path, options })
    }

    /// Whether the servers are named by paths of sockets on this machine.
    fn is_on_sockets(&self) -> bool {
        self.scheme.ends_with("+unix") || self.hosts.iter().any(|host| host.starts_with("%2F"))
    }

    fn url(&self) -> String {
        let (hosts, options) = (self.hosts.join(","), self.options.join("&"));
        let query = if options.is_empty() { "" } else { "?" };
        format!("{}://{hosts}/{}{query}{options}", self.scheme, self.path)
    }
}

/// A host with its port.
fn with_port(host: &str, port: &str) -> String {
    let host = match host.get(..3).filter(|begins| begins.eq_ignore_ascii_case("%2f")) {
        Some(_) => format!("%2F{}", &host[3..]), // a path: its letters keep their case
        None => host.to_ascii_lowercase(),
    };
    let after_brackets = host.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match host[after_brackets..].split_once(':') {
        Some((_, given)) => (&host[..host.len() - given.len() - 1], given),
        None => (host.as_str(), port),
    };
    format!("{name}:{port}")
}

/// Replaces the other names of this machine by `127.0.0.1`.
fn under_one_name(host: &str) -> String {
    let port = ["localhost:", "[::1]:"].iter().find_map(|name| host.strip_prefix(name));
    port.map_or_else(|| host.to_owned(), |port| format!("127.0.0.1:{port}"))
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
            ("redis://h/?layout=plain&prefix=a:", "redis://h?prefix=a:&history=4&layout=plain"),
            ("redis+quorum://a,b:7000,c/", "redis+quorum://:p@c:6379,a,b:7000/0"),
            ("redis+sentinel://a/main/0", "redis+sentinel://a:26379/main/"),
            ("redis+unix:///run/a.sock", "redis+unix://u:p@/run/a.sock?timeout=1s"),
            ("file:/a/b.db", "file:///a/b.db?history=4"),
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
            remote("rediss://u:***@h/2?ca=/etc/x&key=/etc/k&prefix=a:").as_deref(),
            Some("rediss://h:6379/2?prefix=a:")
        );
        assert_eq!(
            remote("postgresql://app:***@db/shop?sslkey=/etc/k&schema=a").as_deref(),
            Some("postgres://app@db:5432/shop?schema=a")
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
