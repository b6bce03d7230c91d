//! Opening a session: the server, TLS, the login, and the check that the server is a usable
//! primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::{StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::SslMode as DriverSslMode;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::ClientConfig;

use super::error;
use crate::store::options::Server;
use crate::store::postgres::options::PostgresOptions;

/// The name of a session in `pg_stat_activity`.
const APPLICATION: &str = "leasehold";

/// The oldest usable server: 15, which the tests run on.
const OLDEST: i32 = 150_000;

/// The first statement in each new session. The version tells whether the server is PostgreSQL.
const GREETING: &str = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int, \
    version(), current_setting('server_encoding'), \
    CASE WHEN NOT pg_is_in_recovery() THEN concat_ws(' ', \
        (SELECT c.system_identifier FROM pg_control_system() c), \
        left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) ELSE '' END";

/// Servers that speak the protocol, but lack features that the locks need, by a part of their
/// `version()`.
const IMITATIONS: [&str; 4] = ["CockroachDB", "-YB-", "Materialize", "RisingWave"];

/// Opens sessions.
#[derive(Debug)]
pub(crate) struct Dialer {
    settings: PostgresOptions,
    /// Each server with its TLS configuration.
    servers: Vec<(Server, Option<Arc<ClientConfig>>)>,
    /// The server to dial first. A caller that gives up while it dials leaves this at the server
    /// after the one that did not answer.
    first: AtomicUsize,
}

/// A session that is not driven yet.
pub(crate) struct Dialed {
    pub(crate) client: Client,
    pub(crate) driver: Driver,
    /// The server, as messages name it.
    pub(crate) server: String,
    /// The cluster and its timeline: another cluster or timeline may have forgotten something.
    pub(crate) found: String,
}

/// The driver of a session, which sends and receives.
pub(crate) enum Driver {
    Plain(Box<Connection<Socket, NoTlsStream>>),
    Tls(Box<TlsConnection>),
}

type TlsConnection =
    Connection<Socket, <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream>;

/// The server to dial first after an attempt. An attempt that is given up leaves the next server.
struct NextFirst<'a> {
    first: &'a AtomicUsize,
    at: usize,
}

impl Drop for NextFirst<'_> {
    fn drop(&mut self) {
        self.first.store(self.at, Ordering::Relaxed);
    }
}

impl Dialer {
    /// A dialer for the servers of the URL, or for the server at which to listen.
    pub(crate) fn new(
        settings: &PostgresOptions,
        servers: &[Server],
    ) -> Result<Self, leasehold_core::InvalidInput> {
        let servers = servers.iter().map(|server| {
            let tls = settings.tls_for(server)?;
            Ok((server.clone(), tls))
        });
        let servers = servers.collect::<Result<_, _>>()?;
        Ok(Self { servers, settings: settings.clone(), first: AtomicUsize::new(0) })
    }

    /// Opens a session with the first server that is a primary. Begins with the server that was
    /// one the last time.
    pub(crate) async fn dial(&self) -> Result<Dialed, StoreError> {
        let (mut failures, limit) = (Vec::new(), self.settings.connect_timeout());
        let (first, count) = (self.first.load(Ordering::Relaxed), self.servers.len());
        for (at, (server, tls)) in self.servers.iter().enumerate().cycle().skip(first).take(count) {
            let mut next = NextFirst { first: &self.first, at: (at + 1) % count };
            let give_up = Instant::now() + limit;
            let opening = async { greeted(self.dial_one(server, tls.as_ref()).await?).await };
            match timeout_at(give_up, opening).await {
                Ok(Ok(dialed)) => {
                    next.at = at;
                    return Ok(dialed);
                }
                Ok(Err(failure)) => {
                    next.at = first;
                    failures.push(failure);
                }
                Err(_) => {
                    let server = server.to_string();
                    failures.push(error::too_slow(&server, "opening a session", limit));
                }
            }
        }
        let all: Vec<_> = failures.iter().map(ToString::to_string).collect();
        // If several servers failed, a refused login says more than a server that cannot be reached
        // or is no primary.
        let last = failures.pop().unwrap_or_else(StoreError::unknown_request);
        let worst = failures.into_iter().find(|failure| !failure.kind().is_outage());
        let worst = worst.unwrap_or(last);
        Err(StoreError::new(worst.kind(), all.join("; ")).with_source(worst))
    }

    async fn dial_one(
        &self,
        server: &Server,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Dialed, StoreError> {
        let name = server.to_string();
        let config = self.config(server, tls.is_some()).await?;
        let failed = |failure| error::opening(&name, failure);
        let (client, driver) = match tls {
            Some(tls) => {
                let tls = MakeRustlsConnect::new(ClientConfig::clone(tls));
                let (client, connection) = config.connect(tls).await.map_err(failed)?;
                (client, Driver::Tls(Box::new(connection)))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
                (client, Driver::Plain(Box::new(connection)))
            }
        };
        Ok(Dialed { client, driver, server: name, found: String::new() })
    }

    async fn config(&self, server: &Server, has_tls: bool) -> Result<Config, StoreError> {
        let PostgresOptions { login, database, .. } = &self.settings;
        let mut config = Config::new();
        config.application_name(APPLICATION).port(server.port);
        match server.is_socket() {
            true => config.host_path(&server.host),
            false => config.host(&server.host),
        };
        config.ssl_mode(match has_tls {
            true => DriverSslMode::Require,
            false => DriverSslMode::Disable,
        });
        let user = login.user.as_ref().map(|user| user.reveal().to_owned()).unwrap_or_default();
        config.dbname(database.as_ref().unwrap_or(&user));
        config.user(user);
        if let Some(password) = &login.password {
            let secret = password.fetch().await.map_err(|cause| {
                let text = format!("{server}: the source of the password has failed");
                StoreError::new(StoreErrorKind::Unreachable, text).with_source(NoPassword(cause))
            })?;
            config.password(secret.reveal());
        }
        Ok(config)
    }
}

/// The session, if its server is usable. Nobody drives the session yet, so this function does so
/// meanwhile.
async fn greeted(mut dialed: Dialed) -> Result<Dialed, StoreError> {
    let Dialed { client, driver, server, found } = &mut dialed;
    tokio::select! {
        greeted = greet(client, server) => *found = greeted?,
        () = driver.listen(|_, _| {}) => {
            let text = format!("{server}: it ended the session at once");
            return Err(StoreError::new(StoreErrorKind::Unreachable, text));
        }
    }
    Ok(dialed)
}

/// The reason for which a program gave no password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoPassword(Box<dyn std::error::Error + Send + Sync>);

/// Refuses a server that cannot keep locks, or cannot do so now. Returns the cluster and its
/// timeline.
async fn greet(client: &Client, server: &str) -> Result<String, StoreError> {
    let row = client.query_typed_one(GREETING, &[]).await;
    let row = row.map_err(|failure| error::opening(server, failure))?;
    let (is_standby, number): (bool, i32) = (row.get(0), row.get(1));
    let (version, encoding): (String, String) = (row.get(2), row.get(3));
    let unsupported = |text: String| {
        Err(StoreError::new(StoreErrorKind::Unsupported, format!("{server}: {text}")))
    };
    if IMITATIONS.iter().any(|name| version.contains(name)) {
        let name = version.split_whitespace().next().unwrap_or_default().to_owned();
        return unsupported(format!(
            "it is {name}, which has not all of PostgreSQL that locks need (row locks that \
             grants respect, advisory locks, LISTEN)"
        ));
    }
    if number < OLDEST {
        let major = number / 10_000;
        return unsupported(format!("it is PostgreSQL {major}, and the locks need 15 or newer"));
    }
    if encoding != "UTF8" {
        return unsupported(format!(
            "the database has the encoding {encoding}: give one with UTF8"
        ));
    }
    if is_standby {
        let text = format!("{server}: it is a standby: name the primary, or both, HOST,HOST");
        return Err(StoreError::new(StoreErrorKind::Unreachable, text));
    }
    Ok(row.get(4))
}
