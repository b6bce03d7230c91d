//! The options of a Redis store, as values and as a URL.

use std::fmt;
use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::text::parse_duration;

pub(crate) use crate::store::options::Server as Address;
use crate::store::options::{self, CONNECT_TIMEOUT, OFFSET, Quarantine, text, word};
use crate::store::place::{Environment, invalid, of_process};
use crate::store::secret::Login;
use crate::store::tls::{self, TlsConfig, TlsFiles};
use crate::store::url::{self, Url, decode};

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// The environment variable with the password for sentinels, which is never in a URL.
const SENTINEL_PASSWORD: &str = "LEASEHOLD_SENTINEL_PASSWORD";

/// The beginning of leasehold's keys.
const DEFAULT_PREFIX: &str = "lh:";

/// The longest prefix: 64 bytes, because every key has it.
const MAX_PREFIX_BYTES: usize = 64;

/// How long one request may take: 500 ms, which leaves several tries within a third of the shortest
/// usual ttl. A healthy server answers within one try.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// How the URL of a Redis store begins.
const FORMS: &str = "redis://, rediss:// (TLS), redis+unix://, redis+sentinel://, \
                     redis+cluster:// or redis+quorum://";

const LAYOUTS: [(&str, LayoutName); 4] = [
    ("native", LayoutName::Native),
    ("plain", LayoutName::Plain),
    ("redisson", LayoutName::Redisson),
    ("redisson-fenced", LayoutName::RedissonFenced),
];

/// The layout of locks on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutName {
    /// A string for a held lock, a queue for its waiters, and all features of leasehold.
    #[default]
    Native,
    /// The string of the Redis documentation, shared with programs in other languages.
    Plain,
    /// The locks of Redisson, shared with programs in Java. Tokens are the server's clock.
    Redisson,
    /// The same, and tokens are the counter of an `RFencedLock`.
    RedissonFenced,
}

impl LayoutName {
    /// Whether programs in other languages share the locks, so that the server keeps nothing but
    /// the locks.
    pub(crate) fn is_shared(self) -> bool {
        self != Self::Native
    }

    /// Whether programs in Java share the locks.
    pub(crate) fn is_redisson(self) -> bool {
        matches!(self, Self::Redisson | Self::RedissonFenced)
    }
}

/// The number of replicas that must have a grant before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replicas {
    /// All replicas.
    All,
    /// At least this number, from 1 to 100.
    AtLeast(u32),
    /// No replica: the primary's reply is enough.
    #[default]
    None,
}

/// The servers of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// Some nodes of a cluster, which name the others.
    Cluster(Vec<Address>),
    /// Independent primaries, of which a majority decides.
    Quorum(Vec<Address>),
    /// The primary of a service, as its sentinels name it.
    Sentinel { sentinels: Vec<Address>, service: String },
    /// One primary.
    Standalone(Address),
}

impl Servers {
    /// The servers of a URL, and its database.
    fn read<'a>(url: &Url<'a>, kind: &str) -> Result<(Self, &'a str), InvalidInput> {
        let Url { scheme, hosts, path, .. } = *url;
        let (service, database) = path.split_once('/').unwrap_or((path, ""));
        match kind {
            "" if hosts.contains(',') => Err(invalid(
                "the store URL names several hosts: give one primary, or say what they are by \
                 redis+sentinel://, redis+cluster:// or redis+quorum://",
            )),
            "" => Ok((Self::Standalone(url::server(hosts, DEFAULT_PORT)?), path)),
            "unix" if !hosts.is_empty() || path.is_empty() => Err(invalid(
                "a socket needs its absolute path: write redis+unix:///run/redis.sock, with three \
                 slashes",
            )),
            "unix" => {
                let host = decode("path", &format!("/{path}"))?;
                Ok((Self::Standalone(Address { host, port: 0 }), ""))
            }
            "cluster" => Ok((Self::Cluster(url::servers(hosts, DEFAULT_PORT)?), path)),
            "quorum" => Ok((Self::Quorum(url::servers(hosts, DEFAULT_PORT)?), path)),
            "sentinel" if service.is_empty() => Err(invalid(
                "there are sentinels and no service: write redis+sentinel://HOST:PORT,…/SERVICE, \
                 with the name that they monitor",
            )),
            "sentinel" => {
                let sentinels = url::servers(hosts, DEFAULT_SENTINEL_PORT)?;
                Ok((Self::Sentinel { sentinels, service: decode("service", service)? }, database))
            }
            _ => Err(url::unknown(scheme, FORMS)),
        }
    }

    /// What the addresses are, for the text before them.
    fn kind(&self) -> String {
        match self {
            Self::Cluster(_) => "cluster ".to_owned(),
            Self::Quorum(_) => "quorum ".to_owned(),
            Self::Sentinel { service, .. } => format!("service {service} of sentinels "),
            Self::Standalone(_) => String::new(),
        }
    }

    pub(crate) fn addresses(&self) -> &[Address] {
        match self {
            Self::Cluster(servers) | Self::Quorum(servers) => servers,
            Self::Sentinel { sentinels, .. } => sentinels,
            Self::Standalone(server) => slice::from_ref(server),
        }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind(), url::joined(self.addresses()))
    }
}

/// The servers of a Redis store and its options: everything that a store URL can have, as values.
///
/// Opening the store refuses values out of range, and options that exclude each other, with the
/// same messages as for a URL. No `Debug` and no error shows a password. Nothing is taken from the
/// environment, unless [`from_url`](Self::from_url) reads it.
///
/// [The manual](crate::store::Redis::MANUAL) says what each option promises, costs and needs on the
/// server.
///
/// # Examples
///
/// ```no_run
/// use leasehold::store::{Password, Redis, RedisOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn fetch_token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// let mut options = RedisOptions::from_url("rediss://locks.example:6379")?;
/// options.ca = Some("/etc/ssl/locks.pem".into());
/// options.login.user = Some("holder".into());
/// let source = || async { Ok(fetch_token().await?.into()) };
/// options.login.password = Some(Password::from_source(source));
/// options.prefix = Some("app:".to_owned());
/// let store = Redis::open(options).await?;
/// let client = leasehold::Client::builder().store(store).build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "options do nothing until a store is opened with them"]
pub struct RedisOptions {
    pub(crate) servers: Servers,
    /// The number of the database. Default: 0.
    pub database: u32,
    /// The login at servers. Default: the user `default`, without a password.
    pub login: Login,
    /// The login at sentinels, which never get the servers' password. Default: none.
    pub sentinel_login: Login,
    /// Whether connections use TLS, also to sentinels. Default: no.
    pub tls: bool,
    /// A TLS configuration of the program, instead of the three files. Default: none.
    pub tls_config: Option<TlsConfig>,
    /// A PEM file with the authorities to trust. Default: those of the system.
    pub ca: Option<PathBuf>,
    /// A PEM file with the client's certificate, beside `key`. Default: none.
    pub cert: Option<PathBuf>,
    /// A PEM file with the client's private key, beside `cert`. Default: none.
    pub key: Option<PathBuf>,
    /// The beginning of all keys and channels, at most 64 bytes. With the layouts of Redisson, the
    /// beginning of the names of locks, as from a `NameMapper`. Default: `lh:`; with the layouts of
    /// Redisson nothing.
    pub prefix: Option<String>,
    /// How long one request may take, 10 ms to 60 s. Opening a connection may take 5 s, or this if
    /// it is longer. Default: 500 ms; for an acquire in a quorum 1 % of its ttl, 5 to 50 ms.
    pub timeout: Option<Duration>,
    /// The layout of locks on the server. Default: native.
    pub layout: LayoutName,
    /// How many replicas must have a grant before it counts. Default: none.
    pub replicas: Replicas,
    /// Whether nothing new is granted for a minute after a server lost its memory. No ttl may be
    /// longer then. Default: off; on the nodes of a quorum on.
    pub quarantine: Quarantine,
}

impl RedisOptions {
    /// Reads a store URL. A password that is not in it comes from the environment
    /// (`LEASEHOLD_PASSWORD`, `LEASEHOLD_PASSWORD_FILE`, `LEASEHOLD_SENTINEL_PASSWORD`).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the part of the URL that is wrong, without showing a password.
    pub fn from_url(url: &str) -> Result<Self, InvalidInput> {
        Self::read(url, Some(&of_process))
    }

    /// Reads a URL. Without an environment, passwords may be missing, and options may exclude each
    /// other.
    pub(crate) fn read(
        url: &str,
        environment: Option<Environment<'_>>,
    ) -> Result<Self, InvalidInput> {
        let url = Url::read(url, "redis://HOST")?;
        let (base, kind) = url.scheme.split_once('+').unwrap_or((url.scheme, ""));
        let tls = match base {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" if kind != "unix" => true,
            _ => return Err(url::unknown(url.scheme, FORMS)),
        };
        let (servers, database) = Servers::read(&url, kind)?;
        let user = |user: &str| match kind {
            "sentinel" => Ok(user.into()),
            _ => Err(invalid("it is for sentinels: begin the URL with redis+sentinel://")),
        };
        let replicas = |text: &str| {
            Ok(match text {
                "all" => Replicas::All,
                "none" => Replicas::None,
                // No other word is a number in the range.
                number => Replicas::AtLeast(number.parse().unwrap_or(0)),
            })
        };
        let no_number = |_| invalid("the database in the store URL, after the `/`, is no number");
        let Url { login, mut query, .. } = url;
        let mut read = Self {
            servers,
            database: if database.is_empty() { 0 } else { database.parse().map_err(no_number)? },
            login,
            tls,
            tls_config: None,
            prefix: query.take("prefix", text)?,
            timeout: query.take("timeout", parse_duration)?,
            ca: query.take("ca", text)?,
            cert: query.take("cert", text)?,
            key: query.take("key", text)?,
            layout: query.take("layout", word(&LAYOUTS))?.unwrap_or_default(),
            sentinel_login: Login { user: query.take("sentinel_user", user)?, password: None },
            replicas: query.take("replicas", replicas)?.unwrap_or_default(),
            quarantine: query.take("quarantine", Quarantine::read)?.unwrap_or_default(),
        };
        query.end()?;
        if let Some(environment) = environment {
            url::complete(&mut read.login, environment)?;
            if kind == "sentinel" {
                read.sentinel_login.password = environment(SENTINEL_PASSWORD).map(Into::into);
            }
            read.check()?;
        }
        Ok(read)
    }

    /// What selects the locks on the servers.
    pub(crate) fn selection(&self) -> String {
        let Self { servers, tls, database, layout, .. } = self;
        format!("redis {}{tls} {database} {layout:?} {}", servers.kind(), self.lock_prefix())
    }

    /// The files of TLS, each with the name of its option.
    pub(crate) fn files(&self) -> TlsFiles {
        [("ca", self.ca.clone()), ("cert", self.cert.clone()), ("key", self.key.clone())]
    }

    /// Refuses values that are out of range or exclude each other.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        let has_tls = self.tls || self.tls_config.is_some();
        let off = (!has_tls).then_some("begin it with rediss://");
        tls::check(&self.files(), self.tls_config.is_some(), off)?;
        let prefix = self.prefix();
        let is_shared = self.layout.is_shared();
        let in_cluster = matches!(self.servers, Servers::Cluster(_));
        let in_quorum = matches!(self.servers, Servers::Quorum(_));
        let has_no_password = |login: &Login| login.user.is_some() && login.password.is_none();
        let brace = prefix.find('{').map(|at| &prefix[at + 1..]);
        let has_no_tag = !is_shared && brace.is_some_and(|rest| rest.starts_with('}'));
        let refusals = [
            (
                matches!(self.replicas, Replicas::AtLeast(0 | 101..)),
                "`replicas` is none, all or a number from 1 to 100",
            ),
            (
                prefix.len() > MAX_PREFIX_BYTES || prefix.chars().any(char::is_control),
                "`prefix` has more than 64 bytes or a control character",
            ),
            (self.database != 0 && in_cluster, "a cluster has no databases: leave the number out"),
            // The user in a URL may really be a password whose `:` was forgotten, so the message
            // does not show it.
            (
                has_no_password(&self.login),
                "there is a user and no password: write USER:PASSWORD@ or :PASSWORD@ in the store \
                 URL, or set LEASEHOLD_PASSWORD or LEASEHOLD_PASSWORD_FILE",
            ),
            (
                has_no_password(&self.sentinel_login),
                "there is a `sentinel_user` and no password for sentinels: set \
                 LEASEHOLD_SENTINEL_PASSWORD",
            ),
            (
                self.layout.is_redisson() && in_quorum,
                "layout=redisson is for one server, sentinels or a cluster: Redisson has no lock \
                 on a quorum that excludes anybody for certain",
            ),
            (
                in_cluster && has_no_tag,
                "in a cluster, `prefix` must not begin its first hash tag with {}: the keys of a \
                 lock would be in several slots",
            ),
            (
                is_shared && self.quarantine().is_some(),
                "`quarantine` does not go with layout=plain or layout=redisson: programs in other \
                 languages do not keep it",
            ),
        ];
        options::check(self.timeout(), &refusals)
    }

    /// The same options, for one of the nodes of a quorum.
    pub(crate) fn of_node(&self, address: &Address) -> Self {
        let is_on = self.quarantine == Quarantine::Default && self.quarantine().is_some();
        let quarantine = if is_on { Quarantine::On } else { self.quarantine };
        Self { servers: Servers::Standalone(address.clone()), quarantine, ..self.clone() }
    }

    /// How long one request may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// How long opening a connection may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        CONNECT_TIMEOUT.max(self.timeout())
    }

    /// The beginning of all keys and channels.
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(DEFAULT_PREFIX)
    }

    /// The beginning of the keys of locks: Redisson has no prefix except that of a `NameMapper`.
    pub(crate) fn lock_prefix(&self) -> &str {
        let default = if self.layout.is_redisson() { "" } else { DEFAULT_PREFIX };
        self.prefix.as_deref().unwrap_or(default)
    }

    /// How long nothing new is granted once the server may have forgotten something.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        // A single node that forgets is enough for two clients to have a majority.
        let has_ballots = matches!(self.servers, Servers::Quorum(_)) && !self.layout.is_shared();
        self.quarantine.span(has_ballots)
    }

    /// Whether requests for many names may travel as one call. In a cluster, a call must stay
    /// within a slot. With a quarantine, what may grant also has the key of the boot record and the
    /// run of the server.
    pub(crate) fn bundles(&self) -> bool {
        let is_cluster = matches!(self.servers, Servers::Cluster(_));
        (!is_cluster || bugs::is_on(Bug::SlotsInOneCall)) && self.quarantine().is_none()
    }

    /// The remedy for a server that forgets: one of its settings, or a quarantine if the store can
    /// have one.
    pub(crate) fn or_quarantine(&self, setting: &str) -> String {
        match self.layout.is_shared() {
            true => setting.to_owned(),
            false => format!("{setting}, or quarantine=on in every store URL"),
        }
    }

    /// The largest difference between the clocks of servers that take over from each other. With a
    /// quarantine it does not matter: earlier leases have ended by either clock.
    pub(crate) fn clock_offset(&self, is_followed: bool) -> Duration {
        let is_taken_over = match &self.servers {
            Servers::Cluster(_) | Servers::Sentinel { .. } => true,
            Servers::Standalone(_) => is_followed || self.replicas != Replicas::None,
            Servers::Quorum(_) => false,
        };
        if is_taken_over && self.quarantine().is_none() { OFFSET } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests;
