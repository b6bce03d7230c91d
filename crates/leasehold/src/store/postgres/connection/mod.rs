//! Sessions: how they are opened, their number, and the handling of failed ones.
//!
//! All of this runs on the keeper's thread, which lives as long as the process. So an operation
//! works from any runtime, and if its future is dropped, it leaves no transaction open.

pub(crate) mod boot;
pub(crate) mod dial;
pub(crate) mod error;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use leasehold_core::{BoxFuture, Operation, StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row};

use self::boot::Boot;
use self::dial::{Dialed, Dialer, Driver};
use super::options::PostgresOptions;
use crate::background;
use crate::clock::SystemClock;
use crate::store::pace::Paces;

/// How long a session may be idle before it is closed: 30 s.
pub(crate) const REST: Duration = Duration::from_secs(30);

/// A value for a statement, with its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// The sessions of one store that carry requests.
#[derive(Clone)]
pub(crate) struct Sessions {
    pool: Pool<SessionManager>,
    pub(crate) timeout: Duration,
    pub(crate) boot: Arc<Boot>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// One session.
pub(crate) struct Session {
    client: Client,
    server: String,
}

struct SessionManager {
    dialer: Dialer,
    /// Keeps callers from immediately dialling servers that have just refused another caller. A
    /// session may be with any of the servers, so all of them share one pace.
    pace: Paces<()>,
    boot: Arc<Boot>,
}

impl Manager for SessionManager {
    type Type = Session;
    type Error = StoreError;

    async fn create(&self) -> Result<Session, StoreError> {
        self.pace.turn(Instant::now(), &()).await?;
        let dialed = self.dialer.dial().await;
        self.pace.dialled(&(), &dialed);
        let Dialed { client, driver, server, found } = dialed?;
        tokio::spawn(driver.run());
        self.boot.greet((&client, &server), &found).await?;
        Ok(Session { client, server })
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<StoreError> {
        match session.client.is_closed() {
            true => Err(RecycleError::message("it was closed")),
            false => Ok(()),
        }
    }
}

impl Driver {
    /// Sends and receives until the session ends.
    async fn run(mut self) {
        self.listen(|_, _| {}).await;
    }

    /// Like [`run`](Self::run), and passes on the notifications of the server: channel and payload.
    pub(crate) async fn listen(&mut self, mut notified: impl FnMut(&str, &str)) {
        loop {
            let message = poll_fn(|context| match self {
                Self::Plain(connection) => connection.poll_message(context),
                Self::Tls(connection) => connection.poll_message(context),
            });
            match message.await {
                Some(Ok(AsyncMessage::Notification(it))) => notified(it.channel(), it.payload()),
                Some(Ok(_)) => {}
                // Callers with a request under way get a separate error.
                Some(Err(_)) | None => return,
            }
        }
    }
}

/// Does some work on the keeper's thread, even if the caller goes away. The work is boxed, because
/// otherwise the futures of all callers would contain that of the driver.
pub(crate) async fn on_keeper<T: Send + 'static>(
    work: BoxFuture<'static, Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let (sender, receiver) = oneshot::channel();
    let task = async move {
        // The send fails if the caller has given up.
        let _ = sender.send(work.await);
    };
    background::spawn(&SystemClock::new(), Box::pin(task))?;
    receiver.await.unwrap_or_else(|_| {
        let text = "the keeper's thread has ended";
        Err(StoreError::new(StoreErrorKind::Unreachable, text).maybe_executed())
    })
}

impl Sessions {
    pub(crate) fn new(settings: &PostgresOptions) -> Result<Self, leasehold_core::Error> {
        let dialer = Dialer::new(settings, &settings.servers)?;
        let boot = Arc::new(Boot::new(settings));
        let manager = SessionManager { dialer, pace: Paces::default(), boot: Arc::clone(&boot) };
        let pool = Pool::builder(manager).max_size(settings.connections as usize);
        let pool = pool
            .build()
            .map_err(|failure| StoreError::new(StoreErrorKind::Unsupported, failure.to_string()))?;
        Ok(Self { pool, timeout: settings.timeout, boot })
    }

    /// Opens the first session. Each server may take as long for that as its time to connect,
    /// although no request waits so long.
    pub(crate) async fn connect(&self, settings: &PostgresOptions) -> Result<(), StoreError> {
        let opening: Duration = settings.servers.iter().map(|_| settings.connect_timeout()).sum();
        let patient = Self { timeout: opening + self.timeout, ..self.clone() };
        patient.take(patient.give_up()).await.map(|mut taken| taken.give_back())
    }

    /// A session for one caller. Callers are served in the order in which they come.
    pub(crate) async fn take(&self, give_up: Instant) -> Result<Taken, StoreError> {
        match timeout_at(give_up, self.pool.get()).await {
            Ok(Ok(session)) => Ok(Taken { session: Some(session), give_up, limit: self.timeout }),
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(other)) => Err(StoreError::new(StoreErrorKind::Unreachable, other.to_string())),
            Err(_) => {
                let text = format!("no session was free or opened within {:?}", self.timeout);
                Err(StoreError::new(StoreErrorKind::Timeout, text))
            }
        }
    }

    /// The time at which a request that begins now is given up.
    pub(crate) fn give_up(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Closes the sessions that have been idle for at least `rested`; with zero, all idle sessions.
    pub(crate) fn close(&self, rested: Duration) {
        self.pool.retain(|_, metrics| metrics.last_used() < rested);
    }

    /// Runs a single statement, and runs it again if the session had ended. So it must be a
    /// statement that does no harm if it runs twice.
    pub(crate) async fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        match self.query_once(sql, values).await {
            Err(error) if error::is_broken(&error) || error::is_worth_another_try(&error) => {
                self.leave_standby(&error);
                self.query_once(sql, values).await
            }
            done => done,
        }
    }

    /// Leaves a server that has become a standby: the next session is with the present primary.
    pub(crate) fn leave_standby(&self, error: &StoreError) {
        if error::is_standby(error) {
            self.close(Duration::ZERO);
        }
    }

    /// Makes the quarantine long enough for an operation. This costs one round trip, and only if
    /// the lease is longer than any before.
    pub(crate) async fn reckon_with(&self, operation: &Operation) -> Result<(), StoreError> {
        let Some(longest) = self.boot.longer(operation) else { return Ok(()) };
        self.ask_boot(longest, false).await?;
        self.boot.note_longest(longest);
        Ok(())
    }

    /// Asks whether the server has forgotten anything. An operator may declare that nothing was
    /// forgotten.
    pub(crate) async fn ask_boot(
        &self,
        longest: Duration,
        is_over: bool,
    ) -> Result<(), StoreError> {
        if !self.boot.is_needed() {
            return Ok(());
        }
        match self.ask_boot_once(longest, is_over).await {
            Err(error) if error::is_broken(&error) || error::is_worth_another_try(&error) => {
                self.leave_standby(&error);
                self.ask_boot_once(longest, is_over).await
            }
            asked => asked,
        }
    }

    async fn ask_boot_once(&self, longest: Duration, is_over: bool) -> Result<(), StoreError> {
        let mut taken = self.take(self.give_up()).await?;
        let Session { client, server } = taken.session()?;
        let asking = self.boot.ask((client, server), longest, is_over);
        match timeout_at(taken.give_up, asking).await {
            Ok(asked) => asked?,
            Err(_) => return Err(error::too_slow(server, "a request", self.timeout)),
        }
        taken.give_back();
        Ok(())
    }

    async fn query_once(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut taken = self.take(self.give_up()).await?;
        let rows = taken.query(sql, values).await?;
        taken.give_back();
        Ok(rows)
    }
}

/// A session in use. If its user does not give it back, it is closed, because it may have failed
/// half-way.
pub(crate) struct Taken {
    session: Option<Object<SessionManager>>,
    give_up: Instant,
    limit: Duration,
}

impl Taken {
    fn session(&self) -> Result<&Session, StoreError> {
        self.session.as_deref().ok_or_else(StoreError::unknown_request)
    }

    /// The server of the session, as messages name it.
    pub(crate) fn server(&self) -> &str {
        self.session.as_deref().map_or("", |session| &session.server)
    }

    /// Sends statements without values, as one request.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        let Session { client, server } = self.session()?;
        match timeout_at(self.give_up, client.batch_execute(sql)).await {
            Ok(done) => done.map_err(|failure| error::request(server, failure)),
            Err(_) => Err(error::too_slow(server, "a request", self.limit)),
        }
    }

    /// Sends one unnamed statement, which no pooler has to remember.
    pub(crate) async fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let Session { client, server } = self.session()?;
        let values: Vec<(&(dyn ToSql + Sync), Type)> = values.to_vec();
        match timeout_at(self.give_up, client.query_typed(sql, &values)).await {
            Ok(done) => done.map_err(|failure| error::request(server, failure)),
            Err(_) => Err(error::too_slow(server, "a request", self.limit)),
        }
    }

    /// Gives the session back unchanged, for the next caller.
    pub(crate) fn give_back(&mut self) {
        drop(self.session.take());
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            drop(Object::take(session));
        }
    }
}
