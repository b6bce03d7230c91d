//! The addresses of servers, and the servers of a store.

use std::fmt;
use std::path::PathBuf;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    /// A host by name or number, and a port.
    Tcp { host: String, port: u16 },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// The host and the port, unless this is a socket.
    pub(super) fn host_and_port(&self) -> Option<(&str, u16)> {
        match self {
            Self::Tcp { host, port } => Some((host, *port)),
            Self::Unix(_) => None,
        }
    }

    /// Each host with its port.
    pub(crate) fn of_each<H: Into<String>>(hosts: impl IntoIterator<Item = (H, u16)>) -> Vec<Self> {
        hosts.into_iter().map(|(host, port)| Self::Tcp { host: host.into(), port }).collect()
    }
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
    /// The given addresses: of servers, or of sentinels.
    pub(crate) fn addresses(&self) -> &[Address] {
        match self {
            Self::Cluster(addresses) | Self::Quorum(addresses) => addresses,
            Self::Sentinel { sentinels, .. } => sentinels,
            Self::Standalone(address) => std::slice::from_ref(address),
        }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |addresses: &[Address]| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        match self {
            Self::Cluster(nodes) => write!(f, "cluster {}", join(nodes)),
            Self::Quorum(nodes) => write!(f, "quorum {}", join(nodes)),
            Self::Sentinel { sentinels, service } => {
                write!(f, "service {service} of sentinels {}", join(sentinels))
            }
            Self::Standalone(address) => address.fmt(f),
        }
    }
}
