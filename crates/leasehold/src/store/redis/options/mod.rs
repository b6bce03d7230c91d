//! The options of a Redis store.

mod servers;
#[cfg(test)]
mod tests;
mod url;

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::bugs::{self, Bug};

pub(crate) use self::servers::{Address, Servers};
use crate::store::options::{self, Quarantine, TlsConfig, invalid};
use crate::store::secret::Login;
use crate::store::span::{self, CONNECT_TIMEOUT, OFFSET, TIMEOUTS};

/// The beginning of leasehold's keys.
const DEFAULT_PREFIX: &str = "lh:";

/// The longest prefix: 64 bytes, because every key has it.
const MAX_PREFIX_BYTES: usize = 64;

/// How long one request may take: 500 ms, which leaves several tries within a third of the shortest
/// usual ttl. A healthy server answers within one try.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(500);

/// The largest number of replicas that `replicas=` can ask for: more than anybody has.
const MAX_REPLICAS: u32 = 100;

/// The layout of locks on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutName {
    /// A hash with a queue, tokens and all features of leasehold.
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

impl Replicas {
    fn refusal(given: &str) -> InvalidInput {
        invalid(format!("`replicas` is {given:?}: give none, all or a number from 1"))
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
/// let mut options = RedisOptions::standalone("locks.example", 6379);
/// options.tls = true;
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
#[derive(Clone, Debug)]
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
    /// One primary: `redis://HOST:PORT`.
    pub fn standalone(host: impl Into<String>, port: u16) -> Self {
        Self::of(Servers::Standalone(Address::Tcp { host: host.into(), port }))
    }

    /// One primary at a socket, by its absolute path: `redis+unix://PATH`.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::of(Servers::Standalone(Address::Unix(path.into())))
    }

    /// The primary of a service, as these sentinels name it:
    /// `redis+sentinel://HOST:PORT,…/SERVICE`.
    pub fn sentinel<H: Into<String>>(
        sentinels: impl IntoIterator<Item = (H, u16)>,
        service: impl Into<String>,
    ) -> Self {
        let sentinels = Address::of_each(sentinels);
        Self::of(Servers::Sentinel { sentinels, service: service.into() })
    }

    /// A cluster. These nodes name the others: `redis+cluster://HOST:PORT,…`.
    pub fn cluster<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::of(Servers::Cluster(Address::of_each(nodes)))
    }

    /// Independent primaries, of which a majority decides: `redis+quorum://HOST:PORT,…`.
    /// [`store::open`](crate::store::open) opens such a store.
    pub fn quorum<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::of(Servers::Quorum(Address::of_each(nodes)))
    }

    fn of(servers: Servers) -> Self {
        Self {
            servers,
            database: 0,
            login: Login::default(),
            sentinel_login: Login::default(),
            tls: false,
            tls_config: None,
            ca: None,
            cert: None,
            key: None,
            prefix: None,
            timeout: None,
            layout: LayoutName::default(),
            replicas: Replicas::default(),
            quarantine: Quarantine::default(),
        }
    }

    /// The same options, for one of the nodes of a quorum.
    pub(crate) fn of_node(&self, address: &Address) -> Self {
        let mut node = Self { servers: Servers::Standalone(address.clone()), ..self.clone() };
        if self.quarantine == Quarantine::Default && self.quarantine().is_some() {
            node.quarantine = Quarantine::On;
        }
        node
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
        match self.layout.is_redisson() {
            true => self.prefix.as_deref().unwrap_or_default(),
            false => self.prefix(),
        }
    }

    /// How long nothing new is granted once the server may have forgotten something.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        // A single node that forgets is enough for two clients to have a majority.
        let has_ballots = matches!(self.servers, Servers::Quorum(_)) && !self.layout.is_shared();
        self.quarantine.span(has_ballots)
    }

    /// Whether requests for many names may travel as one call. In a cluster, a call must stay
    /// within a slot. With a quarantine, each acquire is followed by a command that reads the boot
    /// record.
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
        match is_taken_over && self.quarantine().is_none() {
            true => OFFSET,
            false => Duration::ZERO,
        }
    }

    /// Refuses options with which no store can be opened.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        self.check_values()?;
        self.check_logins()?;
        if matches!(self.servers, Servers::Quorum(_)) && self.layout.is_redisson() {
            return Err(invalid(
                "layout=redisson is for one server, sentinels or a cluster: Redisson has no lock \
                 on a quorum that excludes anybody for certain",
            ));
        }
        if self.layout.is_shared() && self.quarantine().is_some() {
            return Err(invalid(
                "`quarantine` does not go with layout=plain or layout=redisson: programs in other \
                 languages do not keep it",
            ));
        }
        Ok(())
    }

    /// Refuses values that are out of range or exclude each other.
    fn check_values(&self) -> Result<(), InvalidInput> {
        self.check_servers()?;
        span::check("timeout", self.timeout(), TIMEOUTS)?;
        if let Replicas::AtLeast(count) = self.replicas
            && !(1..=MAX_REPLICAS).contains(&count)
        {
            return Err(Replicas::refusal(&count.to_string()));
        }
        let prefix = self.prefix();
        if prefix.len() > MAX_PREFIX_BYTES || prefix.chars().any(char::is_control) {
            let why =
                format!("`prefix` has more than {MAX_PREFIX_BYTES} bytes or a control character");
            return Err(invalid(why));
        }
        if self.database != 0 && matches!(self.servers, Servers::Cluster(_)) {
            return Err(invalid("a cluster has no databases: leave the number out"));
        }
        self.check_tls()
    }

    /// Refuses a user without a password.
    fn check_logins(&self) -> Result<(), InvalidInput> {
        if self.login.user.is_some() && self.login.password.is_none() {
            // The user in a URL may really be a password whose `:` was forgotten, so the message
            // does not show it.
            return Err(invalid(
                "there is a user and no password: write USER:PASSWORD@ or :PASSWORD@ in the store \
                 URL, or set LEASEHOLD_PASSWORD or LEASEHOLD_PASSWORD_FILE",
            ));
        }
        if self.sentinel_login.user.is_some() && self.sentinel_login.password.is_none() {
            return Err(invalid(
                "there is a `sentinel_user` and no password for sentinels: set \
                 LEASEHOLD_SENTINEL_PASSWORD",
            ));
        }
        Ok(())
    }

    fn check_servers(&self) -> Result<(), InvalidInput> {
        options::check_addresses("redis", self.servers.addresses(), Address::host_and_port)?;
        match &self.servers {
            Servers::Standalone(Address::Unix(path)) if !path.is_absolute() => Err(no_socket()),
            Servers::Sentinel { service, .. } if service.is_empty() => Err(invalid(
                "there are sentinels and no service: write redis+sentinel://HOST:PORT,…/SERVICE, \
                 with the name that the sentinels monitor",
            )),
            Servers::Sentinel { .. } => Ok(()),
            Servers::Cluster(_) | Servers::Quorum(_) | Servers::Standalone(_) => {
                if self.sentinel_login.user.is_none() && self.sentinel_login.password.is_none() {
                    return Ok(());
                }
                Err(invalid(
                    "`sentinel_user` and the password beside it are for sentinels: begin the \
                     store URL with redis+sentinel://",
                ))
            }
        }
    }

    fn check_tls(&self) -> Result<(), InvalidInput> {
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        let given = files.iter().find(|(_, file)| file.is_some());
        let has_tls = self.tls || self.tls_config.is_some();
        match given {
            Some((name, _)) if self.tls_config.is_some() => Err(invalid(format!(
                "`{name}` is a part of the TLS configuration that the program gives: set it there"
            ))),
            Some((name, _)) if !has_tls => Err(invalid(format!(
                "`{name}` in the store URL is for TLS: begin it with rediss://"
            ))),
            _ if has_tls && matches!(self.servers, Servers::Standalone(Address::Unix(_))) => {
                Err(invalid("a unix socket has no TLS: leave it out"))
            }
            _ if self.cert.is_some() != self.key.is_some() => {
                Err(invalid("`cert` and `key` go together: give both"))
            }
            _ => Ok(()),
        }
    }
}

fn no_socket() -> InvalidInput {
    invalid(
        "a socket needs its absolute path: write redis+unix:///run/redis.sock, with three slashes",
    )
}
