//! The sessions that carry requests: never more than `connections`.
//!
//! A session has its place until the server has ended it, whatever its last request waits for.
//! A server process that waits for a lock, or for a standby in a commit, does not notice that its
//! client has gone. So a session that is given up is not closed: its place stays taken until it
//! answers, or its server answers nobody any more.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{InvalidInput, StoreError, StoreErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Row;

use super::boot::{self, Boot};
use super::dial::{Dialed, Dialer};
use super::error;
use super::session::{Session, Value};
use crate::mutex::Mutex;
use crate::store::pace::Paces;
use crate::store::postgres::options::PostgresOptions;

/// The number of tries for a request that the server refuses with a passing error: 5.
const MOST_TRIES: u32 = 5;

/// The rows that a statement returns.
type Rows = Result<Vec<Row>, StoreError>;

/// The sessions of one store.
#[derive(Clone)]
pub(crate) struct Sessions {
    shared: Arc<Shared>,
    pub(crate) boot: Arc<Boot>,
    pub(crate) schema: String,
    pub(crate) timeout: Duration,
}

struct Shared {
    dialer: Arc<Dialer>,
    /// Keeps callers from immediately dialling servers that have just refused another caller. A
    /// session may be with any of the servers, so all of them share one pace.
    pace: Paces<()>,
    places: Arc<Semaphore>,
    /// The sessions at rest, each with the time since when. The last one is used next.
    resting: Mutex<Vec<(Session, Instant)>>,
}

impl Sessions {
    pub(crate) fn new(settings: &PostgresOptions) -> Result<Self, InvalidInput> {
        let shared = Shared {
            dialer: Dialer::new(settings, &settings.servers)?,
            pace: Paces::default(),
            places: Arc::new(Semaphore::new(settings.connections as usize)),
            resting: Mutex::default(),
        };
        let (shared, boot) = (Arc::new(shared), Arc::new(Boot::new(settings)));
        Ok(Self { shared, boot, schema: settings.schema.clone(), timeout: settings.timeout })
    }

    /// Opens the first session. Each server may take as long for that as its time to connect,
    /// although no request waits so long. Returns whether the session is with the server itself.
    pub(crate) async fn connect(&self, settings: &PostgresOptions) -> Result<bool, StoreError> {
        let opening: Duration = settings.servers.iter().map(|_| settings.connect_timeout()).sum();
        let patient = Self { timeout: opening + self.timeout, ..self.clone() };
        let taken = patient.take().await?;
        let is_direct = taken.session()?.dialed.is_direct;
        taken.give_back();
        Ok(is_direct)
    }

    /// A session for one caller. Callers are served in the order in which they come.
    pub(crate) async fn take(&self) -> Result<Taken, StoreError> {
        let give_up = Instant::now() + self.timeout;
        let taken = timeout_at(give_up, self.rested_or_new(give_up)).await.map_err(|_| {
            let text = format!("no session was free or opened within {:?}", self.timeout);
            StoreError::new(StoreErrorKind::Timeout, text)
        })??;
        if taken.session()?.may_grant.lock().is_empty() {
            match self.boot.ask(&taken, Some(Duration::ZERO)).await {
                // A later step reports this.
                Err(error)
                    if error::lacks_schema(&error) || error.kind() == StoreErrorKind::Denied =>
                {
                    taken.batch("ROLLBACK").await?;
                    taken.session()?.allow(boot::ASKS.to_owned());
                }
                asked => asked?,
            }
        }
        Ok(taken)
    }

    async fn rested_or_new(&self, give_up: Instant) -> Result<Taken, StoreError> {
        let place = Arc::clone(&self.shared.places).acquire_owned().await;
        let place = place.map_err(|_| StoreError::unknown_request())?; // it is never closed
        let (of, rested) = (self.clone(), || self.shared.resting.lock().pop());
        while let Some((session, _)) = rested() {
            if !session.dialed.client.is_closed() {
                return Ok(Taken { seat: Some((session, place)), of, give_up });
            }
        }
        // The session is opened to the end, although the caller may give up.
        let opening = tokio::spawn(async move {
            let session = of.shared.open(&of.schema).await?;
            Ok(Taken { seat: Some((session, place)), of, give_up })
        });
        opening.await.map_err(|_| StoreError::unknown_request())?
    }

    /// Closes the sessions that have rested for at least this long; with zero, all.
    pub(crate) fn close(&self, rested: Duration) {
        self.shared.resting.lock().retain(|(_, since)| since.elapsed() < rested);
    }

    /// Whether a request that does no harm twice is repeated: its session had ended, or its server
    /// has become a standby. Then the next session is with the present primary.
    fn may_repeat(&self, error: &StoreError) -> bool {
        if error::is_standby(error) {
            self.close(Duration::ZERO);
        }
        error::is_broken(error) || error::is_worth_another_try(error)
    }

    /// Runs a single statement that does no harm if it runs twice.
    pub(crate) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Rows {
        self.repeat(|| async { self.take().await?.once(sql, values).await }).await
    }

    /// Asks whether the server has forgotten anything, for leases of this length; `None` if an
    /// operator declares that it has not.
    pub(crate) async fn ask_boot(&self, span: Option<Duration>) -> Result<(), StoreError> {
        self.repeat(|| async {
            let taken = self.take().await?;
            self.boot.ask(&taken, span).await?;
            taken.give_back();
            Ok(())
        })
        .await
    }

    /// Does what does no harm twice, again and again while it fails with a passing error.
    pub(crate) async fn repeat<T, A: Future<Output = Result<T, StoreError>>>(
        &self,
        ask: impl Fn() -> A,
    ) -> Result<T, StoreError> {
        for _ in 1..MOST_TRIES {
            match ask().await {
                Err(error) if self.may_repeat(&error) && !error.may_have_executed() => {}
                done => return done,
            }
        }
        ask().await
    }
}

impl Shared {
    async fn open(&self, schema: &str) -> Result<Session, StoreError> {
        self.pace.turn(Instant::now(), &()).await?;
        let dialed = self.dialer.dial().await;
        self.pace.dialled(&(), &dialed);
        dialed.map(|dialed| Session::begin(dialed, schema))
    }

    /// Waits until a session that was given up can be used again, or has ended.
    async fn see_off(&self, session: Session, limit: Duration) {
        let Dialed { client, at, is_direct, .. } = &session.dialed;
        let is_well = {
            let mut answer = std::pin::pin!(client.batch_execute("ROLLBACK"));
            // A session of this store alone has a timeout in the server, which ends all but a
            // commit. Behind a pooler, a cancel request does it.
            let mut is_cancelled = *is_direct;
            loop {
                match timeout(limit, answer.as_mut()).await {
                    Ok(answered) => break answered.is_ok(),
                    Err(_) if !self.dialer.is_answering(*at).await => break false,
                    Err(_) if !std::mem::replace(&mut is_cancelled, true) => {
                        self.dialer.cancel(*at, client).await;
                    }
                    Err(_) => {}
                }
            }
        };
        if is_well {
            self.resting.lock().push((session, Instant::now()));
        }
    }
}

/// A session in use. If its user does not give it back, its request may be under way. Then its
/// place stays taken until the server has ended that.
pub(crate) struct Taken {
    seat: Option<(Session, OwnedSemaphorePermit)>,
    of: Sessions,
    give_up: Instant,
}

impl Taken {
    pub(super) fn session(&self) -> Result<&Session, StoreError> {
        self.seat.as_ref().map(|(session, _)| session).ok_or_else(StoreError::unknown_request)
    }

    /// The server of the session, as messages name it.
    pub(crate) fn server(&self) -> &str {
        self.seat.as_ref().map_or("", |(session, _)| &session.dialed.server)
    }

    /// Sends statements without values, as one request.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.within_limit(self.session()?.dialed.client.batch_execute(sql)).await
    }

    /// Sends one statement. The schema is called `leasehold` there.
    pub(crate) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Rows {
        self.within_limit(self.session()?.once(sql, values)).await
    }

    /// Runs a statement that changes everything or nothing. There are no rows if the server refuses
    /// it. If no answer comes, the caller is told: a copy may take a name later.
    pub(crate) async fn attempt(self, sql: &str, values: &[Value<'_>]) -> Rows {
        match self.once(sql, values).await {
            Err(no) if error::is_refusal(&no) => Ok(vec![]),
            done => done.map_err(StoreError::maybe_executed),
        }
    }

    /// Sends one statement that is the only one, and gives the session back if it is answered.
    async fn once(self, sql: &str, values: &[Value<'_>]) -> Rows {
        let done = self.within_limit(self.session()?.query(sql, values)).await;
        // The server may have ended the session with its refusal.
        if done.as_ref().err().is_none_or(|no| error::is_refusal(no) && !error::is_broken(no)) {
            self.give_back();
        }
        done
    }

    async fn within_limit<T>(
        &self,
        asking: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        match timeout_at(self.give_up, asking).await {
            Ok(done) => done.map_err(|failure| error::request(self.server(), failure)),
            Err(_) => Err(error::too_slow(self.server(), "a request", self.of.timeout)),
        }
    }

    /// Gives the session back unchanged, for the next caller.
    pub(crate) fn give_back(mut self) {
        if let Some((session, _place)) = self.seat.take() {
            self.of.shared.resting.lock().push((session, Instant::now()));
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some((session, place)) = self.seat.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let Sessions { shared, timeout, .. } = self.of.clone();
            runtime.spawn(async move {
                shared.see_off(session, timeout).await;
                drop(place);
            });
        }
    }
}
