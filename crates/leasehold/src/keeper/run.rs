//! The keeper's loop: it starts the work that is due, and each request records its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::text::show_duration;
use leasehold_core::{BoxFuture, Instant, LossReason, Message, StoreError};
use tokio::task::coop::cooperative;

use super::lease::LeaseState;
use super::leases::DueLeases;
use super::state::{Cleanup, Keeper, Poll, Seat, Table, Wakeup};
use crate::event::Event;
use crate::store::Inbox;

/// The largest number of leases that are renewed in one call; all of them are on the same shard.
const BATCH: usize = 100;

/// If the keeper is woken later than this, it reports a pause or an overload.
const STALL: Duration = Duration::from_millis(250);

/// The keeper sleeps for this time if nothing is due; it is woken when that changes.
const IDLE: Duration = Duration::from_hours(1);

/// The first and the longest delay before an inbox that could not be opened is tried again.
const INBOX_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The work that is due now.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) cleanups: Vec<Cleanup>,
    pub(super) leases: DueLeases,
    pub(super) polls: Vec<Poll>,
    /// Leases that their callers have not fetched. If such a lease was passed on to the next caller
    /// in line, the second field is the message to that next caller.
    pub(super) unfetched: Vec<(Arc<LeaseState>, Option<Wakeup>)>,
    pub(super) wakeups: Vec<Wakeup>,
    /// Empty seats, which are dropped with this value.
    _empty_seats: Vec<Seat>,
}

/// One keeper while it runs.
struct Running {
    keeper: Arc<Keeper>,
    /// The requests that are under way.
    jobs: FuturesUnordered<BoxFuture<'static, ()>>,
    listener: Listener,
}

/// The receiver for the messages of a client, once the client wants any.
struct Listener {
    keeper: Arc<Keeper>,
    inbox: Option<Box<dyn Inbox>>,
    /// An inbox that is being opened.
    opening: Option<BoxFuture<'static, Result<Box<dyn Inbox>, StoreError>>>,
    /// The time at which the next inbox is opened.
    open_at: Instant,
    backoff: Backoff,
    /// The observer has been warned that the inbox cannot be opened.
    is_warned: bool,
    is_wanted: bool,
    jitter: Jitter,
}

/// Why the keeper woke.
enum Woken {
    Message(Message),
    /// A job is done, or the table has something that is due.
    Rung,
    Timer,
}

impl Keeper {
    /// Takes out all work that is due at `now`.
    pub(super) fn take_due(self: &Arc<Self>, table: &mut Table, now: Instant) -> Due {
        let mut cleanups = std::mem::take(&mut table.cleanups);
        cleanups.extend(table.queues.take_let_go());
        cleanups.extend(table.take_overdue(now));
        let mut leases = table.leases.take_due(now);
        let mut wakeups = table.queues.skip_silent(now);
        for (state, _) in &leases.lost {
            wakeups.push(table.queues.lease_ended(state, now, false));
        }
        let mut unfetched = Vec::new();
        for state in std::mem::take(&mut leases.unfetched) {
            let passed = self.pass_on(table, &state, now).map(|(wakeup, _)| wakeup);
            if passed.is_none() {
                table.leases.remove(&state);
                wakeups.push(table.queues.lease_ended(&state, now, false));
            }
            unfetched.push((state, passed));
        }
        let polls = table.queues.take_polls(now);
        let _empty_seats = table.queues.take_empty_seats(now);
        Due { cleanups, leases, polls, unfetched, wakeups, _empty_seats }
    }

    /// Runs until no work is left, and no handle is left that could ask for more.
    pub(super) async fn run(self: Arc<Self>) {
        let listener = Listener::new(&self);
        let jobs = FuturesUnordered::new();
        Running { keeper: self, jobs, listener }.run().await;
    }
}

impl Running {
    async fn run(&mut self) {
        while let Some(next) = self.start_due() {
            match self.woken(next).await {
                Woken::Message(message) => self.message(message),
                Woken::Rung => {}
                Woken::Timer => {
                    let late = self.keeper.store.now().saturating_since(next);
                    if late > STALL {
                        let late = show_duration(late);
                        let text = format!(
                            "leases were renewed {late} late, because of a pause or an overload: \
                             give the process more processor time, or its leases a longer ttl"
                        );
                        self.keeper.observe(&Event::Warning { text: &text });
                    }
                }
            }
        }
    }

    /// Starts the work that is due, and returns when more will be due; `None` to stop.
    fn start_due(&mut self) -> Option<Instant> {
        let now = self.keeper.store.now();
        let (due, next) = {
            let mut table = self.keeper.table();
            let due = self.keeper.take_due(&mut table, now);
            let is_busy = !self.jobs.is_empty() || self.listener.opening.is_some();
            if table.is_idle() && !self.keeper.has_handles() && !is_busy {
                table.running = false;
                return None;
            }
            let dues = [table.leases.next_due(), table.queues.next_due(), table.overdue_at()];
            let next = dues.into_iter().flatten().min().unwrap_or(now + IDLE);
            table.planned = next;
            self.listener.is_wanted = table.wants_inbox && !table.closed;
            (due, next)
        };
        self.start(due, now);
        Some(next)
    }

    fn start(&mut self, due: Due, now: Instant) {
        for (state, reason) in due.leases.lost {
            // The lease is no longer in the table, so nobody else reports its end.
            self.keeper.report_end(&state, state.signal.end(reason), now);
        }
        for (state, next) in due.unfetched {
            self.keeper.give_back(&state, next, now);
        }
        due.wakeups.into_iter().for_each(Wakeup::deliver);
        for cleanup in due.cleanups {
            self.jobs.push(self.keeper.cleanup(cleanup));
        }
        for poll in due.polls {
            self.jobs.push(self.keeper.poll(poll));
        }
        let shard = |state: &LeaseState| self.keeper.store.inner.shard(&state.name);
        for batch in batches(due.leases.untold, |state| shard(state)) {
            self.jobs.push(self.keeper.tell(batch));
        }
        for batch in batches(due.leases.renewals, |(state, _)| shard(state)) {
            let timeout = batch.iter().map(|(_, timeout)| *timeout).min().unwrap_or_default();
            let states = batch.iter().map(|(state, _)| Arc::clone(state)).collect();
            self.jobs.push(self.keeper.renew(states, timeout));
        }
    }

    /// Waits for the next event.
    ///
    /// A store may always have another message, for this client or for the inbox to skip. But
    /// tokio gives a task a limited budget for one turn, and without budget no job or timer is
    /// ever ready. So a turn begins with the jobs, and each message costs a part of the budget. An
    /// inbox that has no message gives back what it has used.
    async fn woken(&mut self, next: Instant) -> Woken {
        let Self { keeper, jobs, listener } = self;
        let listens = listener.listens();
        let message = cooperative(listener.next());
        tokio::select! {
            biased;
            Some(()) = jobs.next() => Woken::Rung,
            message = message, if listens => Woken::Message(message),
            () = keeper.wake.notified() => Woken::Rung,
            () = keeper.store.clock.sleep_until(next) => Woken::Timer,
        }
    }

    fn message(&mut self, message: Message) {
        let keeper = &self.keeper;
        match message {
            Message::Granted { attempt, token, now_us } => {
                keeper.announced(keeper.id(attempt), token, now_us);
            }
            Message::Revoked { attempt, .. } => {
                let id = keeper.id(attempt);
                let state = {
                    let mut table = keeper.table();
                    table.queues.end_kept(id);
                    table.leases.get(id).cloned()
                };
                if let Some(state) = state {
                    keeper.lose(&state, LossReason::Revoked);
                }
            }
            // A gap, or a message that only a newer version of leasehold understands. It may be
            // about anything.
            _ => {
                let now = keeper.store.now();
                let mut table = keeper.table();
                if !bugs::is_on(Bug::NoPollAfterGap) {
                    table.queues.poll_all(now);
                }
                table.leases.renew_all(now);
            }
        }
    }
}

/// Sorts work by shards, and splits it into requests.
fn batches<T: Clone>(work: Vec<T>, shard: impl Fn(&T) -> u64) -> Vec<Vec<T>> {
    let mut shards: BTreeMap<u64, Vec<T>> = BTreeMap::new();
    for item in work {
        shards.entry(shard(&item)).or_default().push(item);
    }
    shards.values().flat_map(|items| items.chunks(BATCH)).map(<[T]>::to_vec).collect()
}

impl Listener {
    fn new(keeper: &Arc<Keeper>) -> Self {
        let (first, longest) = INBOX_BACKOFF;
        Self {
            keeper: Arc::clone(keeper),
            inbox: None,
            opening: None,
            open_at: Instant::default(),
            backoff: Backoff::new(first, longest),
            is_warned: false,
            is_wanted: false,
            jitter: Jitter::new(keeper.table().seed()),
        }
    }

    fn listens(&self) -> bool {
        self.is_wanted || self.inbox.is_some() || self.opening.is_some()
    }

    /// The next message. A new inbox begins with a gap, because a waiter that joined before the
    /// inbox was open may have been granted. Dropping the future loses nothing.
    async fn next(&mut self) -> Message {
        loop {
            if let Some(inbox) = &mut self.inbox {
                return inbox.next().await;
            }
            if self.open().await && !bugs::is_on(Bug::SubscribesAfterJoining) {
                return Message::Gap;
            }
        }
    }

    /// Opens the inbox, and returns whether it is open.
    async fn open(&mut self) -> bool {
        let keeper = &self.keeper;
        if self.opening.is_none() {
            keeper.store.clock.sleep_until(self.open_at).await;
        }
        let opening = self.opening.get_or_insert_with(|| {
            let keeper = Arc::clone(keeper);
            Box::pin(async move { keeper.store.inner.inbox(keeper.client).await })
        });
        let opened = opening.await;
        self.opening = None;
        match opened {
            Ok(inbox) => {
                self.inbox = Some(inbox);
                self.backoff.reset();
                self.is_warned = false;
                // The client may have ended meanwhile. The new inbox has registered it at the store
                // again, so the store must forget it again.
                keeper.forget_if_over();
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_warned, true) {
                    let text = format!("no messages from the store, waiters only ask: {error}");
                    keeper.observe(&Event::Warning { text: &text });
                }
                self.open_at = keeper.store.now() + self.backoff.next_delay(&mut self.jitter);
                false
            }
        }
    }
}

impl Drop for Running {
    /// The runtime that drove a keeper may end before the keeper does: the next call then starts
    /// the keeper again.
    fn drop(&mut self) {
        self.keeper.table().running = false;
    }
}
