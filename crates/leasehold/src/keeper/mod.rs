//! The keeper: renews leases, finishes releases and cancels that nobody waits for, asks on behalf
//! of waiters and hands grants to them. What peers call a watchdog is its renewing half.
//!
//! One future per client. In production the process's one background thread drives it, so that a
//! caller that blocks its runtime does not lose its lease, a guard can be dropped anywhere, and no
//! slow command stands before a renewal. With a clock that a test moves, the caller's runtime does.

mod delivery;
mod ended;
mod held;
mod jobs;
mod reclaim;
mod run;
mod table;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::model::{NOT_AFTER, POLL_INTERVAL};
use leasehold_core::renewal::Renewing;
use leasehold_core::{
    Action, ClientId, Facts, FencingToken, HolderId, LockName, LossReason, Mode, Place, StoreError,
    StoreErrorKind,
};
use tokio::sync::{Notify, watch};

pub(crate) use self::delivery::{Delivery, Pulse};
pub(crate) use self::held::{Granted, Held, LeaseState};
pub(crate) use self::jobs::{renewal_outcome, unexpected};
use self::table::Table;
pub(crate) use self::table::{Cleanup, Turn, Waiter};
use crate::background;
use crate::event::Event;
use crate::lost::Signal;
use crate::store::clocked::ClockedStore;

/// A hand-over that was entered before it was confirmed is confirmed after 100 ms, or a little less
/// where another renewal is due: a critical section that is over by then needs no confirmation, and
/// two seconds were granted. That is a script less for most hand-overs.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

/// How long closing waits for a store that does not answer: 5 s, as `connect_timeout`.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// How long whoever lets go of the last thing of a client waits until the store knows: 1 s. The
/// process may end in the next moment, and what was held would stay taken for its ttl.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Shared by a client, its locks, its guards and the future that [`Keeper::run`] gives.
pub(crate) struct Keeper {
    pub(crate) store: ClockedStore,
    pub(crate) client: ClientId,
    host: String,
    table: Mutex<Table>,
    /// How many clients and locks there are that could ask for more.
    handles: AtomicUsize,
    /// Rung when the table has something that is due sooner than the keeper will look.
    wake: Notify,
    /// Rung when a cleanup is done.
    cleaned: Notify,
    /// The same, for threads.
    settled: Condvar,
    inbox: watch::Sender<InboxState>,
}

/// Whether messages arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InboxState {
    /// Nobody has waited yet.
    Closed,
    /// It could not be opened; waiters ask, and the keeper tries again.
    Failed,
    Open,
}

impl Keeper {
    pub(crate) fn new(store: ClockedStore, client: ClientId, host: String, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            store,
            client,
            host,
            table: Mutex::new(Table::new(seed)),
            handles: AtomicUsize::new(0),
            wake: Notify::new(),
            cleaned: Notify::new(),
            settled: Condvar::new(),
            inbox: watch::Sender::new(InboxState::Closed),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this client tells of itself.
    pub(crate) fn facts(&self, label: Option<String>) -> Facts {
        Facts::new(self.host.clone(), std::process::id()).with_label(label)
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        self.store.observer.observe(event);
    }

    // ---- life

    pub(crate) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn drop_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake.notify_one();
            self.settle();
        }
    }

    /// Blocks for a moment until the store knows of all that was let go, if the keeper has a thread
    /// of its own to tell it.
    pub(crate) fn settle(&self) {
        if self.store.clock.is_driven_by_caller() || background::is_this_thread() {
            return;
        }
        let is_unsettled = |table: &mut Table| table.unfinished > 0 && table.running;
        // What is not settled by then ends by its deadline.
        drop(self.settled.wait_timeout_while(self.table(), LAST_MOMENT, is_unsettled));
    }

    pub(crate) fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    /// Sees to it that something drives this keeper.
    pub(crate) fn ensure_running(self: &Arc<Self>) -> Result<(), StoreError> {
        {
            let mut table = self.table();
            if table.running {
                return Ok(());
            }
            table.running = true;
        }
        let task = Box::pin(Arc::clone(self).run());
        background::spawn(&*self.store.clock, task).inspect_err(|_| self.table().running = false)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.table().closed
    }

    /// Ends everything that this client holds or waits for, and waits until the store knows.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<(), StoreError> {
        let (leases, waiters) = {
            let mut table = self.table();
            table.closed = true;
            (table.leases(), table.take_all_waiters())
        };
        for waiter in waiters {
            // Dropping its turn tells it.
            let cancel = Action::Cancel { id: waiter.id, unanswered: waiter.unanswered };
            self.clean(waiter.name, cancel, waiter.options.ttl);
        }
        for state in leases {
            state.signal.end(LossReason::Closed);
            if state.finish() {
                self.let_go(&state);
            }
        }
        let patience = self.store.clock.sleep_until(self.store.now() + CLOSE_PATIENCE);
        match select(std::pin::pin!(self.until_clean()), patience).await {
            Either::Left((clean, _)) => clean,
            Either::Right(_) => Err(StoreError::new(
                StoreErrorKind::Timeout,
                "the store does not answer: what was held ends by its deadline",
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

    // ---- leases

    /// Takes a lease into keeping.
    pub(crate) fn hold(self: &Arc<Self>, mut granted: Granted) -> Held {
        let now = self.store.now();
        let confirmed = granted.confirmed;
        let delivery = std::mem::replace(&mut granted.delivery, Delivery::Done);
        let clock = Arc::clone(&self.store.clock);
        let (ttl, renewal) = (granted.options.ttl, granted.options.renewal);
        let state = {
            let mut table = self.table();
            let seed = table.seed();
            let mut renewing = Renewing::new(ttl, renewal, granted.valid_until, now, seed);
            if !confirmed {
                renewing.hasten(now + CONFIRM_AFTER);
            }
            let signal = Signal::new(clock, renewing.valid_until());
            let state = Arc::new(LeaseState::new(granted, signal, now));
            let due = table.add_lease(Arc::clone(&state), renewing, delivery);
            // Revocations arrive there.
            let opens_inbox = !std::mem::replace(&mut table.wants_inbox, true);
            self.wake_by(&mut table, if opens_inbox { now } else { due });
            state
        };
        Held { keeper: Arc::clone(self), state }
    }

    /// The caller has these leases from now on; false, and none of them, if one is not kept any
    /// more. What it may hold at most counts from the grant, or the last of them, and not from when
    /// it came for them.
    fn deliver(&self, held: &[Held]) -> bool {
        let states = held.iter().map(|held| &held.state);
        let from = states.clone().map(|state| state.granted_at).max().unwrap_or_default();
        let max_hold = states.clone().find_map(|state| state.options.max_hold);
        let limit = max_hold.map(|limit| from + limit);
        {
            let mut table = self.table();
            let ids = states.clone().map(|state| state.id);
            let Some(due) = table.deliver(ids, limit) else { return false };
            states.clone().for_each(|state| state.deliver(from));
            self.wake_by(&mut table, due);
        }
        for state in states {
            if let Some(limit) = limit {
                state.signal.limit_to(limit);
            }
            let (name, token) = (&state.name, state.token());
            let waited = self.store.now().saturating_since(state.asked_at);
            self.observe(&Event::Granted { name, token, waited });
        }
        true
    }

    /// Gives back what nobody has fetched in time. The table has forgotten it already.
    fn give_back(self: &Arc<Self>, state: &LeaseState) {
        state.signal.end(LossReason::Released);
        self.tell_end(state, LossReason::Released);
        if state.finish() {
            self.let_go(state);
        }
    }

    /// Renews a lease for this long from now on.
    fn change_ttl(&self, state: &LeaseState, ttl: Duration) {
        state.set_ttl(ttl);
        let now = self.store.now();
        let mut table = self.table();
        let due = table.renewed(state.id, |renewing| {
            renewing.set_ttl(now, ttl);
            renewing.wake_at()
        });
        if let Some(due) = due {
            self.wake_by(&mut table, due);
        }
    }

    /// Takes a lease out of keeping and tells of its end. The store still has to be told.
    pub(crate) fn forget(&self, state: &LeaseState) {
        let reason = match state.signal.check() {
            Some(reason) => reason,
            None => {
                state.signal.end(LossReason::Released);
                LossReason::Released
            }
        };
        if self.table().remove_lease(state.id) {
            self.tell_end(state, reason);
        }
    }

    fn tell_end(&self, state: &LeaseState, reason: LossReason) {
        let (name, token) = (&state.name, state.token());
        let held = self.store.now().saturating_since(state.granted_at);
        if !state.is_delivered() {
            self.observe(&Event::Undelivered { name, token, held });
        } else if reason == LossReason::Released {
            self.observe(&Event::Released { name, token, held });
        } else {
            let cause = state.cause(reason);
            self.observe(&Event::Lost { name, token, reason, cause: cause.as_ref() });
        }
    }

    /// Ends a lease for a reason that was found out, and tells everybody.
    pub(crate) fn lose(&self, state: &LeaseState, reason: LossReason) {
        state.signal.end(reason);
        self.forget(state);
    }

    /// Takes a lease out of keeping, and gives the action that releases it.
    pub(crate) fn begin_release(&self, state: &LeaseState) -> Action {
        let action = state.release_action(self.store.now());
        self.table().ended.add(state.id, state.token(), &state.name);
        self.forget(state);
        action
    }

    /// Releases a lease in the background.
    pub(crate) fn let_go(self: &Arc<Self>, state: &LeaseState) {
        let (action, news) = (self.begin_release(state), self.news_of_end(state));
        self.see_to(state.name.clone(), action, state.longest_ttl(), news);
    }

    /// What those are told who watch the name without waiting in line: nothing of a lease so short
    /// that they would have looked by then, for the telling costs as much as the lease. Where there
    /// is no line, the store tells of every end itself.
    fn news_of_end(&self, state: &LeaseState) -> Option<String> {
        let held = self.store.now().saturating_since(state.granted_at);
        let is_told = self.store.inner.capabilities().queued && held >= POLL_INTERVAL;
        is_told.then(|| said_on_leaving(state.token()))
    }

    /// Tells whoever watches a name. They find out by looking as well.
    async fn tell(&self, name: &LockName, news: Option<String>) {
        if let Some(news) = news {
            drop(self.store.inner.publish(name, &news).await);
        }
    }

    // ---- cleanups

    /// Sees to it that `action` reaches the store, for as long as it matters.
    pub(crate) fn clean(self: &Arc<Self>, name: LockName, action: Action, ttl: Duration) {
        self.see_to(name, action, ttl, None);
    }

    fn see_to(
        self: &Arc<Self>,
        name: LockName,
        action: Action,
        ttl: Duration,
        news: Option<String>,
    ) {
        let until = self.store.now() + ttl.max(NOT_AFTER);
        self.table().add_cleanup(Cleanup { name, action, until, news });
        self.wake.notify_one();
        // Without a thread there is nobody to do it; the lease then ends by its deadline.
        let _ = self.ensure_running();
    }

    // ---- waiters

    /// Opens the inbox, once, and waits until messages arrive or it is known that they do not.
    pub(crate) async fn open_inbox(self: &Arc<Self>) {
        let mut state = self.inbox.subscribe();
        if *state.borrow_and_update() != InboxState::Closed {
            return;
        }
        self.table().wants_inbox = true;
        self.wake.notify_one();
        // The sender lives as long as `self`.
        let _ = state.wait_for(|state| *state != InboxState::Closed).await;
    }

    pub(crate) fn add_waiter(&self, waiter: Waiter) {
        self.table().add_waiter(waiter);
    }

    pub(crate) fn take_waiter(&self, id: HolderId) -> Option<Waiter> {
        self.table().take_waiter(id)
    }

    /// What keeps the waiters of a name from hearing anything else, if something does.
    pub(crate) fn trouble(&self, name: &LockName) -> Option<StoreError> {
        self.table().trouble(name)
    }

    /// The lease of this client without whose end nobody of it is granted `mode`, be it asked for
    /// in vain or queued.
    pub(crate) fn own_in_the_way(
        &self,
        name: &LockName,
        mode: Mode,
        is_queued: bool,
    ) -> Option<FencingToken> {
        self.table().own_in_the_way(name, mode, is_queued)
    }

    pub(crate) fn joined(&self, id: HolderId, place: Place, unanswered: bool) {
        let now = self.store.now();
        let mut table = self.table();
        if let Some(at) = table.joined(id, place, unanswered, now) {
            self.wake_by(&mut table, at);
        }
    }

    /// Wakes the keeper if it would look too late. Most leases end long before they are due for
    /// anything, so most calls of a verb wake nobody.
    fn wake_by(&self, table: &mut Table, due: leasehold_core::Instant) {
        if due < table.planned {
            table.planned = due;
            self.wake.notify_one();
        }
    }
}

/// What is told of a lease that has ended.
pub(crate) fn said_on_leaving(token: FencingToken) -> String {
    format!("left {token}")
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("client", &self.client)
            .field("store", &self.store.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
