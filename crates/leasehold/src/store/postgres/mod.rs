//! Locks in a PostgreSQL database.
//!
//! Leasehold connects only to servers that [`PostgresOptions`] and URLs name. The frequent requests
//! are one statement each. Any other request is one transaction of two round trips
//! around [`leasehold_core::model::step`]. No session is held for a lock, so a pooler may be in
//! between. The manual for operators is [`Postgres::MANUAL`].

/// Values for a statement, each behind its type.
macro_rules! values {
    ($($type:ident $value:expr),*) => {
        [$((&$value as _, tokio_postgres::types::Type::$type)),*]
    };
}

mod chores;
mod connection;
mod doctor;
mod inbox;
mod options;
mod record;
mod schema;
mod step;
mod thin;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, Error, Keep, LockName, Operation, Page, Reply, StoreError,
};
use tokio::time::{Instant, sleep};

use self::connection::{Sessions, on_keeper};
pub(super) use self::doctor::examine;
use self::inbox::Inboxes;
pub use self::options::{PostgresOptions, SslMode};
use self::record::{damaged, now};
pub use self::schema::PostgresRoles;
use self::thin::Thin;
use super::options::OFFSET;
use super::renewals::keep_each;
use super::traits::refuse_in_child;
use super::unreadable::refusal;
use super::warnings::Warnings;
use super::{Capabilities, Inbox, Store, Subscribed};
use crate::background;
use crate::clock::SystemClock;
use crate::mutex::Mutex;
use crate::process::{MadeIn, PerProcess};

/// The pause before a step is tried again, while a fenced transaction of its name is open.
const HELD_BACK_PAUSE: Duration = Duration::from_millis(100);

/// The warning that a session is not with the server itself.
const POOLER: &str = "there is a pooler before the server, so no notification arrives, and waiters \
    ask once a second: name the server itself by `listen=HOST`";

/// The stores that clients of this process use.
static STORES: PerProcess<Mutex<Vec<Weak<Shared>>>> = PerProcess::new();

/// A PostgreSQL database.
///
/// Every operation is one transaction, so it is atomic; leases end by the server's clock, and a
/// grant counts once it is on the server's disk. Sessions are opened when they are needed, at most
/// `connections` of them. They belong to no lock, so a pooler in transaction mode may be in
/// between.
///
/// Transactions on the same database can be fenced exactly. In such a transaction
/// `SELECT leasehold.fence(name, token)` passes only for the newest token of a lease that has not
/// ended. Nobody else is granted the name before the transaction ends.
///
/// All stores of a process with equal options share their sessions. So more clients need no more
/// sessions, and seldom wait for each other in the server.
#[derive(Clone)]
pub struct Postgres {
    made_in: MadeIn,
    shared: Arc<Shared>,
    warnings: Arc<Warnings>,
}

struct Shared {
    sessions: Arc<Sessions>,
    thin: Thin,
    inboxes: Inboxes,
    /// Whether the store was used since the last chores.
    is_used: AtomicBool,
}

debug_as!(Postgres => |it, f| {
    let PostgresOptions { servers, schema, .. } = &it.shared.sessions.settings;
    let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
    f.debug_struct("Postgres").field("servers", &servers).field("schema", schema).finish()
});

impl Postgres {
    #[doc = include_str!("../../../docs/postgres.md")]
    pub const MANUAL: &'static str = include_str!("../../../docs/postgres.md");

    /// Connects to the primary among the servers that the options name. Installs the schema if it
    /// is missing and the role may do so.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the option that is out of range, or that excludes another one.
    /// [`Error::Store`] says why no server was reached, or why the server cannot be used: too old,
    /// a standby, no rights, a schema of another release.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the schema may or may not be installed, but never in part.
    ///
    /// # Cost
    ///
    /// Ten round trips, or two more with TLS; seven more if it installs the schema.
    pub async fn open(options: PostgresOptions) -> Result<Self, Error> {
        let store = Self::of(options)?;
        let opened = store.clone();
        on_keeper(Box::pin(async move {
            let sessions = &opened.shared.sessions;
            if !sessions.connect().await? && sessions.settings.listen.is_none() {
                opened.warnings.add(POOLER.to_owned());
            }
            schema::prepare(sessions).await?;
            opened.warnings.add_trouble(doctor::of_server(sessions).await?);
            Ok(())
        }))
        .await?;
        Ok(store)
    }

    /// The store of all clients of this process with these settings.
    fn of(settings: PostgresOptions) -> Result<Self, Error> {
        let mut stores = STORES.this().lock();
        stores.retain(|store| store.strong_count() > 0);
        let mut others = stores.iter().filter_map(Weak::upgrade);
        if let Some(shared) = others.find(|other| other.sessions.settings == settings) {
            return Ok(Self::new(shared));
        }
        let sessions = Sessions::new(settings)?;
        let inboxes = Inboxes::new(Arc::clone(&sessions))?;
        let thin = Thin::new(Arc::clone(&sessions));
        let shared = Arc::new(Shared { sessions, thin, inboxes, is_used: false.into() });
        stores.push(Arc::downgrade(&shared));
        let chores = chores::work(Arc::downgrade(&shared));
        background::spawn(&SystemClock::new(), Box::pin(chores))?;
        Ok(Self::new(shared))
    }

    /// Installs the schema if it is missing, and gives rights to roles, which must exist. Returns
    /// whether it made anything.
    ///
    /// # Errors
    ///
    /// The same as [`open`](Self::open), and [`Denied`](leasehold_core::StoreErrorKind::Denied) if
    /// the role lacks the right.
    pub async fn install(options: PostgresOptions, roles: &PostgresRoles) -> Result<bool, Error> {
        let (sessions, roles) = (Sessions::new(options)?, roles.clone());
        let installing = async move {
            sessions.connect().await?;
            schema::install(&sessions, &roles).await
        };
        Ok(on_keeper(Box::pin(installing)).await?)
    }

    fn new(shared: Arc<Shared>) -> Self {
        Self { made_in: MadeIn::this(), shared, warnings: Arc::default() }
    }

    /// The shared part of the store; an error in a forked child, whose sessions are shared with the
    /// parent.
    fn shared(&self) -> Result<Arc<Shared>, StoreError> {
        refuse_in_child(&self.made_in)?;
        Ok(Arc::clone(&self.shared))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.made_in.is_another() {
            // The sessions, and the thread that drives them, belong to the parent.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl Shared {
    async fn run(&self, operation: Operation) -> Result<Answer, StoreError> {
        self.is_used.store(true, Ordering::Relaxed);
        // The quarantine must outlast the lease.
        if let Some(longest) = self.sessions.boot.longer(&operation) {
            self.sessions.ask_boot(Some(longest)).await?;
        }
        match operation {
            Operation::Keep(leases) => self.keep(leases).await,
            Operation::List { prefix, after, keys } => {
                self.list(&prefix, &after.unwrap_or_default(), keys).await
            }
            Operation::On { name, action } => self.on(&name, action).await,
            _ => Err(StoreError::unknown_request()),
        }
    }

    async fn on(&self, name: &LockName, action: Action) -> Result<Answer, StoreError> {
        let hears = |client| self.inboxes.hears(client);
        let is_deaf = matches!(&action, Action::Take(take) if !hears(take.request.id.client));
        let done = match &action {
            Action::Look { .. } => Some(step::look(&self.sessions, name, &action).await?),
            Action::Take(take) if take.from.is_some() || take.claim.is_some() => {
                return self.step_once_free(name, &action).await;
            }
            Action::Take(take) => self.thin.take(name, take).await?,
            Action::End(end) => self.thin.end(name, end).await?,
            Action::Keep(keep) => self.thin.keep(name, keep).await?,
            _ => None,
        };
        let answer = match done {
            Some(done) => done,
            None => self.step(name, &action).await?,
        };
        if let (Action::Take(take), Reply::Queued(_)) = (&action, &answer.reply) {
            self.inboxes.hear(take.request.id.client).await;
            if is_deaf {
                // It may have been granted the name before its session listened.
                return self.step(name, &action).await;
            }
        }
        Ok(answer)
    }

    /// Renews leases, by statements and by steps.
    async fn keep(&self, leases: Vec<(LockName, Keep)>) -> Result<Answer, StoreError> {
        keep_each(leases, 2 * self.sessions.settings.timeout, |name, keep| async move {
            self.on(&name, Action::Keep(keep)).await.or_else(|error| {
                let refused = |why| Answer::untimed(Reply::Refused(why));
                refusal(&error).map(refused).ok_or(error)
            })
        })
        .await
    }

    /// A page of the names that begin with `prefix` and come after `beyond`.
    async fn list(&self, prefix: &str, beyond: &str, keys: u32) -> Result<Answer, StoreError> {
        let (at_most, mut page) = (i64::from(keys), Page::default());
        let values = values![TEXT prefix, TEXT beyond, INT8 at_most];
        let rows = self.sessions.query(include_str!("schema/list.sql"), &values).await?;
        for row in &rows {
            // A name that is not one of ours belongs to the program that put it there.
            if let Some(Ok(name)) = row.get::<_, Option<String>>(1).map(LockName::new) {
                page.scan(&name, row.get(2), keys);
            }
        }
        let now = now(rows.first().ok_or_else(|| damaged("an answer"))?.get(0))?;
        Ok(Answer::new(now, Reply::Page(page)))
    }

    async fn step(&self, name: &LockName, action: &Action) -> Result<Answer, StoreError> {
        let (answer, messages) = step::apply(&self.sessions, name, action).await?;
        self.inboxes.tell(&messages).await;
        Ok(answer)
    }

    /// Like [`step`](Self::step), for an action that grants a token and cannot wait in the queue.
    /// While a fenced transaction is open, the action is tried again and again, until the timeout.
    async fn step_once_free(&self, name: &LockName, action: &Action) -> Result<Answer, StoreError> {
        let give_up = Instant::now() + self.sessions.settings.timeout;
        while Instant::now() < give_up {
            let answer = self.step(name, action).await?;
            if !matches!(answer.reply, Reply::Busy { .. }) {
                return Ok(answer);
            }
            sleep(HELD_BACK_PAUSE).await;
        }
        Err(step::refusal(&self.sessions, name).await)
    }
}

impl Store for Postgres {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Every role of the database may notify.
            hears_anybody: true,
            // Releases are not published, because each notification wakes every listening session
            // of the database.
            publishes_releases: false,
            reclaims: self.shared.sessions.settings.quarantine().is_some(),
            ..Capabilities::OF_RECORDS
        }
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            on_keeper(Box::pin(async move { shared.run(operation).await })).await
        })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move { Ok(self.shared()?.inboxes.open(client)) })
    }

    fn clock_offset(&self) -> Duration {
        OFFSET
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let (name, message) = (name.clone(), message.to_owned());
        Box::pin(async move {
            let shared = self.shared()?;
            on_keeper(Box::pin(async move { shared.inboxes.publish(&name, &message).await })).await
        })
    }

    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let name = name.clone();
        Box::pin(async move { self.shared()?.inboxes.subscribe(&name).await })
    }

    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            let is_kept = shared.sessions.settings.quarantine().is_some();
            if is_kept {
                on_keeper(Box::pin(async move { shared.sessions.ask_boot(None).await })).await?;
            }
            Ok(is_kept)
        })
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.all()
    }
}
