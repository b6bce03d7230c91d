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
pub(crate) struct Sessions {
    pub(crate) settings: PostgresOptions,
    pub(crate) boot: Boot,
    dialer: Arc<Dialer>,
    /// Keeps callers from immediately dialling servers that have just refused another caller. A
    /// session may be with any of the servers, so all of them share one pace.
    pace: Paces<()>,
    places: Arc<Semaphore>,
    /// The sessions at rest, each with the time since when. The last one is used next.
    resting: Mutex<Vec<(Arc<Session>, Instant)>>,
}

impl Sessions {
    pub(crate) fn new(settings: PostgresOptions) -> Result<Arc<Self>, InvalidInput> {
        settings.check()?;
        Ok(Arc::new(Self {
            boot: Boot::new(&settings),
            dialer: Dialer::new(&settings, &settings.servers)?,
            pace: Paces::default(),
            places: Arc::new(Semaphore::new(settings.connections as usize)),
            resting: Mutex::default(),
            settings,
        }))
    }

    /// Opens the first session. Each server may take as long for that as its time to connect,
    /// although no request waits so long. Returns whether the session is with the server itself.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<bool, StoreError> {
        let PostgresOptions { servers, timeout, .. } = &self.settings;
        let opening: Duration = servers.iter().map(|_| self.settings.connect_timeout()).sum();
        let taken = self.take_within(opening + *timeout).await?;
        let is_direct = taken.session.dialed.is_direct;
        taken.give_back();
        Ok(is_direct)
    }

    /// A session for one caller. Callers are served in the order in which they come.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Taken, StoreError> {
        self.take_within(self.settings.timeout).await
    }

    async fn take_within(self: &Arc<Self>, limit: Duration) -> Result<Taken, StoreError> {
        let give_up = Instant::now() + limit;
        let taken = timeout_at(give_up, self.rested_or_new(give_up)).await.map_err(|_| {
            let text = format!("no session was free or opened within {limit:?}");
            StoreError::new(StoreErrorKind::Timeout, text)
        })??;
        if taken.session.may_grant.lock().is_empty() {
            match self.boot.ask(&taken, Some(Duration::ZERO)).await {
                // A later step reports this.
                Err(error)
                    if error::lacks_schema(&error) || error.kind() == StoreErrorKind::Denied =>
                {
                    taken.batch("ROLLBACK").await?;
                    taken.session.allow(boot::ASKS.to_owned());
                }
                asked => asked?,
            }
        }
        Ok(taken)
    }

    async fn rested_or_new(self: &Arc<Self>, give_up: Instant) -> Result<Taken, StoreError> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = Some(place.map_err(|_| StoreError::unknown_request())?); // it is never closed
        let (of, rested) = (Arc::clone(self), || self.resting.lock().pop());
        while let Some((session, _)) = rested() {
            if !session.dialed.client.is_closed() {
                return Ok(Taken { session, place, of, give_up });
            }
        }
        // The session is opened to the end, although the caller may give up.
        let opening = tokio::spawn(async move {
            of.pace.turn(Instant::now(), &()).await?;
            let dialed = of.dialer.dial().await;
            of.pace.dialled(&(), &dialed);
            let session = Arc::new(Session::begin(dialed?, &of.settings.schema));
            Ok(Taken { session, place, of, give_up })
        });
        opening.await.map_err(|_| StoreError::unknown_request())?
    }

    /// Closes the sessions that have rested for at least this long; with zero, all.
    pub(crate) fn close(&self, rested: Duration) {
        self.resting.lock().retain(|(_, since)| since.elapsed() < rested);
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
    pub(crate) async fn query(self: &Arc<Self>, sql: &str, values: &[Value<'_>]) -> Rows {
        self.repeat(|| async { self.take().await?.prepared(sql, values).await }).await
    }

    /// Asks whether the server has forgotten anything, for leases of this length; `None` if an
    /// operator declares that it has not.
    pub(crate) async fn ask_boot(
        self: &Arc<Self>,
        span: Option<Duration>,
    ) -> Result<(), StoreError> {
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

    /// Waits until a session that was given up can be used again, or has ended.
    async fn see_off(&self, session: Arc<Session>) {
        let Dialed { client, at, is_direct, .. } = &session.dialed;
        let is_well = {
            let mut answer = std::pin::pin!(client.batch_execute("ROLLBACK"));
            // A session of this store alone has a timeout in the server, which ends all but a
            // commit. Behind a pooler, a cancel request does it.
            let mut is_cancelled = *is_direct;
            loop {
                match timeout(self.settings.timeout, answer.as_mut()).await {
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
    pub(super) session: Arc<Session>,
    /// `None` once the session is given back.
    place: Option<OwnedSemaphorePermit>,
    of: Arc<Sessions>,
    give_up: Instant,
}

impl Taken {
    /// The server of the session, as messages name it.
    pub(crate) fn server(&self) -> &str {
        &self.session.dialed.server
    }

    /// Sends statements without values, as one request.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.within_limit(self.session.dialed.client.batch_execute(sql)).await
    }

    /// Sends one statement, which is not prepared. The schema is called `leasehold` there.
    pub(crate) async fn plain(&self, sql: &str, values: &[Value<'_>]) -> Rows {
        self.within_limit(self.session.plain(sql, values)).await
    }

    /// Runs a statement that changes everything or nothing. There are no rows if the server refuses
    /// it. If no answer comes, the caller is told: a copy may take a name later.
    pub(crate) async fn attempt(self, sql: &str, values: &[Value<'_>]) -> Rows {
        match self.prepared(sql, values).await {
            Err(no) if error::is_refusal(&no) => Ok(vec![]),
            done => done.map_err(StoreError::maybe_executed),
        }
    }

    /// Sends one statement that is the only one, and gives the session back if it is answered.
    async fn prepared(self, sql: &str, values: &[Value<'_>]) -> Rows {
        let done = self.within_limit(self.session.prepared(sql, values)).await;
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
            Err(_) => Err(error::too_slow(self.server(), "a request", self.of.settings.timeout)),
        }
    }

    /// Gives the session back unchanged, for the next caller.
    pub(crate) fn give_back(mut self) {
        // The place is free only once the session rests.
        let _place = self.place.take();
        self.of.resting.lock().push((Arc::clone(&self.session), Instant::now()));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(place) = self.place.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (of, session) = (Arc::clone(&self.of), Arc::clone(&self.session));
            runtime.spawn(async move {
                of.see_off(session).await;
                drop(place);
            });
        }
    }
}
