//! The trait [`Store`], and the types that its methods return.

use std::fmt;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::time::Duration;

use leasehold_core::{Answer, BoxFuture, ClientId, LockName, Message, Operation, StoreError};
#[cfg(any(feature = "postgres", feature = "redis"))]
use {crate::process::MadeIn, leasehold_core::StoreErrorKind};

/// The result of [`Store::subscribe`].
pub(crate) type Subscribed = Result<Option<Box<dyn Subscription>>, StoreError>;

/// A name of the shard that executes an operation, if only one shard executes it.
pub(crate) fn shard_name(operation: &Operation) -> Option<&LockName> {
    match operation {
        Operation::On { name, .. } => Some(name),
        Operation::Keep(leases) => leases.first().map(|(name, _)| name),
        _ => None,
    }
}

/// Refuses a store in a forked child, whose connections are shared with the parent.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) fn refuse_in_child(made_in: &MadeIn) -> Result<(), StoreError> {
    let text = "the store was opened before a fork: open it anew in this process";
    let error = || StoreError::new(StoreErrorKind::Unsupported, text);
    if made_in.is_another() { Err(error()) } else { Ok(()) }
}

/// The capabilities of a store. A request that needs another capability gets a typed error: the
/// store imitates nothing.
///
/// ```
/// use leasehold::store::Capabilities;
///
/// let mut queue = Capabilities::default();
/// (queue.queued, queue.wakes) = (true, true);
/// assert!(!queue.permits);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// A hand-over counts only once the store has answered the waiter's claim: a message alone
    /// grants nothing. A store sets this if a grant in a message may not count yet, because
    /// replicas have not acknowledged it or no majority was asked.
    pub claims_first: bool,
    /// Others than the store's clients can publish messages under a name. So such a message is only
    /// a hint to ask the store.
    pub hears_anybody: bool,
    /// The twelve low bits of the store's tokens are zero and stay free. So a client can pass a
    /// lease from task to task, with a higher token each time. Otherwise each task must ask the
    /// store for its token.
    pub local_tokens: bool,
    /// The store grants permits of a semaphore.
    pub permits: bool,
    /// Every release is published to the subscribers of the name. Otherwise waiters poll more
    /// often.
    pub publishes_releases: bool,
    /// Waiters queue, and a release hands the lock to the first of them. Otherwise waiters ask
    /// again and again.
    pub queued: bool,
    /// If the store has forgotten a hold, the holder can take it back by its token, before the
    /// lease counts as lost. The store grants nobody else a name that may still be held.
    pub reclaims: bool,
    /// Tokens are drawn from a counter that outlives every hold. So later tokens are higher
    /// whatever the clock does.
    pub recorded_tokens: bool,
    /// The store grants shared (read) leases.
    pub shared: bool,
    /// A grant is a vote. Callers that ask at the same moment may split the votes, and none of them
    /// gets a majority. So after a release, each asks at a different moment.
    pub splits_votes: bool,
    /// The store's inboxes deliver messages; otherwise waiters find out by asking.
    pub wakes: bool,
}

impl Capabilities {
    /// Those of a store that has a record for each name.
    pub(crate) const OF_RECORDS: Self = Self {
        claims_first: false,
        hears_anybody: false,
        local_tokens: true,
        permits: true,
        publishes_releases: true,
        queued: true,
        reclaims: false,
        recorded_tokens: true,
        shared: true,
        splits_votes: false,
        wakes: true,
    };
}

/// A store of locks. Its methods are cheap to call from many tasks at the same time.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// The capabilities of this store; constant during its life.
    fn capabilities(&self) -> Capabilities;

    /// Executes one operation, atomically per name.
    ///
    /// # Errors
    ///
    /// [`StoreError::may_have_executed`] is false only if the operation was certainly not executed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the operation may or may not be executed.
    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>>;

    /// Opens the inbox of a client, in which its grants and revocations arrive. Once this has
    /// returned, a [`Message::Gap`] reports each loss of messages. But a store need not listen
    /// while none of the client's attempts waits. In that case, a revocation is found by the next
    /// renewal.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or does not allow it.
    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>>;

    /// Opens what renewals need, on the keeper's thread: a client waits for that before its first
    /// acquire, 500 ms at most. Also ends if something cannot be opened, as the requests will find
    /// out. `None` if renewals need nothing that is opened.
    fn prepare(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// The shard of a name, for stores that are made of several servers. Names of one shard share a
    /// clock and outages. The time at one shard says nothing about another shard, and a renewal
    /// that hangs at one shard delays no lease of another. A name may move to another shard at any
    /// time.
    fn shard(&self, name: &LockName) -> u64 {
        let _ = name;
        0
    }

    /// The largest difference between the clocks of servers that take over from each other;
    /// constant during the life of this store. A holder stops relying on its lease earlier than the
    /// store ends it: earlier by this difference. Zero if every lease ends by the same clock by
    /// which it began.
    fn clock_offset(&self) -> Duration {
        Duration::ZERO
    }

    /// Publishes a message to all subscribers of `name`. It is a hint, like every message: it may
    /// be lost, and subscribers also ask the store.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or does not allow it.
    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (name, message);
        Box::pin(async { Ok(()) })
    }

    /// Subscribes to the messages that are published under a name, in the order of their
    /// publication. `None` if the store has no such messages. Once this has returned, a `None` from
    /// [`Subscription::next`] reports each loss of messages.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached.
    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let _ = name;
        Box::pin(async { Ok(None) })
    }

    /// A descriptor of a client. The store considers the client alive while any process has a copy
    /// of the descriptor open. `None` if the store does not watch processes, or if the client has
    /// not yet acquired anything or opened an inbox.
    ///
    /// A supervisor that outlives its `leasehold` process keeps a copy until the guarded work has
    /// ended. Otherwise the store would pass the lock on as soon as that process is killed, while
    /// the work still runs.
    #[cfg(unix)]
    fn lifeline(&self, client: ClientId) -> Option<OwnedFd> {
        let _ = client;
        None
    }

    /// Tells the store that a client has ended its work. The store immediately removes everything
    /// that it has made only for the life of this client, because the process may end right
    /// afterwards. If the client still holds or waits for something, nothing changes.
    fn forget(&self, client: ClientId) {
        let _ = client;
    }

    /// Ends a quarantine because an operator says that the store is new, or has forgotten nothing:
    /// then the store has every valid lease. Returns whether the store has quarantines at all; if
    /// it has none, the call does nothing.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached or does not allow it.
    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async { Ok(false) })
    }

    /// Warnings about faults, found on connecting, that weaken a promise, each with the remedy.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The inbox in which the messages of one client arrive.
pub trait Inbox: Send {
    /// Waits for the next message, and repairs its connection by itself meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no message.
    fn next(&mut self) -> BoxFuture<'_, Message>;
}

/// A subscription to the messages that are published under one name.
pub trait Subscription: Send {
    /// Waits for the next message, and reconnects by itself meanwhile. Returns `None` if some
    /// messages may have been lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    fn next(&mut self) -> BoxFuture<'_, Option<String>>;
}

impl<S: Store> From<S> for Box<dyn Store> {
    fn from(store: S) -> Self {
        Box::new(store)
    }
}
