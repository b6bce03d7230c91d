//! The options of a PostgreSQL store: [`PostgresOptions`], into which URLs are read, too.

mod servers;
mod table;
mod values;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::InvalidInput;
use tokio_rustls::rustls::ClientConfig;

pub(crate) use self::servers::{DEFAULT_PORT, Login, Server};
pub use self::table::PostgresOptions;
pub(crate) use self::table::Settings;
pub(crate) use self::values::Tls;
pub use self::values::{CommitLevel, ListenAt, SslMode, Wake};
use crate::store::quarantine_span::{QUARANTINE, QuarantineSpan};
use crate::store::secret::{Password, Secret};
use crate::store::tls::{self, TlsFiles, Trust};
use crate::store::url_parts::{invalid, no_host};

/// The largest number of sessions of one client that carry requests: 64, which keep any server
/// busy.
const MAX_CONNECTIONS: u32 = 64;

/// The longest name of a schema: the server cuts longer names off.
const MAX_SCHEMA_BYTES: usize = 63;

impl PostgresOptions {
    /// A server by name or number, or by the directory of its socket: `postgres://HOST:PORT`.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self(Settings::of(vec![Server { host: host.into(), port }]))
    }

    /// One more server. The client uses the server that is the primary.
    pub fn or(mut self, host: impl Into<String>, port: u16) -> Self {
        self.0.servers.push(Server { host: host.into(), port });
        self
    }

    /// The role to log in as.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.0.login.user = Some(name.into().into());
        self
    }

    /// The role's password.
    pub fn password(mut self, password: impl Into<Secret>) -> Self {
        self.0.login.password = Some(Password::Fixed(password.into()));
        self
    }

    /// Asks `source` for the password for each new session, so that the password can rotate.
    /// `source` must answer within what is left of `connect_timeout`. If `source` fails, the
    /// session fails as if the server were not reached. The error of `source` is the cause of the
    /// session's error, whose own text does not quote it.
    pub fn password_from<F, P>(mut self, source: F) -> Self
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: Future<Output = Result<Secret, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let source = move || Box::pin(source()) as leasehold_core::BoxFuture<'static, _>;
        self.0.login.password = Some(Password::Rotating(Arc::new(source)));
        self
    }

    /// The database. The default is the one with the name of the user.
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.0.database = Some(name.into());
        self
    }

    /// Connects with TLS, by a configuration that the program makes with [the rustls that leasehold
    /// uses](crate::store::rustls).
    pub fn tls_config(mut self, config: Arc<ClientConfig>) -> Self {
        self.0.tls = Tls::Config(config);
        self
    }
}

impl Settings {
    /// Refuses options with which no store can be opened.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        self.check_values()?;
        if self.login.user.is_none() {
            return Err(invalid("there is no user: write postgres://USER[:PASSWORD]@HOST"));
        }
        Ok(())
    }

    /// Refuses values that are out of range or exclude each other.
    pub(crate) fn check_values(&self) -> Result<(), InvalidInput> {
        self.check_spans()?;
        for (index, server) in self.servers.iter().enumerate() {
            if server.host.is_empty() {
                return Err(no_host("postgres"));
            }
            if server.port == 0 {
                return Err(invalid("the port is not 1 to 65535"));
            }
            if self.servers[..index].contains(server) {
                return Err(invalid(format!("the addresses have {server} twice")));
            }
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            let (given, most) = (self.connections, MAX_CONNECTIONS);
            return Err(invalid(format!("`connections` is {given}: give 1 to {most}")));
        }
        let is_of_schema = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = self.schema.starts_with(|c: char| !c.is_ascii_digit());
        if !begins || self.schema.len() > MAX_SCHEMA_BYTES || !self.schema.chars().all(is_of_schema)
        {
            return Err(invalid(
                "`schema` has at most 63 small letters, digits and `_`, and begins with no digit",
            ));
        }
        self.check_tls()
    }

    fn check_tls(&self) -> Result<(), InvalidInput> {
        let files = [
            ("sslrootcert", self.sslrootcert.is_some()),
            ("sslcert", self.sslcert.is_some()),
            ("sslkey", self.sslkey.is_some()),
        ];
        let given = files.iter().find(|(_, is_given)| *is_given);
        match (&self.tls, given) {
            (Tls::Config(_), Some((name, _))) => Err(invalid(format!(
                "`{name}` is a part of the TLS configuration that the program gives: set it there"
            ))),
            (Tls::FromOptions, Some((name, _))) if self.sslmode == Some(SslMode::Disable) => {
                Err(invalid(format!("`{name}` is for TLS, and `sslmode` is disable")))
            }
            _ if self.sslcert.is_some() != self.sslkey.is_some() => {
                Err(invalid("`sslcert` and `sslkey` go together: give both"))
            }
            _ if self.sslmode == Some(SslMode::Require) && self.sslrootcert.is_some() => {
                Err(invalid(
                    "sslmode=require trusts any server, so `sslrootcert` has no effect: write \
                     sslmode=verify-full, or leave one of them out",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The least time for which nothing new is granted once a server may have forgotten something.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        match self.quarantine {
            QuarantineSpan::Default => Some(QUARANTINE),
            QuarantineSpan::Of(span) => Some(span),
            QuarantineSpan::Off => None,
        }
    }

    /// The check of a server's certificate.
    pub(crate) fn mode_for(&self, server: &Server) -> SslMode {
        match self.sslmode {
            _ if server.is_socket() => SslMode::Disable,
            Some(mode) => mode,
            None if matches!(self.tls, Tls::FromOptions)
                && self.sslrootcert.is_none()
                && self.sslcert.is_none()
                && server.is_local() =>
            {
                SslMode::Disable
            }
            None => SslMode::VerifyFull,
        }
    }

    /// The TLS configuration for a server; `None` without TLS.
    pub(crate) fn tls_for(
        &self,
        server: &Server,
    ) -> Result<Option<Arc<ClientConfig>>, InvalidInput> {
        let trust = match self.mode_for(server) {
            SslMode::Disable => return Ok(None),
            SslMode::Require => Trust::Anybody,
            SslMode::VerifyCa => Trust::AnyName,
            SslMode::VerifyFull => Trust::Name,
        };
        match &self.tls {
            Tls::Config(config) => Ok(Some(Arc::clone(config))),
            Tls::FromOptions => {
                let files = TlsFiles {
                    trust,
                    ca: ("sslrootcert", self.sslrootcert.as_deref()),
                    cert: ("sslcert", self.sslcert.as_deref()),
                    key: ("sslkey", self.sslkey.as_deref()),
                };
                tls::config(files).map(|config| Some(Arc::new(config)))
            }
        }
    }
}
