//! The life of a keeper: how it is made, driven, woken and closed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::backoff::Jitter;
use leasehold_core::{
    ClientId, Error, HolderId, HolderInfo, Instant, LeaseOptions, LossReason, Result, StoreError,
    StoreErrorKind,
};
use tokio::sync::Notify;

use super::lease::LeaseState;
use super::leases::Leases;
use super::state::{Keeper, LocalQueues, RecentlyEnded, Table};
use crate::background;
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

impl Table {
    fn new(seed: u64, slice: Duration) -> Self {
        let mut jitter = Jitter::new(seed);
        Self {
            leases: Leases::new(jitter.next_u64()),
            queues: LocalQueues::new(jitter.next_u64(), slice),
            cleanups: Vec::new(),
            taken_on: BTreeMap::new(),
            unfinished: 0,
            given_up: None,
            ended: RecentlyEnded::default(),
            running: false,
            closed: false,
            wants_inbox: false,
            planned: Instant::default(),
            jitter,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.leases.is_empty() && self.queues.asking.is_empty() && self.unfinished == 0
    }

    pub(super) fn seed(&mut self) -> u64 {
        self.jitter.next_u64()
    }
}

impl Keeper {
    /// The keeper of a new client. Its id and its seeds come from `random`.
    pub(crate) fn new(
        store: ClockedStore,
        random: [u128; 2],
        who: HolderInfo,
        defaults: LeaseOptions,
        slice: Duration,
    ) -> Self {
        let [client, seeds] = random;
        let (client, seed, other) = (ClientId(client), seeds as u64, (seeds >> 64) as u64);
        let has_local_tokens = store.inner.capabilities().local_tokens;
        let slice = if has_local_tokens { slice } else { Duration::ZERO };
        Self {
            made_in: MadeIn::this(),
            store,
            client,
            who,
            defaults,
            table: Mutex::new(Table::new(seed, slice)),
            attempts: AtomicU64::new(0),
            seeds: AtomicU64::new(other),
            handles: AtomicUsize::new(0),
            wake: Notify::new(),
            cleaned: Notify::new(),
            settled: Condvar::new(),
        }
    }

    /// The identity of a new attempt.
    pub(crate) fn next_attempt(&self) -> HolderId {
        self.id(self.attempts.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A jitter that differs from that of every other call of any client.
    pub(crate) fn jitter(&self) -> Jitter {
        Jitter::new(Jitter::new(self.seeds.fetch_add(1, Ordering::Relaxed)).next_u64())
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// The number of times that the table was locked.
    #[cfg(test)]
    pub(super) fn table_locks(&self) -> usize {
        self.table.locked()
    }

    /// The facts about this client that others see.
    pub(crate) fn info(&self, label: Option<String>) -> HolderInfo {
        self.who.clone().with_label(label)
    }

    /// The facts about the holder of this lease that others see.
    pub(super) fn info_of(&self, state: &LeaseState) -> HolderInfo {
        self.info(state.shown_label()).with_passed_on(state.passed_on_since())
    }

    pub(super) fn id(&self, attempt: u64) -> HolderId {
        HolderId { client: self.client, attempt }
    }

    /// Whether anybody observes this client. If not, nothing is looked up for an event.
    pub(crate) fn is_observed(&self) -> bool {
        !self.store.observers.is_empty()
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        self.store.observers.observe(event);
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
    pub(super) fn forget_if_over(&self) {
        let is_over = {
            let table = self.table();
            table.is_idle() && (table.closed || !self.has_handles())
        };
        if is_over {
            self.store.inner.forget(self.client);
        }
    }

    // ---- running

    /// Makes sure that something drives this keeper.
    pub(crate) fn ensure_running(self: &Arc<Self>) -> Result<(), StoreError> {
        let was_running = std::mem::replace(&mut self.table().running, true);
        if was_running { Ok(()) } else { self.start() }
    }

    /// Starts the task that drives this keeper. The caller has marked the keeper as running.
    pub(super) fn start(self: &Arc<Self>) -> Result<(), StoreError> {
        let task = Box::pin(Arc::clone(self).run());
        background::spawn(&*self.store.clock, task).inspect_err(|_| self.table().running = false)
    }

    /// Wakes the keeper if it would wake later than `due` by itself. Most leases end long before
    /// any work on them is due, so most calls do not wake the keeper.
    pub(super) fn wake_by(&self, table: &mut Table, due: Instant) {
        if due < table.planned {
            table.planned = due;
            self.wake.notify_one();
        }
    }

    /// Wakes the keeper if a line may have a new first caller. The keeper skips that caller unless
    /// it shows a sign of life.
    pub(super) fn wake_for_queues(&self, table: &mut Table) {
        if let Some(due) = table.queues.next_due() {
            self.wake_by(table, due);
        }
    }

    // ---- closing

    pub(crate) fn is_closed(&self) -> bool {
        self.table().closed
    }

    /// Returns [`Error::Closed`] once the client is closed.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Ends everything that this client holds or waits for, and waits until the store has released
    /// and cancelled all of that.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<(), StoreError> {
        let (leases, waiters, callers) = {
            let mut table = self.table();
            table.closed = true;
            let (waiters, callers, cleanups) = table.queues.take_all();
            table.cleanups.extend(cleanups);
            // The callers may not be polled.
            let taken_on = std::mem::take(&mut table.taken_on);
            table.cleanups.extend(taken_on.into_values());
            self.wake.notify_one();
            (table.leases.all(), waiters, callers)
        };
        // A call ends when the sender of its turn is dropped.
        drop(callers);
        for waiter in waiters {
            self.cancel(&waiter);
        }
        let now = self.store.now();
        for state in leases {
            state.signal.end(LossReason::Closed);
            // Another thread may have taken on the release, but not have started it yet.
            state.finish();
            self.let_go(&state, now);
        }
        let patience = self.store.clock.sleep_until(now + CLOSE_PATIENCE);
        match select(std::pin::pin!(self.until_clean()), patience).await {
            Either::Left((clean, _)) => {
                self.forget_if_over();
                clean
            }
            Either::Right(_) => Err(StoreError::new(
                StoreErrorKind::Timeout,
                "the store does not answer: held leases end by their deadlines",
            )),
        }
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
