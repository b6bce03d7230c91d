//! Values of options with a special type.

use std::fmt;
use std::sync::Arc;

use leasehold_core::InvalidInput;
use tokio_rustls::rustls::ClientConfig;

use super::servers::{DEFAULT_PORT, Server};
use crate::store::option_value::Value;
use crate::store::url_parts::{host, invalid};

/// The check of a server's certificate, in libpq's words. `allow` and `prefer` are left out,
/// because they protect against nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS with any server that answers. That server may be an impostor, who can then read and
    /// change everything.
    Require,
    /// A certificate from a trusted authority, for any name.
    VerifyCa,
    /// A certificate from a trusted authority for the host of the URL.
    VerifyFull,
}

/// The way in which waiters learn of their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// By a notification, on an additional session while somebody waits.
    #[default]
    Listen,
    /// By asking once a second.
    Poll,
}

/// The moment at which a grant counts: the `synchronous_commit` of transactions that grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitLevel {
    /// Once the log is on this server's disk, and on that of a synchronous standby if there is one.
    #[default]
    On,
    /// Once the log is on this server's disk.
    Local,
    /// Once a synchronous standby has the log in memory, too.
    RemoteWrite,
    /// Once a synchronous standby has applied it, so that queries there see it.
    RemoteApply,
    /// Immediately: a crash of the server forgets the last grants, and the quarantine follows.
    Off,
}

impl CommitLevel {
    /// The value of `synchronous_commit`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Local => "local",
            Self::RemoteWrite => "remote_write",
            Self::RemoteApply => "remote_apply",
            Self::Off => "off",
        }
    }

    /// Whether the promise of this level needs a standby.
    pub(crate) const fn needs_standby(self) -> bool {
        matches!(self, Self::RemoteWrite | Self::RemoteApply)
    }
}

/// The address of the server itself, if the store URL names a pooler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAt(pub(crate) Server);

impl ListenAt {
    /// A host by name or number, or the directory of a socket, and a port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self(Server { host: host.into(), port })
    }
}

/// The source of the TLS configuration.
#[derive(Clone)]
pub(crate) enum Tls {
    /// Supplied by the program.
    Config(Arc<ClientConfig>),
    FromOptions,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            // The configuration may have a private key.
            Self::Config(_) => "(a configuration of the program)",
            Self::FromOptions => "FromOptions",
        })
    }
}

/// Reads a value that must be one of these words.
fn word<T: Copy>(name: &str, text: &str, words: &[(&str, T)]) -> Result<T, InvalidInput> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let (last, others) = words.split_last().unwrap_or((&"", &[]));
        invalid(format!("`{name}` in the store URL is {} or {last}", others.join(", ")))
    })
}

impl Value for SslMode {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        let words = [
            ("disable", Self::Disable),
            ("require", Self::Require),
            ("verify-ca", Self::VerifyCa),
            ("verify-full", Self::VerifyFull),
        ];
        word(name, &text, &words)
    }
}

impl Value for Wake {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        word(name, &text, &[("listen", Self::Listen), ("poll", Self::Poll)])
    }
}

impl Value for CommitLevel {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        let levels = [Self::On, Self::Local, Self::RemoteWrite, Self::RemoteApply, Self::Off];
        word(name, &text, &levels.map(|level| (level.as_str(), level)))
    }
}

impl Value for ListenAt {
    fn read(_name: &str, text: String) -> Result<Self, InvalidInput> {
        host("postgres", &text, DEFAULT_PORT).map(|(host, port)| Self(Server { host, port }))
    }
}

impl Value for u32 {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        text.parse().map_err(|_| invalid(format!("`{name}` in the store URL is not a number")))
    }
}
