//! The keeper of a client: it renews the leases that were handed out, passes the store's messages
//! on to the calls that wait, and finishes what was dropped. The future of each call drives its own
//! acquire.

mod cleanup;
mod gate;
mod held;
mod inbox;
mod lease;
mod leases;
mod observe;
mod polled;
mod renew;
mod run;

use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use leasehold_core::backoff::Jitter;
use leasehold_core::{
    ClientId, Error, FencingToken, HolderId, HolderInfo, Instant, LeaseOptions, LockName,
    LossReason, Mode, Result, StoreError, StoreErrorKind,
};
use tokio::sync::{Notify, SetOnce};

use self::cleanup::{Cleanup, LetGo};
use self::gate::Gates;
pub(crate) use self::gate::{Front, Turn, Waiting};
pub(crate) use self::held::Validity;
pub(crate) use self::lease::{Attempt, Held, LeaseState, Told};
use self::leases::Leases;
pub(crate) use self::polled::Polled;
use crate::background;
use crate::clock::within;
use crate::event::Event;
use crate::mutex::Mutex;
use crate::process::MadeIn;
use crate::store::clocked::ClockedStore;
use crate::sync::AtomicUsize;

/// The time for which closing waits for a store that does not answer: 5 s, the same as
/// its time to connect.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// When the last handle or guard of a client is dropped, the drop waits for the store's answers,
/// for 1 s at most. Without the wait, the process may end first, and its names would stay taken for
/// the ttl.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// A table of names or of attempts.
type Map<K, V> = std::collections::HashMap<K, V, foldhash::quality::RandomState>;

/// A client: shared by its handles, its locks, its guards and the future that drives it.
pub(crate) struct Keeper {
    made_in: MadeIn,
    pub(crate) store: ClockedStore,
    pub(crate) client: ClientId,
    /// The facts about this client that others see, except for the label.
    who: Arc<HolderInfo>,
    /// The options that each lock of this client begins with.
    pub(crate) defaults: Arc<LeaseOptions>,
    table: Mutex<Table>,
    /// The number of attempts so far.
    attempts: AtomicU64,
    seeds: AtomicU64,
    /// The number of clients and locks that could ask for more.
    handles: AtomicUsize,
    /// What renewals need was opened, or cannot be opened now.
    pub(crate) prepared: SetOnce<()>,
    /// The client wants messages.
    wants_inbox: AtomicBool,
    /// The inbox was opened, or cannot be opened now.
    listens: SetOnce<()>,
    /// Notified when the table has work that is due before the keeper wakes by itself.
    wake: Notify,
    /// Notified when a cleanup is done.
    cleaned: Notify,
    /// The same signal as `cleaned`, for threads.
    settled: Condvar,
}

/// Everything that one keeper looks after.
#[derive(Debug)]
struct Table {
    leases: Leases,
    /// The leases that were dropped and not passed on, by the numbers of their attempts. The keeper
    /// releases them, unless a caller takes them over before that.
    let_go: Map<u64, LetGo>,
    gates: Gates,
    /// The attempts of calls under way, by their numbers.
    calls: Map<u64, Arc<Attempt>>,
    cleanups: Vec<Cleanup>,
    /// Cleanups that are queued or under way.
    unfinished: usize,
    /// The error for which a cleanup was given up, for the caller of `close`.
    given_up: Option<StoreError>,
    /// A task drives the keeper.
    running: bool,
    closed: bool,
    /// The time at which the keeper will wake next by itself.
    planned: Instant,
}

impl Table {
    fn is_idle(&self) -> bool {
        self.leases.is_empty() && self.calls.is_empty() && self.unfinished == 0
    }
}

impl Keeper {
    /// The keeper of a new client. Its id and its seeds come from `random`. It passes a lease on
    /// from caller to caller for `slice`.
    pub(crate) fn new(
        store: ClockedStore,
        random: [u128; 2],
        who: HolderInfo,
        defaults: LeaseOptions,
        slice: Duration,
    ) -> Self {
        let [client, seeds] = random;
        let has_local_tokens = store.inner.capabilities().local_tokens;
        let slice = if has_local_tokens { slice } else { Duration::ZERO };
        let table = Table {
            leases: Leases::default(),
            let_go: Map::default(),
            gates: Gates::new(slice, store.inner.capabilities().queued),
            calls: Map::default(),
            cleanups: Vec::new(),
            unfinished: 0,
            given_up: None,
            running: false,
            closed: false,
            planned: Instant::default(),
        };
        let prepared = SetOnce::new_with(store.inner.prepare().is_none().then_some(()));
        Self {
            made_in: MadeIn::this(),
            store,
            client: ClientId(client),
            who: Arc::new(who),
            defaults: Arc::new(defaults),
            table: Mutex::new(table),
            attempts: AtomicU64::new(0),
            seeds: AtomicU64::new(seeds as u64),
            handles: AtomicUsize::new(0),
            prepared,
            wants_inbox: AtomicBool::new(false),
            listens: SetOnce::new(),
            wake: Notify::new(),
            cleaned: Notify::new(),
            settled: Condvar::new(),
        }
    }

    /// The identity of a new attempt.
    pub(crate) fn next_attempt(&self) -> HolderId {
        self.id(self.attempts.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn id(&self, attempt: u64) -> HolderId {
        HolderId { client: self.client, attempt }
    }

    /// A jitter that differs from that of every other call of any client.
    pub(crate) fn jitter(&self) -> Jitter {
        Jitter::new(Jitter::new(self.seeds.fetch_add(1, Ordering::Relaxed)).next_u64())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// The number of times that the table was locked.
    #[cfg(test)]
    fn table_locks(&self) -> usize {
        self.table.locked()
    }

    /// The facts about this client that others see.
    pub(crate) fn info(&self, label: Option<String>) -> Arc<HolderInfo> {
        match label {
            None => Arc::clone(&self.who),
            label => Arc::new((*self.who).clone().with_label(label)),
        }
    }

    /// Whether anybody observes this client. If not, nothing is looked up for an event.
    pub(crate) fn is_observed(&self) -> bool {
        !self.store.observers.is_empty()
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        self.store.observers.observe(event);
    }

    /// The token of a lease of this client that must end before another call of this client is
    /// granted `mode`. The lease of that call itself is `own`, if there is one. `is_queued` says
    /// that the call is in the queue: a reader there is behind a writer, which waits for other
    /// readers.
    pub(crate) fn own_in_the_way(
        &self,
        name: &LockName,
        mode: Mode,
        is_queued: bool,
        own: Option<HolderId>,
    ) -> Option<FencingToken> {
        let table = self.table();
        let mut others = table.leases.all().filter(|it| it.name == *name && Some(it.id()) != own);
        let blocks = mode.held_up_by(others.clone().map(|other| other.request.mode), is_queued)?;
        others.nth(blocks).map(|other| other.token())
    }

    // ---- handles

    /// Whether this keeper belongs to a process that this one was forked from. Its handle is then
    /// [forgotten](Self::forget_parents): it is not used, and not dropped.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.made_in.is_another()
    }

    /// Makes sure that a keeper of another process is never dropped. Returns whether this keeper
    /// belongs to another process.
    pub(crate) fn forget_parents(self: &Arc<Self>) -> bool {
        let is_of_parent = self.is_of_parent();
        if is_of_parent {
            std::mem::forget(Arc::clone(self));
        }
        is_of_parent
    }

    pub(crate) fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    // ---- running

    /// Makes sure that something drives this keeper.
    pub(crate) fn ensure_running(self: &Arc<Self>) -> Result<(), StoreError> {
        let was_running = std::mem::replace(&mut self.table().running, true);
        if was_running { Ok(()) } else { self.start() }
    }

    /// Starts the task that drives this keeper. The caller has marked the keeper as running.
    fn start(self: &Arc<Self>) -> Result<(), StoreError> {
        let task = Box::pin(Arc::clone(self).run());
        background::spawn(&*self.store.clock, task).inspect_err(|_| self.table().running = false)
    }

    /// Wakes the keeper if it would wake later than `due` by itself. Most leases end long before
    /// any work on them is due, so most calls do not wake the keeper.
    fn wake_by(&self, table: &mut Table, due: Instant) {
        if due < table.planned {
            table.planned = due;
            self.wake.notify_one();
        }
    }

    // ---- the end

    /// Blocks for a moment until the cleanups of this client are done, if the keeper has its own
    /// thread to do them. If no handle is left, tells the store to forget the client.
    pub(crate) fn settle(&self) {
        if self.store.clock.is_driven_by_caller() || background::is_this_thread() {
            return;
        }
        let is_unsettled = |table: &mut Table| table.unfinished > 0 && table.running;
        // A lease that is not released by then ends by its deadline.
        drop(self.settled.wait_timeout_while(self.table(), LAST_MOMENT, is_unsettled));
        self.forget_if_over();
    }

    /// Tells the store to forget a client that nobody can use any more. The keeper's thread drops
    /// the store, but the process may end before that.
    fn forget_if_over(&self) {
        let is_over = {
            let table = self.table();
            table.is_idle() && (table.closed || !self.has_handles())
        };
        if is_over {
            self.store.inner.forget(self.client);
        }
    }

    /// Returns [`Error::Closed`] once the client is closed.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        if self.table().closed { Err(Error::Closed) } else { Ok(()) }
    }

    /// Ends everything that this client holds or waits for, and waits until the store has released
    /// and cancelled all of that.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<(), StoreError> {
        let now = self.store.now();
        let (leases, calls, callers) = {
            let mut table = self.table();
            (table.closed, table.given_up) = (true, None);
            let callers = table.gates.close();
            // The calls may not be polled.
            let calls = std::mem::take(&mut table.calls);
            for call in calls.values() {
                table.unfinished += 1;
                table.cleanups.push(Cleanup::of(call, true, now));
            }
            self.wake.notify_one();
            (table.leases.all().cloned().collect::<Vec<_>>(), calls, callers)
        };
        // A call ends when it is told that, or when the sender of its turn is dropped.
        drop(callers);
        calls.values().for_each(|call| call.tell(Told::Ask));
        for state in leases {
            state.signal.end(LossReason::Closed);
            // Another thread may have taken on the release, but not have started it yet.
            state.finish();
            self.let_go(&state, now);
        }
        let clean = pin!(self.until_clean());
        let Some(clean) = within(&*self.store.clock, now + CLOSE_PATIENCE, clean).await else {
            let why = "the store does not answer: held leases end by their deadlines";
            return Err(StoreError::new(StoreErrorKind::Timeout, why));
        };
        self.forget_if_over();
        clean
    }

    async fn until_clean(self: &Arc<Self>) -> Result<(), StoreError> {
        loop {
            let cleaned = self.cleaned.notified();
            {
                let mut table = self.table();
                if table.unfinished == 0 {
                    return table.given_up.take().map_or(Ok(()), Err);
                }
            }
            self.ensure_running()?;
            cleaned.await;
        }
    }
}

/// A handle on a keeper, for a client or a lock that may ask for leases. While there is a handle or
/// a lease, the keeper keeps its connection.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Keeper>);

impl Handle {
    pub(crate) fn new(keeper: Arc<Keeper>) -> Self {
        keeper.handles.fetch_add(1, Ordering::AcqRel);
        Self(keeper)
    }

    /// The keeper, for a call that may ask the store.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] in a child of the process that made the client.
    pub(crate) fn here(&self) -> Result<&Arc<Keeper>> {
        if self.0.is_of_parent() { Err(Error::Forked) } else { Ok(&self.0) }
    }
}

impl Deref for Handle {
    type Target = Arc<Keeper>;

    fn deref(&self) -> &Arc<Keeper> {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.forget_parents() && self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // It was the last.
            self.0.wake.notify_one();
            self.0.settle();
        }
    }
}

debug_as!(Keeper => |it, f| {
    f.debug_tuple("Keeper").field(&it.client).field(&it.store.inner).finish()
});

#[cfg(test)]
mod tests;
