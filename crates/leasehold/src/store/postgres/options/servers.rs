//! The addresses of servers, and the login of the client.

use std::fmt;
use std::net::IpAddr;

use crate::store::secret::{Password, Secret};

/// The default port of PostgreSQL.
pub(crate) const DEFAULT_PORT: u16 = 5432;

/// The address of a server: a host, or the directory of a socket, which begins with a `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Server {
    /// Whether data for the server stays on this machine.
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
    /// The user is hidden as well: in its place may be a password whose `:` was forgotten.
    pub(crate) user: Option<Secret>,
    pub(crate) password: Option<Password>,
}
