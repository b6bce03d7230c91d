//! The state of a keeper behind one mutex: its leases, the queues of callers, and the cleanups.
//! This file has types only; the files next to it have the code that changes them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar};
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::renewal::Renewing;
use leasehold_core::{
    Action, ClientId, FencingToken, HolderId, HolderInfo, Instant, LeaseOptions, LockName, Request,
    StoreError, Take,
};
use tokio::sync::{Notify, oneshot};

use super::due_queue::DueQueue;
use super::handoff::Pulse;
use super::lease::{Attempt, LeaseState, Terms, Ticket};
use super::leases::Leases;
use crate::failures::FailureStreak;
use crate::mutex::Mutex;
use crate::process::MadeIn;
use crate::store::Subscription;
use crate::store::clocked::ClockedStore;
use crate::sync::AtomicUsize;

/// A client: shared by its handles, its locks, its guards and the future that drives it.
pub(crate) struct Keeper {
    pub(super) made_in: MadeIn,
    pub(crate) store: ClockedStore,
    pub(crate) client: ClientId,
    /// The facts about this client that others see, except for the label.
    pub(super) who: HolderInfo,
    /// The options that each lock of this client begins with.
    pub(crate) defaults: LeaseOptions,
    pub(super) table: Mutex<Table>,
    /// The number of attempts so far.
    pub(super) attempts: AtomicU64,
    pub(super) seeds: AtomicU64,
    /// The number of clients and locks that could ask for more.
    pub(super) handles: AtomicUsize,
    /// Notified when the table has work that is due before the keeper wakes by itself.
    pub(super) wake: Notify,
    /// Notified when a cleanup is done.
    pub(super) cleaned: Notify,
    /// The same signal as `cleaned`, for threads.
    pub(super) settled: Condvar,
}

/// Everything that one keeper looks after.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) leases: Leases,
    pub(super) queues: LocalQueues,
    pub(super) cleanups: Vec<Cleanup>,
    /// The releases that callers have taken on, by the times at which the keeper sends them, too.
    pub(super) taken_on: BTreeMap<(Instant, HolderId), Cleanup>,
    /// Cleanups that are queued, taken on or under way.
    pub(super) unfinished: usize,
    /// The error for which a cleanup was given up, for the caller of `close`.
    pub(super) given_up: Option<StoreError>,
    pub(super) ended: RecentlyEnded,
    /// A task drives the keeper.
    pub(super) running: bool,
    pub(super) closed: bool,
    pub(super) wants_inbox: bool,
    /// The time at which the keeper will wake next by itself.
    pub(super) planned: Instant,
    pub(super) jitter: Jitter,
}

// ---- what must still be done

/// An action that must still reach the store although nobody waits for it.
#[derive(Clone, Debug)]
pub(super) struct Cleanup {
    pub(super) name: LockName,
    pub(super) action: Action,
    /// From this instant on, the action is no longer needed: the lease or the place has ended by
    /// itself.
    pub(super) until: Instant,
    /// The notice that is published under the name, once the action is done.
    pub(super) notice: Option<String>,
}

/// The attempts that were released last, each with its token.
#[derive(Debug, Default)]
pub(super) struct RecentlyEnded(pub(super) VecDeque<(Request, FencingToken, LockName)>);

// ---- what callers have

/// A held lease. The last guard to end drops this value. The keeper then releases it, unless it was
/// released or handed out before.
pub(crate) struct Held {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) state: Arc<LeaseState>,
}

/// The release of the last lease of a queue. The next caller that asks has to send this release. If
/// this value is dropped before the release is done, or if the release is not done in time, the
/// keeper sends the release.
#[derive(Debug)]
pub(crate) struct PendingRelease {
    pub(super) keeper: Arc<Keeper>,
    /// The key of the release among those that were taken on.
    pub(super) key: (Instant, HolderId),
    pub(super) cleanup: Option<Box<Cleanup>>,
}

/// The next step of a call.
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

/// The caller asks the store on behalf of its queue, with this attempt.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) request: Request,
    /// The store may have the attempt: the former first caller has sent it.
    pub(crate) is_known: bool,
    /// The queue has just released a lease, because its slice was over.
    pub(crate) yields: bool,
    /// The release that is sent before the attempt, or together with it.
    pub(crate) release: Option<PendingRelease>,
    pub(crate) turn: oneshot::Receiver<Turn>,
}

/// The place of a caller behind other callers of its client, which may have a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    pub(crate) ahead: u32,
    pub(crate) own: Option<FencingToken>,
}

/// The message to a caller that waits: its next step, or the error with which its call fails.
pub(crate) type Turn = Result<Step, StoreError>;

/// The remains of a place that its caller gives up.
#[derive(Debug)]
pub(crate) enum Left {
    /// The caller's attempt, which nobody else looks after.
    Own { request: Request, unanswered: bool },
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
    /// The time for which a lease is passed on from caller to caller; zero if it never is.
    pub(super) slice: Duration,
    pub(super) tickets: u64,
    /// Names with a release that the keeper has not taken yet.
    pub(super) let_go: Vec<LockName>,
    /// The times by which the first caller of each line must have shown a sign of life.
    pub(super) watched: DueQueue<LockName>,
    /// The times at which the store is polled for each name.
    pub(super) polled: DueQueue<LockName>,
    /// The polls to send immediately.
    pub(super) polls: Vec<Poll>,
    /// The times at which each seat is checked, because it may be empty.
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

/// A caller that asks or waits, as registered at the keeper.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) attempt: Attempt,
    /// The channel on which its turn is sent, once.
    pub(super) turn: oneshot::Sender<Turn>,
    /// The waiter's place in the store's order, once that is known. From then on, the keeper polls
    /// for the waiter; before that, its acquire asks. So there are never two requests about a
    /// waiter at the same time.
    pub(super) sequence: Option<u64>,
    pub(super) in_flight: bool,
    /// A message announced the grant while a poll was in flight, whose answer may not include the
    /// grant.
    pub(super) is_announced: bool,
}

/// Callers that ask for the same lease: the first of them holds or asks, and the others are behind.
/// The line exists while one of them holds or asks.
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
    /// The first caller of the line asks with this attempt, or is about to draw one.
    Asking { front: Ticket, attempt: Option<HolderId>, seen: Instant },
    /// A caller has the lease.
    Held { id: HolderId, slice_until: Instant },
    /// The lease was dropped, and nobody has sent its release yet.
    LetGo,
}

/// A lease that was dropped while nobody was in line.
#[derive(Debug)]
pub(super) struct KeptForNext {
    pub(super) state: Arc<LeaseState>,
    pub(super) renewing: Renewing,
    pub(super) slice_until: Instant,
    pub(super) cleanup: Box<Cleanup>,
}

/// The places of this client in the store's queue. All of them are polled together: the store
/// passes over a waiter that has not asked for too long.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) members: BTreeSet<(u64, HolderId)>,
    pub(super) due: Instant,
    /// No poll since the last due time was answered.
    pub(super) in_flight: bool,
    pub(super) backoff: Backoff,
    /// The failures of polls since the last poll that succeeded.
    pub(super) failures: FailureStreak,
}

/// A poll for a waiter: it takes again, with the place that it has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Poll {
    pub(super) name: LockName,
    pub(super) take: Take,
}

/// The seat of callers at a store without queues. The first caller has the seat, and with it the
/// subscription, if the store has subscriptions.
pub(super) struct Seat {
    pub(super) subscription: SharedSubscription,
    /// The last poll of the caller that has the seat.
    pub(super) pulse: Arc<Pulse>,
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
