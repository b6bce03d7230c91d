//! What a keeper owns: the leases, the queues of callers and what must still be done, behind one
//! mutex. Types only; the files beside this one say who changes what.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar};
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::renewal::Renewing;
use leasehold_core::{
    Action, BoxFuture, ClientId, Error, FencingToken, HolderId, HolderInfo, Instant, LeaseOptions,
    LockName, StoreError,
};
use tokio::sync::{Notify, OnceCell, oneshot};

use super::due_queue::DueQueue;
use super::lease::{Attempt, LeaseState, Terms, Ticket};
use super::leases::Leases;
use crate::failures::FailureStreak;
use crate::mutex::Mutex;
use crate::own_process::OwnClient;
use crate::process::{MadeIn, PerProcess};
use crate::store::Subscription;
use crate::store::clocked::ClockedStore;
use crate::sync::AtomicUsize;

/// A client: shared by its handles, its locks, its guards and the future that drives it.
pub(crate) struct Keeper {
    pub(super) made_in: MadeIn,
    pub(crate) store: ClockedStore,
    pub(crate) client: ClientId,
    /// How this client presents itself to others, but for the label.
    pub(super) who: HolderInfo,
    /// The options that each lock of this client begins with.
    pub(crate) defaults: LeaseOptions,
    pub(super) _own: OwnClient,
    pub(super) table: Mutex<Table>,
    /// The number of attempts so far.
    pub(super) attempts: AtomicU64,
    /// From this come the numbers that only an attempt knows.
    pub(super) secret: u64,
    pub(super) seeds: AtomicU64,
    /// The number of clients and locks that could ask for more.
    pub(super) handles: AtomicUsize,
    /// There is none if its store was given as a value.
    pub(super) remake: Option<Box<Remake>>,
    /// The same client in children that were forked.
    pub(super) successors: PerProcess<OnceCell<Arc<Keeper>>>,
    /// Rung when the table has something that is due before the keeper wakes by itself.
    pub(super) wake: Notify,
    /// Rung when a cleanup is done.
    pub(super) cleaned: Notify,
    /// The same signal as `cleaned`, for threads.
    pub(super) settled: Condvar,
}

/// Makes the keeper of a client anew, in a forked child.
pub(crate) type Remake = dyn Fn() -> BoxFuture<'static, Result<Arc<Keeper>, Error>> + Send + Sync;

/// Everything that one keeper looks after.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) leases: Leases,
    pub(super) queues: LocalQueues,
    pub(super) cleanups: Vec<Cleanup>,
    /// Cleanups that are queued or under way.
    pub(super) unfinished: usize,
    /// Why a cleanup was given up, for the caller of `close`.
    pub(super) given_up: Option<StoreError>,
    pub(super) ended: RecentlyEnded,
    /// A task drives the keeper.
    pub(super) running: bool,
    pub(super) closed: bool,
    pub(super) wants_inbox: bool,
    /// When the keeper will wake next by itself.
    pub(super) planned: Instant,
    pub(super) jitter: Jitter,
}

// ---- what must still be done

/// An action that must still reach the store although nobody waits for it.
#[derive(Clone, Debug)]
pub(super) struct Cleanup {
    pub(super) name: LockName,
    pub(super) action: Action,
    /// From this instant on the action does not matter any more: time has done the same.
    pub(super) until: Instant,
    /// The notice that is published of the name, once the action is done.
    pub(super) notice: Option<String>,
}

/// The attempts whose release was asked for last, each with its token.
#[derive(Debug, Default)]
pub(super) struct RecentlyEnded(pub(super) VecDeque<(HolderId, FencingToken, LockName)>);

// ---- what callers have

/// A held lease. The last guard that lets go drops it. The keeper then releases it, unless it was
/// released or handed out before.
pub(crate) struct Held {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) state: Arc<LeaseState>,
}

/// The release of the lease that a queue has had, in the hands of the caller that asks next.
/// Dropping it before it is done leaves it to the keeper.
#[derive(Debug)]
pub(crate) struct PendingRelease {
    pub(super) keeper: Arc<Keeper>,
    pub(super) cleanup: Option<Box<Cleanup>>,
}

/// What a call does next.
#[derive(Debug)]
pub(crate) enum Step {
    /// The call joins the queue, with a new attempt.
    Join,
    Ask(Ask),
    /// The call waits for its turn: in the queue, or at the store.
    Wait {
        turn: oneshot::Receiver<Turn>,
        behind: Option<Behind>,
    },
    /// The call would not wait, and another caller has the name or waits for it.
    Busy,
    Held(Held),
}

/// A caller asks the store for its queue, with this attempt.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) id: HolderId,
    pub(crate) nonce: u64,
    /// The store may know the attempt: the caller that was the first before has sent it.
    pub(crate) is_known: bool,
    /// Its queue has just let go of a lease, whose slice was over.
    pub(crate) yields: bool,
    /// The release that is sent before the attempt, or together with it.
    pub(crate) release: Option<PendingRelease>,
    pub(crate) turn: oneshot::Receiver<Turn>,
}

/// A caller stands behind others of its client, which may have a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    pub(crate) ahead: u32,
    pub(crate) own: Option<FencingToken>,
}

/// The message to a caller that waits: its next step, or the error with which its call fails.
pub(crate) type Turn = Result<Step, StoreError>;

/// What is left of the place of a caller that gives it up.
#[derive(Debug)]
pub(crate) enum Left {
    /// The caller's attempt, which nobody else looks after.
    Own { id: HolderId, unanswered: bool },
    /// The queue has the place, or there is none.
    PassedOn,
    /// The turn is on its way to the caller, or another caller has taken the place.
    HadTurn,
}

/// The messages to callers that are sent, or dropped, once the table is not locked.
#[derive(Debug, Default)]
#[must_use = "somebody waits for it"]
pub(super) struct Wakeup {
    pub(super) turn: Option<(oneshot::Sender<Turn>, Step)>,
    /// A channel on which nothing is sent any more: dropping it may wake its caller.
    pub(super) replaced: Option<oneshot::Sender<Turn>>,
}

// ---- the local queues

/// The queues of one client, one for each name that its callers want.
#[derive(Debug)]
pub(super) struct LocalQueues {
    pub(super) by_name: HashMap<LockName, LocalQueue>,
    /// The callers that ask the store, or wait there, by their attempts.
    pub(super) asking: HashMap<HolderId, Waiter>,
    /// The time for which a lease goes from hand to hand; zero where it never does.
    pub(super) slice: Duration,
    pub(super) tickets: u64,
    /// Names with a release that the keeper has not taken yet.
    pub(super) let_go: Vec<LockName>,
    /// When the first of a line must have shown a sign of life.
    pub(super) watched: DueQueue<LockName>,
    /// When the store is polled for a name.
    pub(super) polled: DueQueue<LockName>,
    /// The polls that are to be sent at once.
    pub(super) polls: Vec<Poll>,
    /// When a seat is looked at that may be empty.
    pub(super) seats: DueQueue<LockName>,
    pub(super) jitter: Jitter,
}

/// The callers of one client that want one name. The queue exists while one of its parts does.
#[derive(Debug, Default)]
pub(super) struct LocalQueue {
    pub(super) line: Option<Line>,
    pub(super) places: Option<Box<Places>>,
    pub(super) seat: Option<Seat>,
}

/// A caller that waits, as the keeper knows it.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) attempt: Attempt,
    /// The channel on which its turn is sent, once.
    pub(super) turn: oneshot::Sender<Turn>,
    /// Its place in the store's order, once it is known. From then on the keeper polls, and before
    /// its acquire does: there are never two requests about it at once.
    pub(super) sequence: Option<u64>,
    pub(super) in_flight: bool,
    /// A message announced its grant while a poll was in flight whose answer may not say so.
    pub(super) is_announced: bool,
}

/// Callers that ask for the same: the first of them holds or asks, and the others are behind. The
/// line exists while one of them holds or asks.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) terms: Terms,
    pub(super) head: Head,
    pub(super) callers: BTreeMap<Ticket, Waiter>,
    pub(super) let_go: Option<KeptForNext>,
    pub(super) is_listed: bool,
    pub(super) is_watched: bool,
}

/// The state of a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head {
    /// The line's first caller asks, with an attempt that is a waiter of this client, or draws one.
    Asking { front: Ticket, attempt: Option<HolderId>, seen: Instant },
    /// A lease, in somebody's hands.
    Held { id: HolderId, slice_until: Instant },
    /// A lease that was dropped, and whose release nobody has sent yet.
    LetGo,
}

/// A lease that was dropped with nobody in line.
#[derive(Debug)]
pub(super) struct KeptForNext {
    pub(super) state: Arc<LeaseState>,
    pub(super) renewing: Renewing,
    pub(super) slice_until: Instant,
    pub(super) cleanup: Box<Cleanup>,
}

/// The places of this client in the store's queue. They are served in the order of their sequence
/// numbers, so a poll in the name of the first finds whatever message was lost.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) members: BTreeSet<(u64, HolderId)>,
    /// Members that may have lost their place together with one that did.
    pub(super) recheck: VecDeque<HolderId>,
    pub(super) due: Instant,
    pub(super) in_flight: bool,
    pub(super) backoff: Backoff,
    /// The reasons why polls fail, since the last one that succeeded.
    pub(super) failures: FailureStreak,
}

/// A request about a waiter, and for how long it wants the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Poll {
    pub(super) name: LockName,
    pub(super) id: HolderId,
    pub(super) ttl: Duration,
}

/// The seat of callers that the store does not queue. The first of them has it, with the
/// subscription in it if the store has any.
pub(super) struct Seat {
    pub(super) subscription: SharedSubscription,
    pub(super) used: Instant,
}

pub(super) type SharedSubscription = Arc<tokio::sync::Mutex<Option<Box<dyn Subscription>>>>;

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("client", &self.client)
            .field("store", &self.store.inner)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("used", &self.used).finish_non_exhaustive()
    }
}
