//! Opening a connection: address, socket, TLS, greeting, database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{BoxFuture, InvalidInput, StoreError};
use redis::Value;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::Connection;
use super::bundle::MOST_IN_A_CALL;
use super::error::{self, Peer};
use super::link::{Limits, SILENCE};
use super::pushes::PushSender;
use super::wire::Wire;
use crate::store::pace::Paces;
use crate::store::redis::options::{Address, RedisOptions};
use crate::store::secret::Login;
use crate::store::socket::{self, Stream};
use crate::store::tls::{Tls, Trust};

/// A check of each new connection before it is used.
pub(crate) trait Admission: fmt::Debug + Send + Sync {
    /// Refuses the connection, or records it.
    fn admit<'a>(&'a self, connection: &'a Connection) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// Opens connections to servers of one kind, for one user.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    admission: Option<Arc<dyn Admission>>,
    peer: Peer,
    login: Login,
    tls: Option<Tls>,
    database: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    limits: Limits,
    paces: Arc<Paces<Address>>,
}

impl Dialer {
    /// Refuses files that the settings name and that cannot be used.
    pub(crate) fn new(settings: &RedisOptions) -> Result<Self, InvalidInput> {
        let own = settings.tls_config.as_ref();
        let most = if settings.bundles() { MOST_IN_A_CALL } else { 1 };
        let tls = || Tls::new(own, Trust::Name, settings.files());
        Ok(Self {
            admission: None,
            peer: Peer::Server,
            login: settings.login.clone(),
            tls: (settings.tls || own.is_some()).then(tls).transpose()?,
            database: settings.database,
            connect_timeout: settings.connect_timeout(),
            timeout: settings.timeout(),
            limits: Limits { most, silence: SILENCE },
            paces: Arc::default(),
        })
    }

    /// The same dialer, with a check of each connection before it is used.
    pub(crate) fn admitted_by(self, admission: Option<Arc<dyn Admission>>) -> Self {
        Self { admission, ..self }
    }

    /// A dialer to the sentinels that the settings name.
    pub(crate) fn to_sentinels(settings: &RedisOptions) -> Result<Self, InvalidInput> {
        let dialer = Self::new(settings)?;
        let login = settings.sentinel_login.clone();
        Ok(Self { peer: Peer::Sentinel, login, database: 0, ..dialer })
    }

    /// The same dialer, for requests that may take longer by `span`, even if nothing is wrong.
    pub(crate) fn more_patient(&self, span: Duration) -> Self {
        let timeout = self.timeout + span;
        let limits = Limits { silence: SILENCE.max(timeout), ..self.limits };
        Self { timeout, limits, ..self.clone() }
    }

    /// Opens a connection on the calling runtime. If nothing listened at the address at the last
    /// try, the call waits until the next try is due. Messages that the server pushes go to
    /// `pushes`; a connection for messages needs no database, because channels have none.
    pub(crate) async fn dial(
        &self,
        address: &Address,
        pushes: Option<PushSender>,
    ) -> Result<Connection, StoreError> {
        self.paces.turn(Instant::now(), address).await?;
        // No request is sent before the connection is open.
        let outcome = self.open_link(address, pushes).await.map_err(StoreError::not_executed);
        self.paces.dialled(address, &outcome);
        outcome
    }

    async fn open_link(
        &self,
        address: &Address,
        pushes: Option<PushSender>,
    ) -> Result<Connection, StoreError> {
        let until = Instant::now() + self.connect_timeout;
        let stream = self.connect(address, until).await?;
        let is_for_messages = pushes.is_some();
        let connection = self.greet(stream, address, pushes, until).await?;
        if let Some(admission) = &self.admission {
            admission.admit(&connection).await?;
        }
        if !is_for_messages && self.database != 0 {
            connection.ask(redis::cmd("SELECT").arg(self.database)).await?;
        }
        Ok(connection)
    }

    async fn connect(
        &self,
        address: &Address,
        until: Instant,
    ) -> Result<Box<dyn Stream>, StoreError> {
        let server = &address.to_string();
        let slow = |stage| self.too_slow(server, stage);
        let host = &address.host;
        let stream = timeout_at(until, socket::connect(address, host))
            .await
            .map_err(|_| slow("connection"))?
            .map_err(|why| socket::unreachable(server, why))?;
        let Some(tls) = self.tls.as_ref().filter(|_| !address.is_socket()) else {
            return Ok(stream);
        };
        let config = tls.config().map_err(|why| error::no_tls(server, &why))?;
        let name = ServerName::try_from(host.clone()).map_err(|_| error::no_name(host))?;
        let handshake = TlsConnector::from(config).connect(name, stream);
        let stream = timeout_at(until, handshake)
            .await
            .map_err(|_| slow("handshake"))?
            .map_err(|why| error::handshake(server, why))?;
        Ok(Box::new(stream))
    }

    async fn greet(
        &self,
        stream: Box<dyn Stream>,
        address: &Address,
        pushes: Option<PushSender>,
        until: Instant,
    ) -> Result<Connection, StoreError> {
        let server = address.to_string();
        // There is no CLIENT SETINFO, because the documented users lack the right to it: each
        // refusal would be an entry in the server's ACL LOG.
        let mut hello = redis::cmd("HELLO");
        hello.arg(3);
        if let Some(password) = &self.login.password {
            let fetched = timeout_at(until, password.fetch()).await;
            let secret = fetched.map_err(|_| self.too_slow(&server, "password"))?;
            let secret = secret.map_err(|why| socket::no_password(&server, why))?;
            hello.arg("AUTH").arg(self.login.user()).arg(secret.reveal());
        }
        let wire = Wire::open(stream, pushes, self.limits);
        // This step is a part of connecting, and has no separate time limit.
        let left = until.saturating_duration_since(Instant::now());
        match wire.send((&hello).into(), left).await {
            Ok(Value::ServerError(refusal)) => Err(error::not_let_in(self.peer, &server, &refusal)),
            Ok(_) => Ok(Connection::new(address.clone(), self.timeout, wire)),
            Err(why) if why.is_timeout() => Err(self.too_slow(&server, "greeting")),
            Err(why) => Err(error::greeting(&server, self.tls.is_some(), why)),
        }
    }

    fn too_slow(&self, server: &str, stage: &str) -> StoreError {
        error::too_slow(server, stage, self.connect_timeout, self.tls.is_some())
    }
}
