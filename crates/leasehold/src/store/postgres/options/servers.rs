//! Where servers listen, and who the client is to them.

use std::fmt;
use std::net::IpAddr;

use crate::store::secret::{Password, Secret};

/// Where PostgreSQL listens if nobody says otherwise.
pub(crate) const DEFAULT_PORT: u16 = 5432;

/// Where a server listens: a host, or the directory of a socket, which begins with a `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Server {
    /// Whether nothing that is sent there leaves the machine.
    pub(crate) fn is_local(&self) -> bool {
        self.is_socket()
            || self.host == "localhost"
            || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

/// A user and its password.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// Hidden as well: it may be a password without the `:` before it.
    pub(crate) user: Option<Secret>,
    pub(crate) password: Option<Password>,
}
