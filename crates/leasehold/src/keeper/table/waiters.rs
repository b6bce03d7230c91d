//! The acquires that wait in the store's queues, and when the store is polled for them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::POLL_INTERVAL;
use leasehold_core::{HolderId, Instant, LeaseOptions, LockName, Mode, Place, StoreError};
use tokio::sync::oneshot;

use super::due_queue::DueQueue;
use crate::failures::FailureStreak;
use crate::keeper::delivery::Pulse;
use crate::keeper::ticket::Ticket;

/// First and longest delay of a poll after one that failed: 50 ms to 1 s.
const POLL_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// When messages may have been lost, all names are polled within 20 ms.
const POLL_ALL: Duration = Duration::from_millis(20);

/// What becomes of a waiter: an `L` if it is granted.
#[derive(Debug)]
pub(crate) enum Turn<L> {
    /// It is the first of its line now: ask the store.
    Ask(Ask<L>),
    Failed(StoreError),
    /// It is not in the queue any more: join again with a new attempt.
    Gone,
    Granted(L),
}

/// The attempt with which a line asks the store, for whoever is its first from now on.
#[derive(Debug)]
pub(crate) struct Ask<L> {
    pub(crate) id: HolderId,
    pub(crate) nonce: u64,
    /// The store may know it: whoever was the first before has sent it.
    pub(crate) is_known: bool,
    /// The line has just let go of a lease, whose slice was over.
    pub(crate) yields: bool,
    pub(crate) turn: oneshot::Receiver<Turn<L>>,
}

/// An acquire that waits, as the keeper knows it.
#[derive(Debug)]
pub(crate) struct Waiter<L> {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) nonce: u64,
    pub(crate) mode: Mode,
    pub(crate) options: LeaseOptions,
    /// Where its turn is sent, once.
    pub(crate) turn: oneshot::Sender<Turn<L>>,
    /// That of the call, if it gathers several names.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// Some copy of its acquire was not answered, as far as is known.
    pub(crate) unanswered: bool,
    pub(crate) polling: Polling,
    /// It may stand in a line with others who ask for the same.
    pub(crate) joins: bool,
    /// Its place in line, if it has one.
    pub(crate) ticket: Option<Ticket>,
}

impl<L> Waiter<L> {
    /// Its place in the store's queue is known.
    pub(super) fn is_queued(&self) -> bool {
        self.polling.sequence.is_some()
    }
}

/// How far the store is asked about a waiter.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    /// Its place in the store's order, once it is known. From then on the keeper polls,
    /// and before its acquire does: there are never two requests about it at once.
    sequence: Option<u64>,
    in_flight: bool,
    /// A message announced its grant while a poll was in flight whose answer may not say so.
    is_announced: bool,
}

/// A request about a waiter, and for how long it wants the lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Poll {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) ttl: Duration,
}

/// The waiters of this client on one name. They are served in the order of their sequence numbers,
/// so a poll in the name of the first finds whatever message was lost.
#[derive(Debug)]
struct NameQueue {
    members: BTreeSet<(u64, HolderId)>,
    /// Members that may have lost their place together with one that did.
    recheck: VecDeque<HolderId>,
    due: Instant,
    in_flight: bool,
    backoff: Backoff,
    /// Why polls fail, since the last that did not.
    failures: FailureStreak,
}

/// The waiters of one client.
#[derive(Debug)]
pub(crate) struct Waiters<L> {
    by_id: HashMap<HolderId, Waiter<L>>,
    by_name: BTreeMap<LockName, NameQueue>,
    due: DueQueue<LockName>,
    /// To be sent at once.
    polls: Vec<Poll>,
    jitter: Jitter,
}

impl<L> Waiters<L> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            by_id: HashMap::new(),
            by_name: BTreeMap::new(),
            due: DueQueue::new(),
            polls: Vec::new(),
            jitter: Jitter::new(seed),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first()
    }

    pub(crate) fn add(&mut self, waiter: Waiter<L>) {
        self.by_id.insert(waiter.id, waiter);
    }

    pub(crate) fn get(&self, id: HolderId) -> Option<&Waiter<L>> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: HolderId) -> Option<&mut Waiter<L>> {
        self.by_id.get_mut(&id)
    }

    /// Takes a waiter out that is the caller's with this place in line, or without any.
    pub(crate) fn take_of(&mut self, id: HolderId, ticket: Option<Ticket>) -> Option<Waiter<L>> {
        let is_own = self.by_id.get(&id).is_some_and(|waiter| waiter.ticket == ticket);
        is_own.then(|| self.take(id)).flatten()
    }

    /// Takes a waiter out; `None` if it has had its turn.
    pub(crate) fn take(&mut self, id: HolderId) -> Option<Waiter<L>> {
        let waiter = self.by_id.remove(&id)?;
        if let Some(sequence) = waiter.polling.sequence
            && let Some(queue) = self.by_name.get_mut(&waiter.name)
        {
            queue.members.remove(&(sequence, id));
            if queue.members.is_empty() {
                self.due.remove(queue.due, waiter.name.clone());
                self.by_name.remove(&waiter.name);
            }
        }
        Some(waiter)
    }

    /// Takes out all waiters of a name that have a place in its queue.
    pub(crate) fn take_all_of(&mut self, name: &LockName) -> Vec<Waiter<L>> {
        let Some(queue) = self.by_name.get(name) else { return Vec::new() };
        let ids: Vec<_> = queue.members.iter().map(|(_, id)| *id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waiter<L>> {
        self.by_name.clear();
        self.due.clear();
        self.by_id.drain().map(|(_, waiter)| waiter).collect()
    }

    /// Notes the place of a waiter that has joined the store's queue, and gives when it or its name
    /// is polled next.
    pub(crate) fn joined(
        &mut self,
        id: HolderId,
        place: Place,
        unanswered: bool,
        now: Instant,
    ) -> Option<Instant> {
        let waiter = self.by_id.get_mut(&id)?;
        let name = waiter.name.clone();
        waiter.unanswered = unanswered;
        let before = waiter.polling.sequence.replace(place.sequence);
        let is_announced = waiter.polling.is_announced;
        let at = now + patience(place, &mut self.jitter);
        match self.by_name.get_mut(&name) {
            Some(queue) => {
                // Two callers of its line have asked with this attempt, and the store had counted
                // it as dead in between. A place that nobody has would be polled for, for ever.
                if let Some(before) = before {
                    queue.members.remove(&(before, id));
                }
                queue.members.insert((place.sequence, id));
                if at < queue.due && !queue.in_flight {
                    self.poll_at(&name, at);
                }
            }
            None => {
                let (first, longest) = POLL_BACKOFF;
                let queue = NameQueue {
                    members: BTreeSet::from([(place.sequence, id)]),
                    recheck: VecDeque::new(),
                    due: at,
                    in_flight: false,
                    backoff: Backoff::new(first, longest),
                    failures: FailureStreak::default(),
                };
                self.by_name.insert(name.clone(), queue);
                self.due.insert(at, name);
            }
        }
        if is_announced {
            self.poll(id);
            return Some(now);
        }
        Some(at)
    }

    // ---- polls

    /// Takes out the polls that are due at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Poll> {
        for name in self.due.take_due(now) {
            let Some(queue) = self.by_name.get_mut(&name) else { continue };
            queue.in_flight = true;
            let next = loop {
                match queue.recheck.pop_front() {
                    Some(id) if self.by_id.contains_key(&id) => break Some(id),
                    Some(_) => {}
                    None => break queue.members.first().map(|(_, id)| *id),
                }
            };
            // If it is polled already, the answer to that says when its name is due next.
            if let Some(id) = next {
                self.poll(id);
            }
        }
        std::mem::take(&mut self.polls)
    }

    /// Polls for a waiter, unless its acquire does or a poll for it is in flight.
    fn poll(&mut self, id: HolderId) {
        let Some(waiter) = self.by_id.get_mut(&id) else { return };
        let polling = &mut waiter.polling;
        if polling.sequence.is_none() || polling.in_flight {
            return;
        }
        (polling.in_flight, polling.is_announced) = (true, false);
        let (name, ttl) = (waiter.name.clone(), waiter.options.ttl);
        self.polls.push(Poll { name, id, ttl });
    }

    /// A message announced the grant of a waiter. It is polled for at once, or as soon as the poll
    /// that is in flight is answered.
    pub(crate) fn announced(&mut self, id: HolderId) {
        if let Some(waiter) = self.by_id.get_mut(&id) {
            waiter.polling.is_announced = true;
            self.poll(id);
        }
    }

    /// The poll for a waiter was answered, or failed.
    pub(crate) fn answered(&mut self, id: HolderId) {
        if let Some(waiter) = self.by_id.get_mut(&id) {
            waiter.polling.in_flight = false;
            if waiter.polling.is_announced {
                self.poll(id);
            }
        }
    }

    fn poll_at(&mut self, name: &LockName, at: Instant) {
        let Some(queue) = self.by_name.get_mut(name) else { return };
        self.due.remove(queue.due, name.clone());
        queue.due = at;
        queue.in_flight = false;
        self.due.insert(at, name.clone());
    }

    /// The polled member waits at this place. True if the polls before had failed.
    pub(crate) fn still_waiting(
        &mut self,
        name: &LockName,
        place: Place,
        more: bool,
        now: Instant,
    ) -> bool {
        let mut had_failed = false;
        if let Some(queue) = self.by_name.get_mut(name) {
            queue.recheck.clear();
            queue.backoff.reset();
            had_failed = queue.failures.end();
        }
        let delay = if more { Duration::ZERO } else { patience(place, &mut self.jitter) };
        self.poll_at(name, now + delay);
        had_failed
    }

    /// The polled member was granted, so the next may have been too.
    pub(crate) fn poll_next(&mut self, name: &LockName, now: Instant) {
        self.poll_at(name, now);
    }

    /// The polled member was not in the queue, so the others may not be either.
    pub(crate) fn recheck_all(&mut self, name: &LockName, now: Instant) {
        if let Some(queue) = self.by_name.get_mut(name)
            && queue.recheck.is_empty()
        {
            queue.recheck = queue.members.iter().map(|(_, id)| *id).collect();
        }
        self.poll_at(name, now);
    }

    /// The poll failed. Gives for how long polls have failed like this, if anybody still waits.
    pub(crate) fn poll_later(
        &mut self,
        name: &LockName,
        cause: &StoreError,
        now: Instant,
    ) -> Option<Duration> {
        let queue = self.by_name.get_mut(name)?;
        let lasting = queue.failures.record(cause, now).unwrap_or_default();
        let delay = queue.backoff.next_delay(&mut self.jitter);
        self.poll_at(name, now + delay);
        Some(lasting)
    }

    /// The first of those that wait for a name, as far as is known.
    pub(crate) fn first_of(&self, name: &LockName) -> Option<&Waiter<L>> {
        let (_, id) = self.by_name.get(name)?.members.first()?;
        self.get(*id)
    }

    /// Why the last poll of a name failed, if it did.
    pub(crate) fn failure(&self, name: &LockName) -> Option<StoreError> {
        self.by_name.get(name)?.failures.cause().cloned()
    }

    /// Messages may have been lost: every name is polled soon.
    pub(crate) fn poll_all(&mut self, now: Instant) {
        let idle = self.by_name.iter().filter(|(_, queue)| !queue.in_flight);
        let idle: Vec<_> = idle.map(|(name, _)| name.clone()).collect();
        for name in idle {
            let at = now + self.jitter.between(Duration::ZERO, POLL_ALL);
            self.poll_at(&name, at);
        }
    }
}

/// When a waiter is polled for again: the head when the lock may be free, the others when the store
/// says.
fn patience(place: Place, jitter: &mut Jitter) -> Duration {
    let (low, high) = match place.ahead {
        0 => (Duration::from_millis(1), Duration::from_millis(5)),
        _ if bugs::is_on(Bug::OnlyHeadIsPolled) => return Duration::from_hours(1),
        _ => return jitter.between(place.retry_after * 4 / 5, place.retry_after),
    };
    (place.retry_after + jitter.between(low, high)).min(POLL_INTERVAL)
}
