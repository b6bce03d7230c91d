//! The URL of a store, which may hold a password.

use std::fmt;
use std::path::Path;

use leasehold::store::shown_url;
use serde::{Deserialize, Serialize};

/// The URL of a store; what is printed of it, by `Debug` too, has no password. What is serialized
/// has it, for a pipe to a process of ours.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Whether it names servers with TLS.
    pub(crate) fn is_tls(&self) -> bool {
        let scheme = self.0.split([':', '+']).next();
        matches!(scheme, Some("rediss" | "valkeys"))
    }

    /// All of it but its password: for processes that have no use for one, or have it elsewhere.
    pub(crate) fn without_password(&self) -> String {
        let shown = shown_url(&self.0);
        if shown.contains("://***@") {
            return self.0.clone(); // a user whose password is elsewhere
        }
        shown.replace("://:***@", "://").replace(":***@", "@")
    }

    /// What it names, alike for all spellings of it: the servers, the database, the keys.
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

    /// The same servers, if they are named by hosts alone, without anybody's login and without
    /// files. Somebody else has written the URL, so nothing on this machine is touched for it.
    pub(crate) fn remote(&self) -> Option<Self> {
        let servers = Servers::of(&self.0).filter(|servers| !servers.scheme.ends_with("+unix"))?;
        Some(Self(servers.url()))
    }
}

/// The options that say which keys are meant.
const WHICH_KEYS: [&str; 3] = ["fenced", "layout", "prefix"];

/// What a URL of servers says of the place of the locks.
struct Servers {
    scheme: String,
    hosts: Vec<String>,
    path: String,
    options: Vec<String>,
}

impl Servers {
    fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.replace("valkey", "redis");
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let hosts = authority.rsplit_once('@').map_or(authority, |(_login, hosts)| hosts);
        let port = if scheme.ends_with("+sentinel") { "26379" } else { "6379" };
        let mut hosts: Vec<_> = match scheme.ends_with("+unix") {
            true => Vec::new(),
            false => hosts.split(',').map(|host| with_port(host, port)).collect(),
        };
        hosts.sort_unstable();
        let path = match scheme.ends_with("+unix") {
            true => path,
            false => path.strip_suffix('/').unwrap_or(path),
        };
        let path = match scheme.ends_with("+sentinel") {
            true => path.strip_suffix("/0").unwrap_or(path),
            false if path == "0" => "",
            false => path,
        };
        let is_of_keys = |option: &&str| {
            WHICH_KEYS.contains(&option.split_once('=').map_or(*option, |(name, _)| name))
        };
        let mut options: Vec<_> =
            query.split('&').filter(is_of_keys).map(ToOwned::to_owned).collect();
        options.sort_unstable();
        Some(Self { scheme, hosts, path: path.to_owned(), options })
    }

    fn url(&self) -> String {
        let (hosts, options) = (self.hosts.join(","), self.options.join("&"));
        let query = if options.is_empty() { "" } else { "?" };
        format!("{}://{hosts}/{}{query}{options}", self.scheme, self.path)
    }
}

/// A host with its port.
fn with_port(host: &str, port: &str) -> String {
    let host = host.to_ascii_lowercase();
    let after_brackets = host.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match host[after_brackets..].split_once(':') {
        Some((_, given)) => (&host[..host.len() - given.len() - 1], given),
        None => (host.as_str(), port),
    };
    format!("{name}:{port}")
}

/// This machine has several names.
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
        for url in ["file:/a", "redis+unix:///run/a", "valkey+unix://u@/run/a", "memory:", "", "x"]
        {
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
