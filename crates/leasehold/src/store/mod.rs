//! Where locks live: the trait [`Store`], the stores that come with leasehold, and URLs for them,
//! of which [`MANUAL`] tells all.
//!
//! # Writing a store
//!
//! A store applies [`model::step`] to the record of a name, atomically, durably if
//! it says so, with its own clock; then it answers, and only then delivers the messages of that
//! step to the inboxes they are addressed to. It retries nothing by itself that may have been
//! executed: it says so in the error, and its callers ask again with the same attempt.
//! [`Memory`] is the shortest example. The crate `leasehold-conformance` tests that a store does
//! what every store must do.

#[cfg(feature = "file")]
mod file;
mod finding;
mod memory;
mod quorum;
#[cfg(feature = "redis")]
#[doc(hidden)]
pub mod redis;

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

#[cfg(feature = "file")]
pub use self::file::File;
pub use self::finding::{Finding, Level};
pub use self::memory::Memory;
pub use self::quorum::Quorum;
#[cfg(feature = "redis")]
pub use self::redis::Redis;
use leasehold_core::data::{self, Request};
use leasehold_core::text::split_scheme;
pub use leasehold_core::{
    Acquire, Action, Adopt, Answer, BoxFuture, Cancelled, Grant, LOCK_CAPACITY, Message, Now,
    Operation, Place, Reclaim, Refusal, RenewLease, Reply, model,
};
use leasehold_core::{ClientId, Invalid, LockName, StoreError};

#[doc = include_str!("../../docs/store-urls.md")]
pub const MANUAL: &str = include_str!("../../docs/store-urls.md");

/// What a store can do. What it cannot is refused with a typed error, never imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// A hand-over counts only once its claim was answered: what a message says is not entered.
    /// So it is where the grant itself may not count: replicas that have not acknowledged it, a
    /// majority that was not asked.
    pub claims_first: bool,
    /// Locks survive the end of every process that uses the store.
    pub durable: bool,
    /// It grants permits of a semaphore.
    pub permits: bool,
    /// Waiters queue, and a release hands over to the first; without, they ask again and again.
    pub queued: bool,
    /// A holder whose hold was forgotten may take it back by its token before it counts as lost:
    /// nobody else is granted what may still be held.
    pub reclaims: bool,
    /// The record of a name outlives its hold, with the last token and with the attempts that have
    /// ended: later tokens are higher whatever the clock does, and late copies are refused.
    pub recorded_tokens: bool,
    /// It grants shared (read) leases, upgradable ones too.
    pub shared: bool,
    /// Its inboxes deliver; without, waiters find out by asking.
    pub wakes: bool,
}

/// What time it was at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How long ago it was asked.
    pub age: Duration,
    /// What its clock showed then by which leases end, in microseconds.
    pub lease_us: u64,
}

/// One place where locks live. Cheap to call from many tasks at once.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// What this store can do; constant during its life.
    fn capabilities(&self) -> Capabilities;

    /// Executes one operation, atomically per name.
    ///
    /// # Errors
    ///
    /// [`StoreError::may_have_executed`] tells whether it is certain that nothing was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the operation is executed.
    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>>;

    /// Opens the inbox of a client: where its grants and revocations arrive. Once this has
    /// returned, no message is missed without a [`Message::Gap`].
    ///
    /// # Errors
    ///
    /// When the store cannot be reached or does not allow it.
    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>>;

    /// Which shard a name lives in, for stores that are made of several servers. Names of one shard
    /// share a clock and its outages: what one shard says of the time is not believed of another,
    /// and a renewal that hangs at one holds up no lease of another. A name may move to another
    /// shard at any time.
    fn shard(&self, name: &LockName) -> u64 {
        let _ = name;
        0
    }

    /// How far the clocks of servers may be apart that take over from each other; constant during
    /// the life of this store. So much earlier than the store says a holder takes its lease for
    /// over. Zero where a lease ends by the clock on which it began.
    fn clock_offset(&self) -> Duration {
        Duration::ZERO
    }

    /// Tells all who listen to the news of `name`. A hint like every message: it may be lost, and
    /// whoever listens finds out by asking as well.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached or does not allow it.
    fn tell(&self, name: &LockName, news: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (name, news);
        Box::pin(async { Ok(()) })
    }

    /// Listens to the news of a name, in the order in which they are told; `None` where the store
    /// carries none. Once this has returned, none is missed without saying so.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
    fn news(&self, name: &LockName) -> BoxFuture<'_, Result<Option<Box<dyn News>>, StoreError>> {
        let _ = name;
        Box::pin(async { Ok(None) })
    }

    /// A descriptor that keeps a client alive in the eyes of the store for as long as some copy of
    /// it is open, in whatever process; `None` where the store does not watch processes, and
    /// before the first acquire or inbox of that client.
    ///
    /// A supervisor that outlives its leasehold keeps a copy until the work it guards has ended:
    /// otherwise the store would hand the lock on the moment leasehold is killed, with the work
    /// still running.
    fn lifeline(&self, client: ClientId) -> Option<OwnedFd> {
        let _ = client;
        None
    }

    /// Ends a quarantine on the word of an operator: the store is new, or has forgotten nothing, so
    /// no lease of before can be out that it does not know. Gives whether it keeps quarantines at
    /// all, and does nothing if it does not.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached or does not allow it.
    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async { Ok(false) })
    }

    /// What time it was when the store was opened, if it was asked then and all leases end by that
    /// clock (shard 0): a client need not ask once more before its first acquire.
    fn opened_at(&self) -> Option<Reading> {
        None
    }

    /// What was found on connecting that weakens a promise, in words, with the remedy.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Where the messages of one client arrive.
pub trait Inbox: Send {
    /// The next message. Waits for one, and mends its connection by itself meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no message.
    fn next(&mut self) -> BoxFuture<'_, Message>;
}

/// One place where the data parts live: stock, order numbers, queues and cells.
///
/// A store applies the step of the part ([`leasehold_core::data`]) to the record of a name,
/// atomically, with its own wall clock.
pub trait DataStore: Send + Sync + fmt::Debug + 'static {
    /// Does one step.
    ///
    /// # Errors
    ///
    /// [`StoreError::may_have_executed`] tells whether it is certain that nothing was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the step is done.
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<data::Answer, StoreError>>;
}

impl<S: DataStore + ?Sized> DataStore for Box<S> {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<data::Answer, StoreError>> {
        (**self).apply(request)
    }
}

/// Where the news of one name arrive.
pub trait News: Send {
    /// The next news, or `None` if some may have been lost. Waits, and mends its connection by
    /// itself meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    fn next(&mut self) -> BoxFuture<'_, Option<String>>;
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        (**self).execute(operation)
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        (**self).inbox(client)
    }

    fn shard(&self, name: &LockName) -> u64 {
        (**self).shard(name)
    }

    fn clock_offset(&self) -> Duration {
        (**self).clock_offset()
    }

    fn tell(&self, name: &LockName, news: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        (**self).tell(name, news)
    }

    fn news(&self, name: &LockName) -> BoxFuture<'_, Result<Option<Box<dyn News>>, StoreError>> {
        (**self).news(name)
    }

    fn lifeline(&self, client: ClientId) -> Option<OwnedFd> {
        (**self).lifeline(client)
    }

    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        (**self).end_quarantine()
    }

    fn opened_at(&self) -> Option<Reading> {
        (**self).opened_at()
    }

    fn warnings(&self) -> Vec<String> {
        (**self).warnings()
    }
}

/// Opens the store that a URL names.
///
/// # Errors
///
/// [`crate::Error::Invalid`] names the part of the URL that is wrong; [`crate::Error::Store`] says
/// why the store could not be opened.
pub async fn connect(url: &str) -> leasehold_core::Result<Box<dyn Store>> {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "file")]
        "file" => Ok(Box::new(File::connect(url).await?)),
        "memory" => Ok(Box::new(Memory::new())),
        #[cfg(feature = "redis")]
        _ if redis::quorum_node::QuorumNodes::are_named_by(scheme) => {
            Ok(Box::new(connect_quorum(url).await?))
        }
        #[cfg(feature = "redis")]
        _ if Redis::is_named_by(scheme) => Ok(Box::new(Redis::connect(url).await?)),
        _ => Err(unknown(url).into()),
    }
}

/// Reads a store URL, and goes nowhere.
///
/// # Errors
///
/// [`Invalid`] names the part of it that is wrong.
pub fn check_url(url: &str) -> Result<(), Invalid> {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "file")]
        "file" => File::check_url(url),
        "memory" => Ok(()),
        #[cfg(feature = "redis")]
        _ if Redis::is_named_by(scheme) => Redis::check_url(url),
        _ => Err(unknown(url)),
    }
}

/// Looks at everything a store is made of, and says what would break a promise: one finding for
/// each thing that was looked at, also where all is well. Changes nothing, and takes no lock.
///
/// Cost: some seconds at most, and a connection to each server.
///
/// # Errors
///
/// As [`connect`], where there is nothing to look at.
pub async fn examine(url: &str) -> leasehold_core::Result<Vec<Finding>> {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "file")]
        "file" => File::examine(url).await,
        "memory" => Ok(vec![memory::finding()]),
        #[cfg(feature = "redis")]
        _ if Redis::is_named_by(scheme) => Redis::examine(url).await,
        _ => Err(unknown(url).into()),
    }
}

/// Opens a quorum of servers.
#[cfg(feature = "redis")]
async fn connect_quorum(url: &str) -> leasehold_core::Result<Quorum> {
    let members = redis::quorum_node::QuorumNodes::parse(url)?;
    let quorum = Quorum::new(members.stores())?;
    let quorum = match members.timeout {
        Some(timeout) => quorum.timeout(timeout),
        None => quorum,
    };
    members.connect().await?;
    Ok(quorum)
}

/// Opens the store that a URL names, for data.
///
/// # Errors
///
/// As [`connect`].
pub async fn connect_data(url: &str) -> leasehold_core::Result<Box<dyn DataStore>> {
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    match scheme {
        #[cfg(feature = "file")]
        "file" => Ok(Box::new(File::connect(url).await?)),
        "memory" => Ok(Box::new(Memory::new())),
        #[cfg(feature = "redis")]
        _ if Redis::is_named_by(scheme) => Ok(Box::new(Redis::connect(url).await?)),
        _ => Err(unknown(url).into()),
    }
}

/// A store URL as it may be shown, in logs and messages: with `***` for its password, and for a
/// user without one, which may be a password in the wrong place. Of what is no sound URL only its
/// scheme is shown: any other part of it may be a piece of a password.
pub fn shown_url(url: &str) -> String {
    let (scheme, is_sound) = match split_scheme(url) {
        Some((scheme @ "file", path)) => {
            let names_a_host = path.starts_with("//") && !path.starts_with("///");
            (scheme, !names_a_host && !path.contains('?'))
        }
        Some((scheme @ "memory", rest)) => (scheme, rest.is_empty()),
        #[cfg(feature = "redis")]
        Some((scheme, _)) if Redis::is_named_by(scheme) => {
            return redis::without_password(url).unwrap_or_else(|| format!("{scheme}:***"));
        }
        Some(_) | None => return "***".to_owned(),
    };
    if is_sound { url.to_owned() } else { format!("{scheme}:***") }
}

fn unknown(url: &str) -> Invalid {
    let begins = match split_scheme(url) {
        Some((scheme, rest)) if rest.starts_with("//") => format!("begins with {scheme:?}"),
        // What stands there may be a password.
        Some(_) | None => "begins with no scheme that is known".to_owned(),
    };
    Invalid::new(
        "url",
        format!(
            "the store URL {begins}: use `memory:`, `file:PATH`, \
             `redis://HOST[:PORT][/DB]`, `rediss://…` (TLS), `redis+unix://PATH`, \
             `redis+sentinel://HOST,…/SERVICE`, `redis+cluster://HOST,…` or \
             `redis+quorum://HOST,HOST,HOST`"
        ),
    )
}
