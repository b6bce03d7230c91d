//! The keeper's loop: it starts the work that is due, and each request records its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::text::show_duration;
use leasehold_core::{BoxFuture, Instant};
use tokio::task::coop::cooperative;

use super::Keeper;
use super::gate::Wakeup;
use super::inbox::Listener;
use super::lease::LeaseState;
use super::leases::DueLeases;
use crate::clock::within;
use crate::event::Event;

/// The largest number of leases that are renewed in one call; all of them are on the same shard.
const BATCH: usize = 100;

/// If the keeper is woken later than this, it reports a pause or an overload.
const STALL: Duration = Duration::from_millis(250);

/// The keeper sleeps for this time if nothing is due; it is woken when that changes.
const IDLE: Duration = Duration::from_hours(1);

/// How long a first acquire waits for what renewals need: 500 ms, like one request. If it takes
/// longer, renewals have a way around it, or the acquire fails, too.
const PREPARE_PATIENCE: Duration = Duration::from_millis(500);

/// One keeper while it runs.
struct Running {
    keeper: Arc<Keeper>,
    /// The requests that are under way.
    jobs: FuturesUnordered<BoxFuture<'static, ()>>,
    listener: Listener,
}

impl Keeper {
    /// Runs until no work is left, and no handle is left that could ask for more.
    pub(super) async fn run(self: Arc<Self>) {
        let (listener, jobs) = (Listener::new(&self), FuturesUnordered::new());
        let mut running = Running { keeper: Arc::clone(&self), jobs, listener };
        if let Some(opening) = self.store.inner.prepare() {
            let patience = self.store.now() + PREPARE_PATIENCE;
            within(&*self.store.clock, patience, opening).await;
        }
        // It is set already if there is nothing to open.
        let _ = self.prepared.set(());
        running.run().await;
    }

    /// Reports that the timer of the keeper was late.
    fn report_stall(&self, planned: Instant) {
        let late = self.store.now().saturating_since(planned);
        if late > STALL {
            let late = show_duration(late);
            let text = format!(
                "leases were renewed {late} late, because of a pause or an overload: give the \
                 process more processor time, or its leases a longer ttl"
            );
            self.observe(&Event::Warning { text: &text });
        }
    }
}

impl Running {
    /// A store may always have another message, for this client or for the inbox to skip. But
    /// tokio gives a task a limited budget for one turn, and without budget no job or timer is
    /// ever ready. So a turn begins with the jobs, and each message costs a part of the budget. An
    /// inbox that has no message gives back what it has used.
    async fn run(&mut self) {
        while let Some(next) = self.start_due() {
            let Self { keeper, jobs, listener } = self;
            let listens = listener.listens();
            let message = cooperative(listener.next());
            tokio::select! {
                biased;
                Some(()) = jobs.next() => {}
                message = message, if listens => keeper.received(message),
                () = keeper.wake.notified() => {} // the table has something that is due
                () = keeper.store.clock.sleep_until(next) => keeper.report_stall(next),
            }
        }
    }

    /// Starts the work that is due, and returns when more will be due; `None` to stop.
    fn start_due(&mut self) -> Option<Instant> {
        let (keeper, now) = (Arc::clone(&self.keeper), self.keeper.store.now());
        let (wakeups, cleanups, leases, _unused, next) = {
            let mut table = keeper.table();
            let let_go: Vec<_> = table.let_go.keys().copied().collect();
            let ended = let_go.into_iter().map(|number| keeper.end_let_go(&mut table, number));
            let wakeups: Vec<_> = ended.collect();
            let cleanups = std::mem::take(&mut table.cleanups);
            let unused = table.gates.take_due(now);
            let leases = table.leases.take_due(now);
            let is_busy = !self.jobs.is_empty() || self.listener.opening.is_some();
            if table.is_idle() && !keeper.has_handles() && !is_busy {
                table.running = false;
                return None;
            }
            let dues = [table.leases.next_due(), table.gates.next_due()];
            let next = dues.into_iter().flatten().min().unwrap_or(now + IDLE);
            table.planned = next;
            if !leases.untold.is_empty() {
                keeper.listen();
            }
            let is_wanted = keeper.wants_inbox.load(Ordering::Relaxed);
            self.listener.is_wanted = is_wanted && !table.closed;
            (wakeups, cleanups, leases, unused, next)
        };
        let DueLeases { lost, renewals, untold } = leases;
        lost.into_iter().for_each(|(state, reason)| keeper.lose(&state, reason));
        wakeups.into_iter().flatten().for_each(Wakeup::deliver);
        self.jobs.extend(cleanups.into_iter().map(|cleanup| keeper.cleanup(cleanup)));
        let shard = |state: &LeaseState| keeper.store.inner.shard(&state.name);
        let untold = batches(untold, |state| shard(state)).into_iter();
        self.jobs.extend(untold.map(|batch| keeper.tell(batch)));
        // A short time to answer cuts off no lease that has much more.
        for batch in batches(renewals, |(it, span)| (shard(it), span.as_millis().checked_ilog2())) {
            let timeout = batch.iter().map(|(_, timeout)| *timeout).min().unwrap_or_default();
            let states = batch.iter().map(|(state, _)| Arc::clone(state)).collect();
            self.jobs.push(keeper.renew(states, timeout));
        }
        Some(next)
    }
}

/// Sorts work by shards, and splits it into requests.
fn batches<T: Clone, K: Ord>(work: Vec<T>, shard: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut shards: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for item in work {
        shards.entry(shard(&item)).or_default().push(item);
    }
    shards.values().flat_map(|items| items.chunks(BATCH)).map(<[T]>::to_vec).collect()
}

impl Drop for Running {
    /// The runtime that drove a keeper may end before the keeper does: the next call then starts
    /// the keeper again.
    fn drop(&mut self) {
        self.keeper.table().running = false;
    }
}
