//! Reads `redis:` URLs.

mod environment;

use leasehold_core::InvalidInput;
use leasehold_core::text::split_scheme;

use super::options::{Address, Login, Password, RedisOptions, Servers, Tls};
use super::options::{invalid, no_socket};
use crate::store::url_parts::{self, check_delimiters, decode};

const DEFAULT_PORT: u16 = 6379;

/// The default port of Sentinel.
const DEFAULT_SENTINEL_PORT: u16 = 26379;

impl RedisOptions {
    /// Reads a store URL. A password that is not in it comes from the environment
    /// (`LEASEHOLD_PASSWORD`, `LEASEHOLD_PASSWORD_FILE`, `LEASEHOLD_SENTINEL_PASSWORD`).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the part of the URL that is wrong, without showing a password.
    pub fn from_url(url: &str) -> Result<Self, InvalidInput> {
        Self::from_url_with(url, |name| std::env::var(name).ok())
    }

    /// Like [`from_url`](Self::from_url), but passwords come from `environment` instead of this
    /// process's environment. That function gets the names of the variables.
    ///
    /// # Errors
    ///
    /// The same as [`from_url`](Self::from_url).
    pub fn from_url_with(
        url: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, InvalidInput> {
        let options = environment::complete(read(url)?, environment)?;
        options.0.check_logins()?;
        Ok(options)
    }
}

/// Reads the URL itself.
fn read(url: &str) -> Result<RedisOptions, InvalidInput> {
    let parts = split_scheme(url).and_then(|(scheme, rest)| {
        let rest = rest.strip_prefix("//")?;
        Some((scheme, rest))
    });
    let (scheme, rest) = parts.ok_or_else(|| {
        invalid("the store URL has no `://` after its scheme: write redis://HOST")
    })?;
    let (place, query) = rest.split_once('?').map_or((rest, ""), |(a, b)| (a, b));
    check_delimiters(place, query)?;
    let has_tls = match scheme.split('+').next() {
        Some("redis" | "valkey") => false,
        Some("rediss" | "valkeys") => true,
        _ => return Err(unknown_scheme(scheme)),
    };
    let mut options = match scheme {
        "redis+unix" | "valkey+unix" => unix(place)?,
        _ => tcp(scheme, place)?,
    };
    if has_tls {
        options.0.tls = Tls::On;
    }
    for (name, value) in url_parts::options(query)? {
        options.0.read(name, value)?;
    }
    options.0.check_values()?;
    Ok(options)
}

fn tcp(scheme: &str, place: &str) -> Result<RedisOptions, InvalidInput> {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let (login, hosts) = split_login(authority)?;
    let (service, database) = match scheme.ends_with("+sentinel") {
        true => path.split_once('/').unwrap_or((path, "")),
        false => ("", path),
    };
    let mut options = RedisOptions::of(servers(scheme, hosts, service)?);
    options.0.login = login;
    if database.is_empty() {
        return Ok(options);
    }
    let number = database
        .parse()
        .map_err(|_| invalid("the database in the store URL, behind the `/`, is not a number"))?;
    Ok(options.database(number))
}

/// The servers of a URL, as its scheme defines them.
fn servers(scheme: &str, text: &str, service: &str) -> Result<Servers, InvalidInput> {
    match scheme.split_once('+').map(|(_, kind)| kind) {
        None if text.contains(',') => Err(invalid(
            "the store URL names several hosts: give one primary, or say what they are by \
             redis+sentinel://, redis+cluster:// or redis+quorum://",
        )),
        None => host(text, DEFAULT_PORT).map(Servers::Standalone),
        Some("cluster") => hosts(text, DEFAULT_PORT).map(Servers::Cluster),
        Some("quorum") => hosts(text, DEFAULT_PORT).map(Servers::Quorum),
        Some("sentinel") => Ok(Servers::Sentinel {
            sentinels: hosts(text, DEFAULT_SENTINEL_PORT)?,
            service: decode("service", service)?,
        }),
        Some(_) => Err(unknown_scheme(scheme)),
    }
}

fn hosts(text: &str, default_port: u16) -> Result<Vec<Address>, InvalidInput> {
    text.split(',').map(|part| host(part, default_port)).collect()
}

fn host(text: &str, default_port: u16) -> Result<Address, InvalidInput> {
    let (host, port) = url_parts::host("redis", text, default_port)?;
    Ok(Address::Tcp { host, port })
}

fn unix(place: &str) -> Result<RedisOptions, InvalidInput> {
    let slash = place.find('/').unwrap_or(place.len());
    let (authority, path) = place.split_at(slash);
    let (login, host) = split_login(authority)?;
    if path.is_empty() || !host.is_empty() {
        return Err(no_socket());
    }
    let address = Address::Unix(decode("path", path)?.into());
    let mut options = RedisOptions::of(Servers::Standalone(address));
    options.0.login = login;
    Ok(options)
}

fn unknown_scheme(scheme: &str) -> InvalidInput {
    invalid(format!(
        "the store URL begins with {scheme:?}: use redis://, rediss:// (TLS), redis+unix://, \
         redis+sentinel://, redis+cluster:// or redis+quorum://"
    ))
}

/// The part of a URL that may be shown, if the URL can be read. It has no password, and no user
/// without a password, because such a user may be a password in the wrong place.
pub(crate) fn without_password(url: &str) -> Option<String> {
    let _options = read(url).ok()?;
    url_parts::without_password(url)
}

/// Splits the login from the hosts of a URL.
fn split_login(authority: &str) -> Result<(Login, &str), InvalidInput> {
    let (login, hosts) = url_parts::split_login(authority)?;
    Ok((Login { user: login.user, password: login.password.map(Password::Fixed) }, hosts))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::redis::options::{LayoutName, QUARANTINE, Replicas, Settings};

    fn parse(url: &str) -> Result<Settings, String> {
        RedisOptions::from_url_with(url, |_| None)
            .map(|options| options.0)
            .map_err(|refusal| refusal.why)
    }

    fn address(url: &str) -> String {
        parse(url).unwrap().servers.to_string()
    }

    #[test]
    fn a_host_may_have_a_port_a_database_and_credentials() {
        let settings = parse("redis://bob:p%40ss%2F@db.example:7000/3").unwrap();
        assert_eq!(settings.servers.to_string(), "db.example:7000");
        assert_eq!((settings.login.user(), settings.database), ("bob", 3));
        assert!(
            matches!(settings.login.password, Some(Password::Fixed(it)) if it.reveal() == "p@ss/")
        );
        assert_eq!(address("redis://h"), "h:6379");
        assert_eq!(address("valkey://[::1]:1/"), "[::1]:1");
        assert_eq!(parse("redis://:pw@h").unwrap().login.user(), "default");
    }

    #[test]
    fn a_unix_socket_may_have_credentials() {
        let settings = parse("redis+unix://u:p@/run/a%20b.sock?timeout=1s").unwrap();
        assert_eq!(settings.servers, Servers::Standalone(Address::Unix("/run/a b.sock".into())));
        assert_eq!(settings.login.user(), "u");
        assert_eq!(settings.timeout, Some(Duration::from_secs(1)));
    }

    #[test]
    fn every_option_is_read() {
        let settings = parse(
            "rediss://h?ca=/a.pem&cert=/b.pem&key=/c.pem&prefix=app%3A&\
             connect_timeout=1s&timeout=100ms&layout=plain&insecure=off&quarantine=on&\
             replicas=2&waitaof=on",
        )
        .unwrap();
        assert!(matches!(settings.tls, Tls::On));
        assert_eq!(settings.ca, Some("/a.pem".into()));
        let pair = (settings.cert.clone(), settings.key.clone());
        assert_eq!(pair, (Some("/b.pem".into()), Some("/c.pem".into())));
        assert!(!settings.insecure);
        assert_eq!(settings.prefix.as_deref(), Some("app:"));
        assert_eq!(settings.connect_timeout, Duration::from_secs(1));
        assert_eq!(settings.timeout, Some(Duration::from_millis(100)));
        assert_eq!((settings.layout, settings.replicas), (LayoutName::Plain, Replicas::AtLeast(2)));
        assert_eq!((settings.waitaof, settings.quarantine()), (true, Some(Duration::from_mins(1))));
        assert_eq!(parse("redis://h?quarantine=5s&prefix=").unwrap().prefix.as_deref(), Some(""));
    }

    #[test]
    fn a_fleet_is_several_hosts_and_what_they_are() {
        let hosts = [("a", 1), ("b", 6379)];
        let nodes = hosts.map(|(host, port)| Address::Tcp { host: host.to_owned(), port }).to_vec();
        assert_eq!(
            parse("redis+cluster://a:1,b").unwrap().servers,
            Servers::Cluster(nodes.clone())
        );
        let quorum = parse("valkey+quorum://u:p@a:1,b/2").unwrap();
        assert_eq!(quorum.quarantine(), Some(QUARANTINE), "on unless somebody says otherwise");
        assert_eq!((quorum.servers, quorum.database), (Servers::Quorum(nodes), 2));
        assert_eq!(parse("redis+quorum://a,b?quarantine=off").unwrap().quarantine(), None);
        assert_eq!(parse("redis+quorum://a,b?layout=plain").unwrap().quarantine(), None);
        let service = parse("rediss+sentinel://a:1,b/main/3").unwrap();
        assert!(matches!(service.tls, Tls::On) && service.database == 3);
        assert_eq!(service.servers.to_string(), "service main of sentinels a:1,b:26379");
    }

    #[test]
    fn redissons_locks_have_bare_keys_and_neither_a_quorum_nor_a_quarantine() {
        let refusal = |url: &str| parse(url).unwrap().check().unwrap_err().why;
        assert!(refusal("redis+quorum://a,b,c?layout=redisson").contains("sentinels or a cluster"));
        assert!(refusal("redis://h?layout=redisson&quarantine=on").contains("do not keep it"));
        let bare = parse("redis://h?layout=redisson").unwrap();
        assert!(bare.check().is_ok() && !bare.fenced);
        assert_eq!((bare.lock_prefix(), bare.prefix()), ("", "lh:"));
        let mapped = parse("redis+cluster://a?fenced=on&prefix=app:&layout=redisson").unwrap();
        assert_eq!((mapped.lock_prefix(), mapped.fenced), ("app:", true));
    }

    #[test]
    fn each_wrong_part_is_named() {
        for (url, part) in [
            ("redis:h", "`://`"),
            ("http://h", "\"http\""),
            ("redis+galaxy://h", "\"redis+galaxy\""),
            ("rediss+unix:///run/a.sock", "\"rediss+unix\""),
            ("redis+cluster://a:1,a:1", "a:1 twice"),
            ("redis+cluster://a,,b", "no host"),
            ("redis+cluster://a/1", "no databases"),
            ("redis+sentinel://a:1", "no service"),
            ("redis+sentinel://a:1/main/x", "the database"),
            ("redis://", "no host"),
            ("redis:///0", "no host"),
            ("redis://a,b", "several hosts"),
            ("redis://[::1", "no `]`"),
            ("redis://[::1]1", "the port"),
            ("redis://h:99999", "the port"),
            ("redis://h:0", "the port"),
            ("redis://h:", "the port"),
            ("redis://h/zero", "the database"),
            ("redis://h/-1", "the database"),
            ("redis://bob@h", "a user and no password"),
            ("redis://b%zz:p@h", "the user"),
            ("redis://b:p%f@h", "the password"),
            ("redis://h?ttl=1s", "\"ttl\""),
            ("redis://h?timeout", "has no value"),
            ("redis://h?timeout=10", "write 10s"),
            ("redis://h?timeout=5ms", "`timeout`"),
            ("redis://h?offset=11s", "`offset`"),
            ("redis://h?connect_timeout=2m", "`connect_timeout`"),
            ("redis://h?timeout=1s&timeout=2s", "twice"),
            ("redis://h?layout=redlock", "\"redlock\""),
            ("redis://h?layout=redisson&fenced=1", "`fenced`"),
            ("redis://h?fenced=on", "layout=redisson"),
            ("redis://h?quarantine=0s", "`quarantine`"),
            ("redis://h?replicas=0", "`replicas`"),
            ("redis://h?replicas=some", "`replicas`"),
            ("redis://h?sentinel_user=a", "`sentinel_user`"),
            ("redis://h?waitaof=1", "`waitaof`"),
            ("redis://h?prefix=a%0a", "`prefix`"),
            ("redis://h?ca=/a", "`ca`"),
            ("redis://h?insecure=on", "`insecure`"),
            ("rediss://h?insecure=yes", "`insecure`"),
            ("rediss://h?insecure=on&ca=/a", "leave one of them out"),
            ("rediss://h?cert=/a", "give both"),
            ("redis+unix://run/a.sock", "three slashes"),
            ("redis+unix://", "three slashes"),
        ] {
            let why = parse(url).unwrap_err();
            assert!(why.contains(part), "{url}: {why}");
            assert!(!why.contains('\n'), "{url}: {why}");
        }
    }

    #[test]
    fn a_password_that_was_not_escaped_is_never_shown() {
        for url in [
            "redis://bob:hunter/2@h",
            "redis://bob:hunter@2@h",
            "redis://bob:hunter#2@h",
            "redis://bob:hunter?2@h",
            "redis://bob:hunter%2@h",
            "redis:bob:hunter@h",
            "redis:/bob:hunter@h",
            "redis//bob:hunter@h",
            "redis:bob:hunter://2@h",
            "redis://hunter@h",
            "redis://bob:hunter",
            "redis://bob:1/hunter",
            "redis://bob:hunter/2",
            "redis://bob:1?hunter",
            "redis://[::1]hunter:1",
            "redis+unix://bob:hunter/run/a.sock",
            "redis+sentinel://hunter@a/main",
            "redis+sentinel://a/main?sentinel_user=hunter",
            "redis+quorum://bob:hunter@a,bob:hunter@b",
        ] {
            let why = parse(url).unwrap_err();
            assert!(!why.contains("hunter"), "{why}");
        }
        for url in ["redis://bob:hunter2@h", "redis://hunter@h"] {
            let settings =
                RedisOptions::from_url_with(url, |_| Some("hunter2".to_owned())).unwrap();
            assert!(!format!("{settings:?}").contains("hunter"));
        }
    }
}
