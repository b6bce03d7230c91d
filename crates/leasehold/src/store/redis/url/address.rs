//! Where servers listen, and which of them a store is made of.

use std::fmt;
use std::path::PathBuf;

use leasehold_core::Invalid;

use super::{decode, invalid};

const DEFAULT_PORT: u16 = 6379;

/// Where Sentinel listens if nobody says otherwise.
const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    /// A host by name or number, and a port.
    Tcp { host: String, port: u16 },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The servers that a store is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Some nodes of a cluster, which know the others.
    Cluster(Vec<Address>),
    /// One primary.
    One(Address),
    /// Independent primaries, of which a majority decides.
    Quorum(Vec<Address>),
    /// Whoever is the primary of a service, as its sentinels say.
    Sentinel { sentinels: Vec<Address>, service: String },
}

impl Place {
    /// What a scheme says that the hosts of a URL are.
    pub(crate) fn tcp(scheme: &str, hosts: &str, service: &str) -> Result<Self, Invalid> {
        match scheme.split_once('+').map(|(_, kind)| kind) {
            None if hosts.contains(',') => Err(invalid(
                "the store URL names several hosts: give one primary, or say what they are by \
                 redis+sentinel://, redis+cluster:// or redis+quorum://",
            )),
            None => parse_host(hosts, DEFAULT_PORT).map(Self::One),
            Some("cluster") => parse_hosts(hosts, DEFAULT_PORT).map(Self::Cluster),
            Some("quorum") => parse_hosts(hosts, DEFAULT_PORT).map(Self::Quorum),
            Some("sentinel") if service.is_empty() => Err(invalid(
                "the store URL names no service: write redis+sentinel://HOST:PORT,…/SERVICE, with \
                 the name that the sentinels monitor",
            )),
            Some("sentinel") => Ok(Self::Sentinel {
                sentinels: parse_hosts(hosts, DEFAULT_SENTINEL_PORT)?,
                service: decode("service", service)?,
            }),
            Some(_) => Err(unknown_scheme(scheme)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |addresses: &[Address]| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        match self {
            Self::Cluster(nodes) => write!(f, "cluster {}", join(nodes)),
            Self::One(address) => address.fmt(f),
            Self::Quorum(nodes) => write!(f, "quorum {}", join(nodes)),
            Self::Sentinel { sentinels, service } => {
                write!(f, "service {service} of sentinels {}", join(sentinels))
            }
        }
    }
}

pub(crate) fn unknown_scheme(scheme: &str) -> Invalid {
    invalid(format!(
        "the store URL begins with {scheme:?}: use redis://, rediss:// (TLS), redis+unix://, \
         redis+sentinel://, redis+cluster:// or redis+quorum://"
    ))
}

fn parse_hosts(text: &str, default_port: u16) -> Result<Vec<Address>, Invalid> {
    let mut addresses = Vec::new();
    for host in text.split(',') {
        let address = parse_host(host, default_port)?;
        if addresses.contains(&address) {
            return Err(invalid(format!("the store URL names {address} twice")));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn parse_host(text: &str, default_port: u16) -> Result<Address, Invalid> {
    let unclosed = || invalid("the host in the store URL begins with `[` and has no `]`");
    let (host, rest) = if let Some(bracketed) = text.strip_prefix('[') {
        bracketed.split_once(']').ok_or_else(unclosed)?
    } else {
        text.split_at(text.find(':').unwrap_or(text.len()))
    };
    if host.is_empty() {
        return Err(invalid("the store URL names no host: write redis://HOST[:PORT]"));
    }
    let port = match rest.strip_prefix(':').map(str::parse) {
        None if rest.is_empty() => default_port,
        Some(Ok(port)) if port > 0 => port,
        // It may be a password whose `@` is missing.
        None | Some(_) => {
            return Err(invalid(
                "the port in the store URL is not 1 to 65535: write redis://HOST:PORT, with \
                 USER:PASSWORD@ before the host if it has users",
            ));
        }
    };
    Ok(Address::Tcp { host: decode("host", host)?, port })
}
