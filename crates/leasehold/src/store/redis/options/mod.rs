//! What a program asks of a Redis store: [`RedisOptions`], over which URLs are read, too.

mod check;
mod login;
mod servers;
mod settings;
#[cfg(test)]
mod tests;
mod tls;

use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ClientConfig;

pub(crate) use self::check::{invalid, no_host, no_socket, replicas};
pub use self::login::Secret;
pub(crate) use self::login::{Login, Password};
pub(crate) use self::servers::{Address, Servers};
pub use self::settings::{LayoutName, Replicas};
pub(crate) use self::settings::{QUARANTINE, QuarantineSpan, Settings};
pub(crate) use self::tls::Tls;
pub use self::tls::TlsFiles;

/// Where a Redis store is and how it is used: all that a store URL can say, as values.
///
/// What is out of range, and what does not go together, is refused when the store is opened, with
/// the words for the same mistake in a URL. No `Debug` and no error shows a password. Nothing is
/// taken from the environment, unless [`from_url`](Self::from_url) reads it.
///
/// What each option promises, costs and needs on the server stands in
/// [the manual](crate::store::redis::MANUAL).
///
/// # Examples
///
/// ```no_run
/// use leasehold::store::redis::TlsFiles;
/// use leasehold::store::{Redis, RedisOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn fetch_token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// let options = RedisOptions::standalone("locks.example", 6379)
///     .tls(TlsFiles::new().ca("/etc/ssl/locks.pem"))
///     .user("holder")
///     .password_from(|| async { Ok(fetch_token().await?.into()) })
///     .prefix("app:");
/// let store = Redis::open(options).await?;
/// let client = leasehold::Client::builder().store(store).build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct RedisOptions(pub(crate) Settings);

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

    /// A cluster, of which these nodes know the others: `redis+cluster://HOST:PORT,…`.
    pub fn cluster<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::of(Servers::Cluster(Address::of_each(nodes)))
    }

    /// Independent primaries, of which a majority decides: `redis+quorum://HOST:PORT,…`.
    /// [`store::open`](crate::store::open) opens a store of several servers.
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

    /// Who the client is; `default` where none is given.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.0.login.user = Some(name.into());
        self
    }

    /// The password for servers.
    pub fn password(mut self, password: impl Into<Secret>) -> Self {
        self.0.login.password = Some(Password::Fixed(password.into()));
        self
    }

    /// Asks for the password for servers with each new connection, for one that rotates. `source`
    /// has what is left of `connect_timeout`, on the runtime that opens the connection. If it
    /// fails, the connection is not opened, as if the server were not reached; its error is the
    /// source of that failure, and not shown by it.
    pub fn password_from<F, P>(mut self, source: F) -> Self
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: Future<Output = Result<Secret, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let source = move || Box::pin(source()) as leasehold_core::BoxFuture<'static, _>;
        self.0.login.password = Some(Password::Rotating(Arc::new(source)));
        self
    }

    /// Who the client is to sentinels; `default` where none is given.
    pub fn sentinel_user(mut self, name: impl Into<String>) -> Self {
        self.0.sentinel_login.user = Some(name.into());
        self
    }

    /// The password for sentinels, which are not shown that of the servers.
    pub fn sentinel_password(mut self, password: impl Into<Secret>) -> Self {
        self.0.sentinel_login.password = Some(Password::Fixed(password.into()));
        self
    }

    /// TLS with these files, which are read when the store is opened. With sentinels, they are
    /// spoken to in TLS as well.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.0.tls = Some(Tls::Files(files));
        self
    }

    /// TLS with a configuration of the program's own, of
    /// [the rustls that leasehold uses](crate::store::redis::rustls).
    pub fn tls_config(mut self, config: Arc<ClientConfig>) -> Self {
        self.0.tls = Some(Tls::Config(config));
        self
    }

    /// How long opening a connection may take: 5 s by default, 10 ms to 60 s.
    pub fn connect_timeout(mut self, span: Duration) -> Self {
        self.0.connect_timeout = span;
        self
    }

    /// How long one request may take: 500 ms by default, 10 ms to 60 s. On the nodes of a quorum an
    /// acquire has 1 % of its ttl by default, 5 to 50 ms.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.0.timeout = Some(span);
        self
    }

    /// What a lock looks like on the server.
    pub fn layout(mut self, layout: LayoutName) -> Self {
        self.0.layout = layout;
        self
    }

    /// Whether tokens are the counter of an `RFencedLock`, with [`LayoutName::Redisson`]: they are
    /// the server's clock by default.
    pub fn fenced(mut self, is_on: bool) -> Self {
        self.0.fenced = is_on;
        self
    }

    /// How far apart the clocks of servers may be that take over from each other, up to 10 s. By
    /// default it is 500 ms where a server may take over from another, and zero elsewhere.
    pub fn offset(mut self, span: Duration) -> Self {
        self.0.offset = Some(span);
        self
    }

    /// What all keys and channels begin with: `lh:` by default, at most 64 bytes.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.0.prefix = Some(prefix.into());
        self
    }

    /// How long nothing new is granted after a server may have forgotten who holds what, 1 s to
    /// 24 h; `None` for no quarantine. By default there is one of a minute on the nodes of a
    /// quorum, and none elsewhere.
    pub fn quarantine(mut self, span: Option<Duration>) -> Self {
        self.0.quarantine = span.map_or(QuarantineSpan::Off, QuarantineSpan::Of);
        self
    }

    /// How many replicas must have a grant before it counts: none by default.
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.0.replicas = replicas;
        self
    }

    /// How long the last token of a name is kept after its last use: 2 min by default, 1 s to 24 h.
    pub fn retention(mut self, span: Duration) -> Self {
        self.0.retention = span;
        self
    }

    /// Whether a grant counts only once it is on disk: that of the primary, and those of the
    /// replicas that are waited for.
    pub fn waitaof(mut self, is_on: bool) -> Self {
        self.0.waitaof = is_on;
        self
    }
}
