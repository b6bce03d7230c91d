//! Opening a session: the server, TLS, the login.
//!
//! A login may wait in the server, for example for a lock on a catalog. The server does not notice
//! that its client has gone, so the dialer counts such a login until it has ended.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{StoreError, StoreErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_postgres::config::SslMode as DriverSslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::ClientConfig;

use super::direct::{SSL_REQUEST, cancel_request};
use super::error;
use super::greeting::greet;
use super::limited::Limited;
use crate::store::options::Server;
use crate::store::postgres::options::PostgresOptions;
use crate::store::socket::{self, Stream};
use crate::store::tls::Tls;

/// The name of a session in `pg_stat_activity`.
const APPLICATION: &str = "leasehold";

/// How long a cancel request may take: a minute.
const CANCEL_LIMIT: Duration = Duration::from_mins(1);

/// Opens sessions.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) settings: PostgresOptions,
    servers: Vec<Place>,
    /// The server to dial first: the one after a server that does not answer.
    first: AtomicUsize,
}

/// A server to dial.
#[derive(Debug)]
struct Place {
    server: Server,
    tls: Option<Tls>,
    /// Each login that nobody waits for any more has a copy.
    overdue: Arc<()>,
}

/// A session.
pub(crate) struct Dialed {
    pub(crate) client: Client,
    /// The server, as messages name it, and its place among the dialer's.
    pub(crate) server: String,
    pub(crate) at: usize,
    /// Whether nobody is in between who could give the session to another client.
    pub(crate) is_direct: bool,
}

/// What sends and receives for a session, and returns what the server says without being asked.
pub(crate) type Driver =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

impl Dialer {
    /// A dialer for the servers of the URL, or for the server at which to listen.
    pub(crate) fn new(
        settings: &PostgresOptions,
        servers: &[Server],
    ) -> Result<Arc<Self>, leasehold_core::InvalidInput> {
        let servers = servers.iter().map(|server| {
            let tls = settings.tls_for(server)?;
            Ok(Place { server: server.clone(), tls, overdue: Arc::new(()) })
        });
        let servers = servers.collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { servers, settings: settings.clone(), first: AtomicUsize::new(0) }))
    }

    /// Opens a session with the first server that is a primary. Begins with the server that was
    /// one the last time.
    pub(crate) async fn dial(self: &Arc<Self>) -> Result<(Dialed, Driver), StoreError> {
        let mut failures = Vec::new();
        let (first, count) = (self.first.load(Ordering::Relaxed), self.servers.len());
        for at in (0..count).cycle().skip(first).take(count) {
            match self.dial_at(at).await {
                Ok(dialed) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok(dialed);
                }
                Err(failure) => failures.push(failure),
            }
        }
        let all: Vec<_> = failures.iter().map(ToString::to_string).collect();
        // If several servers failed, a refused login says more than a server that cannot be reached
        // or is no primary.
        let worst = failures.iter().find(|failure| !failure.kind().is_outage());
        let worst = worst.or(failures.last()).cloned().unwrap_or_else(StoreError::unknown_request);
        Err(StoreError::new(worst.kind(), all.join("; ")).with_source(worst))
    }

    /// Opens a session with one server, unless a login is overdue there. A login that is late goes
    /// on, although nobody gets its session, for as long as the server answers others.
    ///
    /// Nobody drops this future: a task runs it that nobody ends.
    async fn dial_at(self: &Arc<Self>, at: usize) -> Result<(Dialed, Driver), StoreError> {
        let (limit, place) = (self.settings.connect_timeout(), &self.servers[at]);
        let late = || error::too_slow(&place.server.to_string(), "opening a session", limit);
        if Arc::strong_count(&place.overdue) > 1 {
            return Err(late());
        }
        let dialer = Arc::clone(self);
        let mut opening = tokio::spawn(async move { dialer.log_in(at).await });
        if let Ok(opened) = timeout(limit, &mut opening).await {
            // Otherwise the runtime ends.
            return opened.unwrap_or_else(|_| Err(StoreError::unknown_request()));
        }
        let (dialer, overdue) = (Arc::clone(self), Arc::clone(&place.overdue));
        tokio::spawn(async move {
            while dialer.is_answering(at).await && timeout(limit, &mut opening).await.is_err() {}
            opening.abort();
            drop(overdue);
        });
        Err(late())
    }

    /// Whether a server, or the pooler before it, answers at all.
    pub(crate) async fn is_answering(&self, at: usize) -> bool {
        let asking = ask(self.servers[at].server.clone(), SSL_REQUEST.to_vec());
        matches!(timeout(self.settings.timeout, asking).await, Ok(Ok(1)))
    }

    /// Asks a pooler to end what a session waits for. Nothing depends on its arrival.
    ///
    /// PgBouncer 1.18 ends itself if a client goes before its cancel request is done.
    pub(crate) async fn cancel(&self, at: usize, client: &Client) {
        if let Ok(message) = cancel_request(client).await {
            let asking = ask(self.servers[at].server.clone(), message.to_vec());
            tokio::spawn(timeout(CANCEL_LIMIT, asking));
        }
    }

    async fn log_in(&self, at: usize) -> Result<(Dialed, Driver), StoreError> {
        let Place { server, tls, .. } = &self.servers[at];
        let name = server.to_string();
        let config = self.config(server, tls.is_some()).await?;
        let failed = |failure| error::request(&name, failure);
        let unreachable = |why| socket::unreachable(&name, why);
        let stream = connect(server).await.map_err(unreachable)?;
        let stream = Limited { stream, received: 0 };
        let opened = match tls {
            Some(tls) => {
                let tls = tls.config().map_err(|why| unreachable(io::Error::other(why.why)))?;
                let mut tls = MakeRustlsConnect::new(ClientConfig::clone(&tls));
                let tls = MakeTlsConnect::<Limited>::make_tls_connect(&mut tls, &server.host);
                let tls = tls.map_err(|why| unreachable(io::Error::other(why)))?;
                config.connect_raw(stream, tls).await.map(driven)
            }
            None => config.connect_raw(stream, NoTls).await.map(driven),
        };
        let (client, mut driver) = opened.map_err(failed)?;
        // Nobody drives the session yet, so this function does so meanwhile.
        let is_direct = tokio::select! {
            greeted = greet(&client, &name, &self.settings) => greeted?,
            () = listen(&mut driver, |_, _| {}) => {
                let text = format!("{name}: it ended the session at once");
                return Err(StoreError::new(StoreErrorKind::Unreachable, text));
            }
        };
        Ok((Dialed { client, server: name, at, is_direct }, driver))
    }

    async fn config(&self, server: &Server, has_tls: bool) -> Result<Config, StoreError> {
        let PostgresOptions { login, database, .. } = &self.settings;
        let mut config = Config::new();
        config.application_name(APPLICATION);
        config.ssl_mode(if has_tls { DriverSslMode::Require } else { DriverSslMode::Disable });
        let user = login.user.as_ref().map(|user| user.reveal().to_owned()).unwrap_or_default();
        config.dbname(database.as_ref().unwrap_or(&user));
        config.user(user);
        if let Some(password) = &login.password {
            let secret = password.fetch().await;
            let secret = secret.map_err(|why| socket::no_password(&server.to_string(), why))?;
            config.password(secret.reveal());
        }
        Ok(config)
    }
}

fn driven<T>((client, mut connection): (Client, Connection<Limited, T>)) -> (Client, Driver)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    (client, Box::new(move |context| connection.poll_message(context)))
}

/// Sends and receives until the session ends, and passes on the notifications of the server:
/// channel and payload.
pub(crate) async fn listen(driver: &mut Driver, mut notified: impl FnMut(&str, &str)) {
    loop {
        match poll_fn(&mut *driver).await {
            Some(Ok(AsyncMessage::Notification(it))) => notified(it.channel(), it.payload()),
            Some(Ok(_)) => {}
            // Callers with a request under way get a separate error.
            Some(Err(_)) | None => return,
        }
    }
}

/// Sends a message that needs no session, and waits for a byte, or for the end.
async fn ask(server: Server, message: Vec<u8>) -> io::Result<usize> {
    let mut stream = connect(&server).await?;
    stream.write_all(&message).await?;
    stream.read(&mut [0]).await
}

async fn connect(server: &Server) -> io::Result<Box<dyn Stream>> {
    let Server { host, port } = server;
    socket::connect(server, &format!("{host}/.s.PGSQL.{port}")).await
}
