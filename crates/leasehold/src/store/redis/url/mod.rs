//! What a `redis:` URL says.

mod address;
mod login;
mod options;

use std::time::Duration;

use leasehold_core::Invalid;
use leasehold_core::model::{DEFAULT_RETENTION, LEAST_RETENTION};
use leasehold_core::text::{percent_decode, show_duration, split_scheme};

pub(crate) use self::address::{Address, Place};
pub(crate) use self::login::Login;
use self::options::QUARANTINE;
pub(crate) use self::options::{LayoutName, Replicas, TlsFiles};

/// What the keys of leasehold begin with.
const DEFAULT_PREFIX: &str = "lh:";

/// How long opening a connection may take: 5 s, two lost SYN packets and a slow name server.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one request may take: 500 ms, which leaves several tries within a third of the
/// shortest usual ttl; a healthy server answers within one.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// How far the clocks of servers may be apart that take over from each other: 500 ms, far above
/// what NTP leaves, and little beside the usual ttl.
const DEFAULT_OFFSET: Duration = Duration::from_millis(500);

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) place: Place,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) login: Login,
    /// Who the client is to sentinels.
    pub(crate) sentinel_login: Login,
    pub(crate) database: u32,
    pub(crate) layout: LayoutName,
    pub(crate) prefix: Option<String>,
    pub(crate) retention: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long one request may take, if the URL says so.
    pub(crate) timeout: Option<Duration>,
    /// How far clocks may be apart, if the URL says so.
    pub(crate) offset: Option<Duration>,
    /// How many replicas must have a grant before it counts.
    pub(crate) replicas: Replicas,
    /// Whether a grant must be on the primary's disk before it counts.
    pub(crate) waitaof: bool,
    /// How long nothing new is granted after the server may have forgotten something.
    pub(crate) quarantine: Option<Duration>,
}

impl Settings {
    /// Reads a URL; a password that is not in it comes from the environment.
    pub(crate) fn parse(url: &str) -> Result<Self, Invalid> {
        Self::parse_with(url, |name| std::env::var(name).ok())
    }

    fn parse_with(
        url: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Invalid> {
        let mut settings = Self::read(url)?;
        settings.login.complete(&environment)?;
        if matches!(settings.place, Place::Sentinel { .. }) {
            settings.sentinel_login.complete_for_sentinels(&environment)?;
        }
        Ok(settings)
    }

    /// Reads what the URL itself says.
    fn read(url: &str) -> Result<Self, Invalid> {
        let parts = split_scheme(url).and_then(|(scheme, rest)| {
            let rest = rest.strip_prefix("//")?;
            Some((scheme, rest))
        });
        let (scheme, rest) = parts.ok_or_else(|| {
            invalid("the store URL has no `://` after its scheme: write redis://HOST")
        })?;
        let (place, options) = rest.split_once('?').map_or((rest, ""), |(a, b)| (a, b));
        check_delimiters(place, options)?;
        let tls = match scheme.split('+').next() {
            Some("redis" | "valkey") => None,
            Some("rediss" | "valkeys") => Some(TlsFiles::default()),
            _ => return Err(address::unknown_scheme(scheme)),
        };
        let mut settings = match scheme {
            "redis+unix" | "valkey+unix" => Self::unix(place)?,
            _ => Self::tcp(scheme, place, tls)?,
        };
        settings.read_options(options)?;
        let says_quarantine = options.split('&').any(|option| option.starts_with("quarantine="));
        let is_quorum = matches!(settings.place, Place::Quorum(_));
        if is_quorum && settings.layout == LayoutName::Native && !says_quarantine {
            // One node that forgets is enough to give two clients a majority.
            settings.quarantine = Some(QUARANTINE);
        }
        settings.check_retention()?;
        Ok(settings)
    }

    /// How long one request may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// What all keys and channels begin with.
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(DEFAULT_PREFIX)
    }

    /// Whether `quarantine=` may be given.
    fn may_be_in_quarantine(&self) -> bool {
        !matches!(self.place, Place::Cluster(_)) && self.layout != LayoutName::Plain
    }

    /// What mends that a server forgets: a setting of its own, or a quarantine where there may be
    /// one.
    pub(crate) fn or_quarantine(&self, setting: &str) -> String {
        match self.may_be_in_quarantine() {
            true => format!("{setting}, or quarantine=on in every store URL"),
            false => setting.to_owned(),
        }
    }

    /// Refuses what no part of the store does yet, and what makes no sense together.
    pub(crate) fn check_available(&self) -> Result<(), Invalid> {
        if self.quarantine.is_none() || self.may_be_in_quarantine() {
            return Ok(());
        }
        if matches!(self.place, Place::Cluster(_)) {
            // A boot record says nothing of other slots, and a slot that moves takes it along.
            return Err(invalid(
                "`quarantine` in the store URL is not available for a cluster in this release: \
                 leave it out",
            ));
        }
        Err(invalid(
            "`quarantine` in the store URL does not go with layout=plain: programs in other \
             languages do not keep it",
        ))
    }

    /// How far the clocks of servers may be apart that take over from each other. After a
    /// quarantine it does not matter: what was granted before has ended by either clock.
    pub(crate) fn clock_offset(&self, is_followed: bool) -> Duration {
        let is_taken_over = match &self.place {
            Place::Cluster(_) | Place::Sentinel { .. } => true,
            Place::One(_) => is_followed || self.replicas != Replicas::None,
            Place::Quorum(_) => false,
        };
        self.offset.unwrap_or(match is_taken_over && self.quarantine.is_none() {
            true => DEFAULT_OFFSET,
            false => Duration::ZERO,
        })
    }

    /// The nodes of a quorum must not forget a token while a lower one could be granted.
    fn check_retention(&self) -> Result<(), Invalid> {
        let has_ballots =
            matches!(self.place, Place::Quorum(_)) && self.layout == LayoutName::Native;
        if !has_ballots || self.retention >= LEAST_RETENTION {
            return Ok(());
        }
        let [retention, least] = [self.retention, LEAST_RETENTION].map(show_duration);
        Err(invalid(format!(
            "`retention` in the store URL is {retention}, and the nodes of a quorum would forget a \
             token before a lower one is refused for its age: give {least} or more, or leave it out"
        )))
    }

    fn at(place: Place, tls: Option<TlsFiles>, login: Login) -> Self {
        Self {
            place,
            tls,
            login,
            sentinel_login: Login::default(),
            database: 0,
            layout: LayoutName::default(),
            prefix: None,
            retention: DEFAULT_RETENTION,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            timeout: None,
            offset: None,
            replicas: Replicas::default(),
            waitaof: false,
            quarantine: None,
        }
    }

    fn tcp(scheme: &str, place: &str, tls: Option<TlsFiles>) -> Result<Self, Invalid> {
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (login, hosts) = split_credentials(authority)?;
        let (service, database) = match scheme.ends_with("+sentinel") {
            true => path.split_once('/').unwrap_or((path, "")),
            false => ("", path),
        };
        let mut settings = Self::at(Place::tcp(scheme, hosts, service)?, tls, login);
        if !database.is_empty() {
            settings.database = database.parse().map_err(|_| {
                invalid("the database in the store URL, behind the `/`, is not a number")
            })?;
        }
        if settings.database != 0 && matches!(settings.place, Place::Cluster(_)) {
            return Err(invalid(
                "a cluster has no databases: leave the number out of the store URL",
            ));
        }
        Ok(settings)
    }

    fn unix(place: &str) -> Result<Self, Invalid> {
        let slash = place.find('/').unwrap_or(place.len());
        let (authority, path) = place.split_at(slash);
        let (login, host) = split_credentials(authority)?;
        if path.is_empty() || !host.is_empty() {
            return Err(invalid(
                "the store URL needs the absolute path of a socket: write \
                 redis+unix:///run/redis.sock, with three slashes",
            ));
        }
        let address = Address::Unix(decode("path", path)?.into());
        Ok(Self::at(Place::One(address), None, login))
    }
}

fn invalid(why: impl Into<String>) -> Invalid {
    Invalid::new("url", why)
}

/// A URL as it may be shown, if it can be read: without its password, and without a user that has
/// none, since that may be the password in the wrong place.
pub(crate) fn without_password(url: &str) -> Option<String> {
    Settings::read(url).ok()?;
    // It was read, so there is one `@` at most, and the login stands before it.
    let Some((before, after)) = url.split_once('@') else { return Some(url.to_owned()) };
    let (scheme, login) = before.split_once("://")?;
    let user = login.split_once(':').map_or("", |(user, _)| user);
    let colon = if login.contains(':') { ":" } else { "" };
    Some(format!("{scheme}://{user}{colon}***@{after}"))
}

/// Refuses a delimiter where none belongs: it is a password that was not escaped, and no later
/// message may show a piece of it.
fn check_delimiters(place: &str, options: &str) -> Result<(), Invalid> {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let strays = path.contains('@')
        || options.contains('@')
        || place.contains('#')
        || options.contains('#')
        || authority.matches('@').count() > 1;
    if strays {
        return Err(invalid(
            "the store URL has a `@` or `#` where none belongs: write `/` as %2F, `?` as %3F, `#` \
             as %23, `@` as %40, or give the password in LEASEHOLD_PASSWORD",
        ));
    }
    Ok(())
}

fn split_credentials(authority: &str) -> Result<(Login, &str), Invalid> {
    match authority.split_once('@') {
        Some((credentials, hosts)) => Ok((Login::parse(credentials)?, hosts)),
        None => Ok((Login::default(), authority)),
    }
}

/// Undoes `%2F` and the like.
fn decode(part: &str, text: &str) -> Result<String, Invalid> {
    percent_decode(text).ok_or_else(|| {
        invalid(format!(
            "the {part} in the store URL has a `%` without two hex digits, or no UTF-8"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Settings, String> {
        Settings::parse_with(url, |_| None).map_err(|refusal| refusal.why)
    }

    fn address(url: &str) -> String {
        parse(url).unwrap().place.to_string()
    }

    #[test]
    fn a_host_may_have_a_port_a_database_and_credentials() {
        let settings = parse("redis://bob:p%40ss%2F@db.example:7000/3").unwrap();
        assert_eq!(settings.place.to_string(), "db.example:7000");
        assert_eq!((settings.login.user.as_deref(), settings.database), (Some("bob"), 3));
        assert_eq!(settings.login.password.unwrap().reveal(), "p@ss/");
        assert_eq!(address("redis://h"), "h:6379");
        assert_eq!(address("valkey://[::1]:1/"), "[::1]:1");
        assert_eq!(parse("redis://:pw@h").unwrap().login.user, None);
    }

    #[test]
    fn a_unix_socket_may_have_credentials() {
        let settings = parse("redis+unix://u:p@/run/a%20b.sock?timeout=1s").unwrap();
        assert_eq!(settings.place, Place::One(Address::Unix("/run/a b.sock".into())));
        assert_eq!(settings.login.user.as_deref(), Some("u"));
        assert_eq!(settings.timeout, Some(Duration::from_secs(1)));
    }

    #[test]
    fn every_option_is_read() {
        let settings = parse(
            "rediss://h?ca=/a.pem&cert=/b.pem&key=/c.pem&prefix=app%3A&retention=10m&\
             connect_timeout=1s&timeout=100ms&layout=plain&insecure=off&quarantine=on&\
             replicas=2&waitaof=on",
        )
        .unwrap();
        let tls = settings.tls.unwrap();
        assert_eq!(tls.authority, Some("/a.pem".into()));
        assert_eq!((tls.certificate, tls.key), (Some("/b.pem".into()), Some("/c.pem".into())));
        assert!(!tls.insecure);
        assert_eq!(settings.prefix.as_deref(), Some("app:"));
        assert_eq!(settings.retention, Duration::from_mins(10));
        assert_eq!(settings.connect_timeout, Duration::from_secs(1));
        assert_eq!(settings.timeout, Some(Duration::from_millis(100)));
        assert_eq!((settings.layout, settings.replicas), (LayoutName::Plain, Replicas::AtLeast(2)));
        assert_eq!((settings.waitaof, settings.quarantine), (true, Some(Duration::from_mins(1))));
        assert_eq!(parse("redis://h?quarantine=5s&prefix=").unwrap().prefix.as_deref(), Some(""));
    }

    #[test]
    fn a_fleet_is_several_hosts_and_what_they_are() {
        let hosts = [("a", 1), ("b", 6379)];
        let nodes = hosts.map(|(host, port)| Address::Tcp { host: host.to_owned(), port }).to_vec();
        assert_eq!(parse("redis+cluster://a:1,b").unwrap().place, Place::Cluster(nodes.clone()));
        let quorum = parse("valkey+quorum://u:p@a:1,b/2").unwrap();
        assert_eq!((quorum.place, quorum.database), (Place::Quorum(nodes), 2));
        assert_eq!(quorum.quarantine, Some(QUARANTINE), "on unless somebody says otherwise");
        assert_eq!(parse("redis+quorum://a,b?quarantine=off").unwrap().quarantine, None);
        assert_eq!(parse("redis+quorum://a,b?layout=plain").unwrap().quarantine, None);
        let service = parse("rediss+sentinel://a:1,b/main/3").unwrap();
        assert!(service.tls.is_some() && service.database == 3);
        assert_eq!(service.place.to_string(), "service main of sentinels a:1,b:26379");
    }

    #[test]
    fn clocks_may_be_apart_where_a_server_may_take_over() {
        let offset = |url: &str, is_followed| parse(url).unwrap().clock_offset(is_followed);
        for url in ["redis+sentinel://a/main", "redis+cluster://a", "redis://h?replicas=1"] {
            assert_eq!(offset(url, false), DEFAULT_OFFSET, "{url}");
        }
        assert_eq!(offset("redis://h", false), Duration::ZERO);
        assert_eq!(offset("redis://h", true), DEFAULT_OFFSET);
        assert_eq!(offset("redis+sentinel://a/main?quarantine=on", true), Duration::ZERO);
        assert_eq!(offset("redis+quorum://a,b,c?quarantine=off", true), Duration::ZERO);
        assert_eq!(offset("redis+cluster://a?offset=2s", false), Duration::from_secs(2));
        assert_eq!(offset("redis+cluster://a?offset=0s", false), Duration::ZERO);
    }

    #[test]
    fn a_quorum_keeps_tokens_for_longer_than_ballots_and_clocks_may_be_ahead() {
        assert!(parse("redis+quorum://a,b,c?retention=30s").is_ok());
        assert!(parse("redis+quorum://a,b,c?retention=1s&layout=plain").is_ok(), "no ballots");
        assert!(parse("redis://h?retention=1s").is_ok());
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
            ("redis://h?retention=0s", "`retention`"),
            ("redis+quorum://a,b,c?retention=29s", "30s or more"),
            ("redis://h?offset=11s", "`offset`"),
            ("redis://h?connect_timeout=2m", "`connect_timeout`"),
            ("redis://h?timeout=1s&timeout=2s", "twice"),
            ("redis://h?layout=redisson", "\"redisson\""),
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
            let settings = Settings::parse_with(url, |_| Some("hunter2".to_owned())).unwrap();
            assert!(!format!("{settings:?}").contains("hunter"));
        }
    }
}
