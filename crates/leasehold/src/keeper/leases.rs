//! The leases in the keeper's table, and when each of them is due for some work.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Jitter;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::renewal::{BATCH_SLACK, Renewing};
use leasehold_core::{HolderId, Instant, LossReason};

use super::Map;
use super::lease::LeaseState;

/// If messages may have been lost, all leases are renewed within 1 s. For ten thousand leases, that
/// is a hundred calls.
const RENEW_ALL: Duration = Duration::from_secs(1);

/// Later than any lease is due.
const NEVER: Instant = Instant::from_origin(Duration::MAX);

/// The leases of one client, by the numbers of their attempts.
///
/// They are in no other order: the keeper looks at all of them when the first is due, at most once
/// per [`BATCH_SLACK`] or so. Most leases end before any work on them is due.
#[derive(Debug, Default)]
pub(super) struct Leases {
    entries: Map<u64, KeptLease>,
    /// No lease is due before this time.
    due: Instant,
}

#[derive(Debug)]
struct KeptLease {
    state: Arc<LeaseState>,
    renewing: Renewing,
    /// The time at which to report the present holder to the store, if that is still to do.
    tell_at: Option<Instant>,
}

/// The work that is due for leases now.
#[derive(Debug, Default)]
pub(super) struct DueLeases {
    /// The leases that have run out.
    pub(super) lost: Vec<(Arc<LeaseState>, LossReason)>,
    /// The leases to renew, each with the time that its renewal may take.
    pub(super) renewals: Vec<(Arc<LeaseState>, Duration)>,
    /// Leases whose present holder must now be reported to the store.
    pub(super) untold: Vec<Arc<LeaseState>>,
}

impl KeptLease {
    /// Whether this holder has the lease.
    fn is_of(&self, state: &LeaseState) -> bool {
        std::ptr::eq(&*self.state, state)
    }

    fn wake_at(&self) -> Instant {
        let dues = [self.renewing.wake_at(), self.tell_at];
        dues.into_iter().flatten().fold(self.state.signal.valid_until(), Instant::min)
    }

    /// Whether the caller of the lease is there: it has the lease, or it is polled.
    fn is_wanted(&self, now: Instant) -> bool {
        let is_polled = || self.state.gathers.as_ref().is_some_and(|call| call.is_recent(now));
        self.state.is_delivered() || is_polled()
    }

    /// If a renewal is due now, the time that it may take. A lease that nobody wants is not
    /// renewed.
    fn renewal(&mut self, now: Instant) -> Option<Duration> {
        let left = self.state.signal.renewed_until().saturating_since(now);
        let timeout = self.renewing.tick(now, left)?;
        if !self.is_wanted(now) {
            // It is looked at again soon.
            self.renewing.failed(now);
            return None;
        }
        Some(timeout)
    }

    /// Whether the client must tell the store now who has the lease.
    fn tells(&mut self, now: Instant) -> bool {
        let is_due = self.tell_at.is_some_and(|at| at <= now + BATCH_SLACK);
        if is_due {
            self.tell_at = None;
        }
        is_due
    }
}

impl Leases {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The time at which to look at the leases next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.due)
    }

    /// Adds a lease, and returns when it is due.
    pub(super) fn add(&mut self, state: Arc<LeaseState>, renewing: Renewing) -> Instant {
        let (number, tell_at) = (state.number(), state.tell_at());
        let entry = KeptLease { state, renewing, tell_at };
        let due = entry.wake_at();
        self.due = self.due.min(due);
        self.entries.insert(number, entry);
        due
    }

    pub(super) fn get(&self, id: HolderId) -> Option<&Arc<LeaseState>> {
        self.entries.get(&id.attempt).map(|entry| &entry.state)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<LeaseState>> + Clone {
        self.entries.values().map(|entry| &entry.state)
    }

    /// Whether the table has this lease, and with this holder.
    pub(super) fn keeps(&self, state: &LeaseState) -> bool {
        self.entries.get(&state.number()).is_some_and(|entry| entry.is_of(state))
    }

    /// Removes a lease and returns its renewal, if the table had it with this holder. The caller
    /// that removes a lease reports its end.
    pub(super) fn remove(&mut self, state: &LeaseState) -> Option<Renewing> {
        match self.entries.entry(state.number()) {
            Entry::Occupied(entry) if entry.get().is_of(state) => Some(entry.remove().renewing),
            Entry::Occupied(_) | Entry::Vacant(_) => None,
        }
    }

    /// Passes a lease on to the next caller, if it has not ended. Returns the lease of that caller,
    /// and when it is due.
    pub(super) fn pass_on(
        &mut self,
        state: &LeaseState,
        now: Instant,
        next: impl FnOnce() -> Option<Arc<LeaseState>>,
    ) -> Option<(Arc<LeaseState>, Instant)> {
        let entry = self.entries.get_mut(&state.number()).filter(|entry| entry.is_of(state))?;
        if entry.state.signal.valid_until() <= now && !bugs::is_on(Bug::LocalHandOffTooLate) {
            return None;
        }
        entry.state = next()?;
        entry.tell_at = entry.state.tell_at();
        self.due = self.due.min(entry.wake_at());
        Some((Arc::clone(&entry.state), self.due))
    }

    /// Marks these leases as delivered to their callers, whose holds count from `from`, and returns
    /// when the first of them is due. If one of them is no longer in the table, none is delivered.
    pub(super) fn mark_delivered<'a>(
        &mut self,
        states: impl Iterator<Item = &'a Arc<LeaseState>> + Clone,
        from: Instant,
    ) -> Option<Instant> {
        if !states.clone().all(|state| self.keeps(state)) {
            return None;
        }
        for state in states {
            let Some(entry) = self.entries.get_mut(&state.number()) else { continue };
            entry.renewing.set_renewal(entry.state.options.renewal);
            state.mark_delivered(from);
            self.due = self.due.min(entry.wake_at());
        }
        Some(self.due)
    }

    /// Plans to tell the store at `at` who has a lease, if it still has this holder.
    pub(super) fn tell_at(&mut self, state: &LeaseState, at: Instant) {
        let entry = self.entries.get_mut(&state.number()).filter(|entry| entry.is_of(state));
        if let Some(entry) = entry {
            entry.tell_at = Some(at);
            self.due = self.due.min(at);
        }
    }

    /// Updates the renewal of a lease, and returns when the lease is due; `None` if it is no longer
    /// in the table.
    pub(super) fn update(
        &mut self,
        id: HolderId,
        update: impl FnOnce(&mut Renewing),
    ) -> Option<Instant> {
        let entry = self.entries.get_mut(&id.attempt)?;
        update(&mut entry.renewing);
        let due = entry.wake_at();
        self.due = self.due.min(due);
        Some(due)
    }

    /// Renews every lease soon. Messages may have been lost, perhaps because the store has
    /// forgotten everything, and the renewals find that out. Of a lease that the store knows
    /// nothing of, the report of its holder finds it out.
    pub(super) fn renew_all(&mut self, now: Instant, mut jitter: Jitter) {
        for entry in
            self.entries.values_mut().filter(|entry| entry.state.changing().known.is_some())
        {
            entry.renewing.renew_by(now + jitter.between(Duration::ZERO, RENEW_ALL));
            self.due = self.due.min(entry.wake_at());
        }
    }

    /// Takes out the work that is due at `now`. The keeper also takes leases that are due a little
    /// later, so that they share a call.
    pub(super) fn take_due(&mut self, now: Instant) -> DueLeases {
        let (mut work, soon) = (DueLeases::default(), now + BATCH_SLACK);
        if self.due > soon {
            return work;
        }
        self.due = NEVER;
        for entry in self.entries.values_mut() {
            if entry.wake_at() <= soon {
                if let Some(reason) = entry.state.signal.overdue(now) {
                    work.lost.push((Arc::clone(&entry.state), reason));
                    // Without it, perhaps nothing is left to do: the keeper looks again at once.
                    self.due = now;
                    continue;
                }
                if let Some(timeout) = entry.renewal(now) {
                    work.renewals.push((Arc::clone(&entry.state), timeout));
                }
                if entry.tells(now) {
                    work.untold.push(Arc::clone(&entry.state));
                }
            }
            self.due = self.due.min(entry.wake_at());
        }
        work
    }
}
