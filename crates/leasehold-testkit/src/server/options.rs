//! The options of a server to start.

use leasehold::store::Redis;

use crate::certificates::Certificates;

/// The options with which a [`RedisServer`](crate::RedisServer) is started.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    pub(super) lines: Vec<String>,
    pub(super) password: Option<String>,
    pub(super) own_clock: bool,
    pub(super) sentinel: bool,
    pub(super) tls: bool,
    pub(super) certificates: Option<Certificates>,
}

impl RedisOptions {
    /// Adds a line to the server's configuration file.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Keeps an append-only file, synced as `appendfsync` says: `always`, `everysec` or `no`.
    #[must_use]
    pub fn append_only(self, appendfsync: &str) -> Self {
        self.line("appendonly yes").line(format!("appendfsync {appendfsync}"))
    }

    /// Gives the `default` user a password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.line(format!("requirepass {password}"))
    }

    /// Adds a user: its name and rules, as `ACL SETUSER` takes them.
    #[must_use]
    pub fn user(self, rules: &str) -> Self {
        self.line(format!("user {rules}"))
    }

    /// Adds the user `holder`, password `secret`, with the rights that the documentation of the
    /// Redis store says a holder needs.
    #[must_use]
    pub fn holder(self) -> Self {
        self.user(&format!("holder on >secret {}", Redis::HOLDER_RIGHTS))
    }

    /// Serves TLS on the port, with
    /// [`RedisServer::certificates`](crate::RedisServer::certificates); `clients` says whether a
    /// client needs a certificate.
    #[must_use]
    pub fn tls(mut self, clients: bool) -> Self {
        self.tls = true;
        self.line(format!("tls-auth-clients {}", if clients { "yes" } else { "no" }))
    }

    /// Uses the certificates of another server, so that the two trust each other.
    #[must_use]
    pub fn certificates(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Gives the server its own wall clock, for
    /// [`RedisServer::set_clock`](crate::RedisServer::set_clock). The program is then the one that
    /// is installed on the machine, even if [`SERVER_PROGRAM`](crate::SERVER_PROGRAM) names another
    /// one.
    #[must_use]
    pub fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Makes it a sentinel.
    #[must_use]
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// The password of the `default` user.
    pub(crate) fn default_password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Whether it serves TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }
}
