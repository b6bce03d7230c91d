//! Reads the options of a Redis store: from `redis:` URLs, and from connections of redis-rs.

use leasehold_core::InvalidInput;
use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::{Address, LayoutName, RedisOptions, Replicas, Servers, no_socket};
use crate::store::options::{Quarantine, invalid, unknown, word};
use crate::store::span;
use crate::store::url::{self, Url, decode};

const DEFAULT_PORT: u16 = 6379;

/// The default port of Sentinel.
const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// The environment variable with the password for sentinels, which is never in a URL.
pub(super) const SENTINEL_PASSWORD: &str = "LEASEHOLD_SENTINEL_PASSWORD";

/// The options of a URL, in the order of the manual.
pub(super) const OPTIONS: [&str; 9] =
    ["prefix", "timeout", "ca", "cert", "key", "layout", "sentinel_user", "replicas", "quarantine"];

const LAYOUTS: [(&str, LayoutName); 4] = [
    ("native", LayoutName::Native),
    ("plain", LayoutName::Plain),
    ("redisson", LayoutName::Redisson),
    ("redisson-fenced", LayoutName::RedissonFenced),
];

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
        let mut options = Self::read(url)?;
        url::complete(&mut options.login, &environment)?;
        if matches!(options.servers, Servers::Sentinel { .. }) {
            options.sentinel_login.password = environment(SENTINEL_PASSWORD).map(Into::into);
        }
        options.check_logins()?;
        Ok(options)
    }

    /// Reads the URL itself.
    pub(crate) fn read(url: &str) -> Result<Self, InvalidInput> {
        let Url { scheme, login, hosts, path, options } = Url::read(url, "redis://HOST")?;
        let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = match base {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" if kind != "unix" => true,
            _ => return Err(unknown_scheme(scheme)),
        };
        let (service, database) = match kind {
            "sentinel" => path.split_once('/').unwrap_or((path, "")),
            "unix" => ("", ""),
            _ => ("", path),
        };
        let mut read = RedisOptions::of(match kind {
            "" if hosts.contains(',') => {
                return Err(invalid(
                    "the store URL names several hosts: give one primary, or say what they are by \
                 redis+sentinel://, redis+cluster:// or redis+quorum://",
                ));
            }
            "" => Servers::Standalone(address(hosts, DEFAULT_PORT)?),
            "unix" if !hosts.is_empty() || path.is_empty() => return Err(no_socket()),
            "unix" => {
                Servers::Standalone(Address::Unix(decode("path", &format!("/{path}"))?.into()))
            }
            "cluster" => Servers::Cluster(addresses(hosts, DEFAULT_PORT)?),
            "quorum" => Servers::Quorum(addresses(hosts, DEFAULT_PORT)?),
            "sentinel" => Servers::Sentinel {
                sentinels: addresses(hosts, DEFAULT_SENTINEL_PORT)?,
                service: decode("service", service)?,
            },
            _ => return Err(unknown_scheme(scheme)),
        });
        (read.login, read.tls) = (login, tls);
        if !database.is_empty() {
            read.database = database.parse().map_err(|_| {
                invalid("the database in the store URL, behind the `/`, is not a number")
            })?;
        }
        for (name, value) in options {
            read.set(name, value)?;
        }
        read.check_values()?;
        Ok(read)
    }

    fn set(&mut self, name: &str, text: String) -> Result<(), InvalidInput> {
        match name {
            "prefix" => self.prefix = Some(text),
            "timeout" => self.timeout = Some(span::read(name, &text)?),
            "ca" => self.ca = Some(text.into()),
            "cert" => self.cert = Some(text.into()),
            "key" => self.key = Some(text.into()),
            "layout" => self.layout = word(name, &text, &LAYOUTS)?,
            "sentinel_user" => self.sentinel_login.user = Some(text.into()),
            "replicas" => {
                self.replicas = match text.as_str() {
                    "all" => Replicas::All,
                    "none" => Replicas::None,
                    number => {
                        let count = number.parse().map_err(|_| Replicas::refusal(number))?;
                        Replicas::AtLeast(count)
                    }
                }
            }
            "quarantine" => self.quarantine = Quarantine::read(name, &text)?,
            _ => return Err(unknown(name, &OPTIONS)),
        }
        Ok(())
    }
}

fn addresses(hosts: &str, default_port: u16) -> Result<Vec<Address>, InvalidInput> {
    hosts.split(',').map(|text| address(text, default_port)).collect()
}

fn address(text: &str, default_port: u16) -> Result<Address, InvalidInput> {
    let (host, port) = Url::host("redis", text, default_port)?;
    Ok(Address::Tcp { host, port })
}

fn unknown_scheme(scheme: &str) -> InvalidInput {
    invalid(format!(
        "the store URL begins with {scheme:?}: use redis://, rediss:// (TLS), redis+unix://, \
         redis+sentinel://, redis+cluster:// or redis+quorum://"
    ))
}

/// The server, database, user and password of a `redis::ConnectionInfo` of redis-rs 1.x. The store
/// opens its own connections to that server. TLS with certificates is refused, because redis-rs
/// does not show the certificates: give them by [`ca`](RedisOptions::ca) or
/// [`tls_config`](RedisOptions::tls_config). TLS that trusts any server is refused, too.
impl TryFrom<&ConnectionInfo> for RedisOptions {
    type Error = InvalidInput;

    fn try_from(info: &ConnectionInfo) -> Result<Self, InvalidInput> {
        let tcp = |host: &String, port| Address::Tcp { host: host.clone(), port };
        let (address, tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (tcp(host, *port), false),
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None } => {
                (tcp(host, *port), true)
            }
            ConnectionAddr::Unix(path) => (Address::Unix(path.clone()), false),
            _ => {
                return Err(invalid(
                    "the certificates of a redis-rs connection cannot be read, and a server \
                     without one is not trusted: make the options by `RedisOptions::standalone`, \
                     with `ca` or `tls_config`",
                ));
            }
        };
        let redis = info.redis_settings();
        let mut options = Self { tls, ..Self::of(Servers::Standalone(address)) };
        options.database = u32::try_from(redis.db()).map_err(|_| {
            invalid(format!("the database {} of the connection is no number from 0 on", redis.db()))
        })?;
        options.login.user = redis.username().map(Into::into);
        options.login.password = redis.password().map(Into::into);
        Ok(options)
    }
}

/// The same as from the client's `redis::ConnectionInfo`.
impl TryFrom<&Client> for RedisOptions {
    type Error = InvalidInput;

    fn try_from(client: &Client) -> Result<Self, InvalidInput> {
        client.get_connection_info().try_into()
    }
}
