//! The options of a Redis store: [`RedisOptions`], into which URLs are read, too.

mod check;
mod from_redis;
mod login;
mod servers;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod values;

use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;

pub(crate) use self::check::no_socket;
pub(crate) use self::login::Secret;
pub(crate) use self::login::{Login, Password};
pub(crate) use self::servers::{Address, Servers};
pub use self::table::RedisOptions;
pub(crate) use self::table::Settings;
pub use self::values::{LayoutName, Replicas};
pub(crate) use self::values::{Tls, invalid};
#[cfg(test)]
pub(crate) use crate::store::quarantine_span::QUARANTINE;

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

    pub(crate) fn of(servers: Servers) -> Self {
        Self(Settings::of(servers))
    }

    /// The number of the database: 0 by default.
    pub fn database(mut self, number: u32) -> Self {
        self.0.database = number;
        self
    }

    /// The user to log in as: `default` unless it is given.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.0.login.user = Some(name.into().into());
        self
    }

    /// The password for servers.
    pub fn password(mut self, password: impl Into<Secret>) -> Self {
        self.0.login.password = Some(Password::Fixed(password.into()));
        self
    }

    /// Asks `source` for the password of servers with each new connection: for a password that
    /// rotates. `source` runs on the runtime that opens the connection, for the rest of
    /// `connect_timeout` at most. If `source` fails, the connection fails as if the server were not
    /// reached. The error that `source` returned is in the chain of [`Error::source`] of this
    /// failure, but not in the failure's text.
    pub fn password_from<F, P>(mut self, source: F) -> Self
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: Future<Output = Result<Secret, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let source = move || Box::pin(source()) as leasehold_core::BoxFuture<'static, _>;
        self.0.login.password = Some(Password::Rotating(Arc::new(source)));
        self
    }

    /// The password for sentinels. They never get the servers' password.
    pub fn sentinel_password(mut self, password: impl Into<Secret>) -> Self {
        self.0.sentinel_password = Some(Password::Fixed(password.into()));
        self
    }

    /// Connects with TLS, also to sentinels: `rediss://`. The files that [`ca`](Self::ca),
    /// [`cert`](Self::cert) and [`key`](Self::key) name are read when the store is opened.
    pub fn tls(mut self) -> Self {
        self.0.tls = Tls::On;
        self
    }

    /// Connects with TLS, by a configuration that the program makes with [the rustls that leasehold
    /// uses](crate::store::rustls).
    pub fn tls_config(mut self, config: Arc<ClientConfig>) -> Self {
        self.0.tls = Tls::Config(config);
        self
    }
}
