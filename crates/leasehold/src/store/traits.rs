//! The trait [`Store`], and what its methods give.

use std::fmt;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::time::Duration;

use leasehold_core::{Answer, BoxFuture, ClientId, LockName, Message, Operation, StoreError};

/// What a store can do. All other requests are refused with a typed error, never imitated.
///
/// ```
/// use leasehold::store::Capabilities;
///
/// let mut queue = Capabilities::default();
/// (queue.queued, queue.wakes) = (true, true);
/// assert!(!queue.durable);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// A reader becomes the writer and a writer a reader, and there are upgradable readers.
    pub changes_mode: bool,
    /// A hand-over counts only once its claim was answered: a message alone grants nothing. This is
    /// for stores whose grant may not count yet: replicas have not acknowledged it, or a majority
    /// was not asked.
    pub claims_first: bool,
    /// Locks survive the end of every process that uses the store.
    pub durable: bool,
    /// The twelve low bits of its tokens are zero and stay free. So a client can pass a lease on
    /// from task to task, with a higher token each time. Without this, each task asks the store.
    pub local_tokens: bool,
    /// The store grants permits of a semaphore.
    pub permits: bool,
    /// Every release is published to the subscribers of the name; without, waiters poll more often.
    pub publishes_releases: bool,
    /// Waiters queue, and a release hands over to the first; without, they ask again and again.
    pub queued: bool,
    /// A holder whose hold was forgotten may take it back by its token before it counts as lost:
    /// nobody else is granted what may still be held.
    pub reclaims: bool,
    /// The record of a name outlives its hold, with the last token and with the attempts that have
    /// ended: later tokens are higher whatever the clock does, and late copies are refused.
    pub recorded_tokens: bool,
    /// The store grants shared (read) leases.
    pub shared: bool,
    /// A grant is a vote. Callers that ask at the same moment may split the votes, and none of them
    /// gets a majority. So after a release, each asks at a different moment.
    pub splits_votes: bool,
    /// The store's inboxes deliver messages; otherwise waiters find out by asking.
    pub wakes: bool,
}

/// What time it was at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// How long ago it was asked.
    pub age: Duration,
    /// The time at that moment, in microseconds, by the clock by which leases end.
    pub lease_us: u64,
}

impl Reading {
    /// That it was `lease_us` when it was asked `age` ago.
    pub const fn new(age: Duration, lease_us: u64) -> Self {
        Self { age, lease_us }
    }
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
    /// returned, no message is missed without a [`Message::Gap`]. But a store may listen only while
    /// something of that client waits. At other times the next renewal finds a revocation.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached or does not allow it.
    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>>;

    /// Which shard a name lives in, for stores that are made of several servers. Names of one shard
    /// share a clock and outages. The time at one shard says nothing about another, and a renewal
    /// that hangs at one delays no lease of another. A name may move to another shard at any time.
    fn shard(&self, name: &LockName) -> u64 {
        let _ = name;
        0
    }

    /// How far the clocks of servers that take over from each other may be apart; constant during
    /// the life of this store. A holder considers its lease over by that much earlier than the
    /// store does. Zero where a lease ends by the clock on which it began.
    fn clock_offset(&self) -> Duration {
        Duration::ZERO
    }

    /// Publishes a message to all subscribers of `name`. A hint like every message: it may be
    /// lost, and subscribers find out by asking as well.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached or does not allow it.
    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (name, message);
        Box::pin(async { Ok(()) })
    }

    /// Subscribes to what is published of a name, in the order in which it is published; `None`
    /// where the store carries no such messages. Once this has returned, no message is missed
    /// without a `None` from [`Subscription::next`].
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
    fn subscribe(
        &self,
        name: &LockName,
    ) -> BoxFuture<'_, Result<Option<Box<dyn Subscription>>, StoreError>> {
        let _ = name;
        Box::pin(async { Ok(None) })
    }

    /// A descriptor of a client. The store takes the client for alive while any process has a copy
    /// of it open. `None` if the store does not watch processes, and before the first acquire or
    /// inbox of that client.
    ///
    /// A supervisor that outlives its leasehold keeps a copy until the work it guards has ended:
    /// otherwise the store would pass the lock on as soon as leasehold is killed, while the work
    /// still runs.
    #[cfg(unix)]
    fn lifeline(&self, client: ClientId) -> Option<OwnedFd> {
        let _ = client;
        None
    }

    /// A client has ended its work. The store removes at once what it has made for this client's
    /// life alone, because the process may end in the next moment. If the client still holds or
    /// awaits something, nothing changes.
    fn forget(&self, client: ClientId) {
        let _ = client;
    }

    /// Ends a quarantine on the word of an operator: the store is new, or has forgotten nothing, so
    /// no lease that it does not know can be valid. Gives whether the store keeps quarantines at
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

/// Where the messages arrive that are published about one name.
pub trait Subscription: Send {
    /// The next message, or `None` if some may have been lost. Waits, and reconnects by itself
    /// meanwhile.
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
