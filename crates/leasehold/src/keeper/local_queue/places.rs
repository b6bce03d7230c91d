//! The places of a client in the store's queues, and when the store is polled for them.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::bugs::{self, Bug};
use leasehold_core::model::ASK_INTERVAL;
use leasehold_core::{HolderId, Instant, LockName, Place, StoreError, Take};

use crate::failures::FailureStreak;
use crate::keeper::lease::Attempt;
use crate::keeper::state::{LocalQueue, LocalQueues, Places, Poll, Waiter};

/// The first and the longest delay of a poll after one that failed: 50 ms to 1 s.
const POLL_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// If messages may have been lost, all names are polled within 20 ms.
const POLL_ALL: Duration = Duration::from_millis(20);

impl Places {
    fn new(due: Instant) -> Self {
        let (first, longest) = POLL_BACKOFF;
        Self {
            members: BTreeSet::new(),
            due,
            in_flight: false,
            backoff: Backoff::new(first, longest),
            failures: FailureStreak::default(),
        }
    }
}

impl LocalQueues {
    fn places(&mut self, name: &LockName) -> Option<&mut Places> {
        self.by_name.get_mut(name)?.places.as_deref_mut()
    }

    /// Takes a waiter out; `None` if it has had its turn.
    pub(in crate::keeper) fn take(&mut self, id: HolderId) -> Option<Waiter> {
        let waiter = self.asking.remove(&id)?;
        if let Some(sequence) = waiter.sequence {
            let name = &waiter.attempt.name;
            if let Some(queue) = self.by_name.get_mut(name)
                && let Some(places) = &mut queue.places
            {
                places.members.remove(&(sequence, id));
                if places.members.is_empty() {
                    self.polled.remove(places.due, name.clone());
                    queue.places = None;
                    if queue.is_empty() {
                        self.by_name.remove(name);
                    }
                }
            }
        }
        Some(waiter)
    }

    /// Takes out all waiters that have a place in the store's queue for a name.
    pub(in crate::keeper) fn take_all_of(&mut self, name: &LockName) -> Vec<Waiter> {
        let Some(places) = self.places(name) else { return Vec::new() };
        let ids: Vec<_> = places.members.iter().map(|(_, id)| *id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Records the place of a waiter that has joined the store's queue. A caller with this attempt
    /// was told that place. Returns when the waiter or its name is polled next.
    pub(in crate::keeper) fn queued(
        &mut self,
        attempt: &Attempt,
        place: Place,
        now: Instant,
    ) -> Option<Instant> {
        let id = attempt.request.id;
        let waiter = self.asking.get_mut(&id)?;
        let name = waiter.attempt.name.clone();
        // If the caller was skipped, the request of the next caller in line may be under way.
        let was_skipped = waiter.attempt.ticket != attempt.ticket;
        waiter.attempt.unanswered = attempt.unanswered || was_skipped && waiter.attempt.unanswered;
        let before = waiter.sequence.replace(place.sequence);
        let is_announced = waiter.is_announced;
        let at = now + patience(place, &mut self.jitter);
        let queue: &mut LocalQueue = self.by_name.entry(name.clone()).or_default();
        let places = queue.places.get_or_insert_with(|| Box::new(Places::new(at)));
        // The waiter may have an earlier place: two callers of its line asked with this attempt,
        // and in between the store counted it as dead. That place would be polled for ever.
        if let Some(before) = before {
            places.members.remove(&(before, id));
        }
        places.members.insert((place.sequence, id));
        if at <= places.due && !places.in_flight {
            self.poll_at(&name, at);
        }
        if is_announced {
            self.poll(id);
            return Some(now);
        }
        Some(at)
    }

    // ---- polls

    /// Takes out the polls that are due at `now`.
    pub(in crate::keeper) fn take_polls(&mut self, now: Instant) -> Vec<Poll> {
        for name in self.polled.take_due(now) {
            let places = self.by_name.get_mut(&name).and_then(|queue| queue.places.as_mut());
            let Some(places) = places else { continue };
            places.in_flight = true;
            let members = places.members.iter().map(|(_, id)| *id);
            let members: Vec<_> = match bugs::is_on(Bug::OnlyHeadIsPolled) {
                true => members.take(1).collect(),
                false => members.collect(),
            };
            // If a poll for a waiter is under way, its answer says when the name is due next.
            members.into_iter().for_each(|id| self.poll(id));
        }
        mem::take(&mut self.polls)
    }

    /// Polls for a waiter, unless its acquire already asks or a poll for it is in flight.
    fn poll(&mut self, id: HolderId) {
        let Some(waiter) = self.asking.get_mut(&id) else { return };
        if waiter.sequence.is_none() || waiter.in_flight {
            return;
        }
        (waiter.in_flight, waiter.is_announced) = (true, false);
        let Attempt { name, request, options, .. } = &waiter.attempt;
        let take = Take::new(request.clone(), options.ttl);
        let take = take.with_waits(true).with_place(waiter.sequence);
        self.polls.push(Poll { name: name.clone(), take });
    }

    /// Records that a message announced the grant of a waiter. The waiter is polled for
    /// immediately, or as soon as the poll in flight is answered.
    pub(in crate::keeper) fn announced(&mut self, id: HolderId) {
        if let Some(waiter) = self.asking.get_mut(&id) {
            waiter.is_announced = true;
            self.poll(id);
        }
    }

    /// Records that the poll for a waiter was answered, or failed.
    pub(in crate::keeper) fn answered(&mut self, id: HolderId) {
        if let Some(waiter) = self.asking.get_mut(&id) {
            waiter.in_flight = false;
            if waiter.is_announced {
                self.poll(id);
            }
        }
    }

    /// Plans the next polls: not later than another answer to the last polls has asked for.
    fn poll_at(&mut self, name: &LockName, at: Instant) {
        let Some(places) = self.places(name) else { return };
        let at = if mem::take(&mut places.in_flight) { at } else { at.min(places.due) };
        let before = mem::replace(&mut places.due, at);
        self.polled.remove(before, name.clone());
        self.polled.insert(at, name.clone());
    }

    /// Records that the polled waiter still waits, at this place. Returns true if the polls before
    /// had failed.
    pub(in crate::keeper) fn still_waiting(
        &mut self,
        name: &LockName,
        id: HolderId,
        place: Place,
        now: Instant,
    ) -> bool {
        let before = self.asking.get_mut(&id).map(|waiter| waiter.sequence.replace(place.sequence));
        let mut had_failed = false;
        if let Some(places) = self.places(name) {
            if let Some(before) = before.flatten().filter(|before| *before != place.sequence) {
                places.members.remove(&(before, id));
                places.members.insert((place.sequence, id));
            }
            places.backoff.reset();
            had_failed = places.failures.end();
        }
        let delay = patience(place, &mut self.jitter);
        self.poll_at(name, now + delay);
        had_failed
    }

    /// Plans the next polls: a waiter was granted or has ended, so the next one may have been
    /// granted, too.
    pub(in crate::keeper) fn poll_next(&mut self, name: &LockName, now: Instant) {
        self.poll_at(name, now);
    }

    /// Plans the next poll after a failure. Returns whether somebody still waits and the failure is
    /// news.
    pub(in crate::keeper) fn poll_later(
        &mut self,
        name: &LockName,
        cause: &StoreError,
        now: Instant,
    ) -> bool {
        let places = self.by_name.get_mut(name).and_then(|queue| queue.places.as_mut());
        let Some(places) = places else { return false };
        let is_news = places.failures.record(cause);
        let delay = places.backoff.next_delay(&mut self.jitter);
        self.poll_at(name, now + delay);
        is_news
    }

    /// The first of the waiters for a name, as far as is known.
    pub(in crate::keeper) fn first_of(&self, name: &LockName) -> Option<&Waiter> {
        let (_, id) = self.by_name.get(name)?.places.as_ref()?.members.first()?;
        self.asking.get(id)
    }

    /// The error of the last poll of a name, if that failed.
    pub(in crate::keeper) fn failure(&self, name: &LockName) -> Option<StoreError> {
        self.by_name.get(name)?.places.as_ref()?.failures.cause().cloned()
    }

    /// Polls every name soon, because messages may have been lost.
    pub(in crate::keeper) fn poll_all(&mut self, now: Instant) {
        let is_idle = |queue: &LocalQueue| {
            queue.places.as_ref().is_some_and(|places| !places.in_flight) //
        };
        let idle = self.by_name.iter().filter(|(_, queue)| is_idle(queue));
        let idle: Vec<_> = idle.map(|(name, _)| name.clone()).collect();
        for name in idle {
            let at = now + self.jitter.between(Duration::ZERO, POLL_ALL);
            self.poll_at(&name, at);
        }
    }
}

/// The delay before the next poll for a waiter. For the first in the queue, it lasts until the lock
/// may be free; for the others, as long as the store says.
fn patience(place: Place, jitter: &mut Jitter) -> Duration {
    let (low, high) = match place.ahead {
        0 => (Duration::from_millis(1), Duration::from_millis(5)),
        _ if bugs::is_on(Bug::OnlyHeadIsPolled) => return Duration::from_hours(1),
        _ => return jitter.between(place.retry_after * 4 / 5, place.retry_after),
    };
    (place.retry_after + jitter.between(low, high)).min(ASK_INTERVAL)
}
