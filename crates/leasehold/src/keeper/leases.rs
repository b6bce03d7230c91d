//! The leases in the keeper's table, and when each of them is due for some work.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher as _;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::Jitter;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::renewal::{BATCH_SLACK, Renewing, Tick};
use leasehold_core::{FencingToken, HolderId, Instant, LockName, LossReason, Mode};

use super::lease::LeaseState;
use super::polled::Polled;

/// If messages may have been lost, all leases are renewed within 1 s. For ten thousand leases, that
/// is a hundred calls.
const RENEW_ALL: Duration = Duration::from_secs(1);

/// The numbers of leases' attempts, in the order in which the leases are due.
type Due = BTreeSet<(Instant, u64)>;

/// The leases of one client, by the numbers of their attempts.
#[derive(Debug)]
pub(super) struct Leases {
    entries: HashMap<u64, KeptLease>,
    /// For each lease the hash of its name, which other names may share.
    by_name: BTreeSet<(u64, u64)>,
    due: Due,
    jitter: Jitter,
}

#[derive(Debug)]
struct KeptLease {
    state: Arc<LeaseState>,
    renewing: Renewing,
    /// If the call gathers other names with this one, when it was polled last.
    gathers: Option<Arc<Polled>>,
    /// The time at which to report the present holder to the store, if that is still to do.
    tell_at: Option<Instant>,
    due: Instant,
}

/// The work that is due for leases now. Lost leases have been removed from the table.
#[derive(Debug, Default)]
pub(super) struct DueLeases {
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
        let wake_at = self.renewing.wake_at();
        self.tell_at.map_or(wake_at, |at| at.min(wake_at))
    }

    /// Whether the caller of the lease is there: it has the lease, or it is polled.
    fn is_wanted(&self, now: Instant) -> bool {
        self.gathers.as_ref().map_or(self.state.is_delivered(), |polled| polled.is_recent(now))
    }

    /// The work that is due for the lease now. A lease that nobody wants is not renewed.
    fn tick(&mut self, now: Instant) -> Tick {
        match self.renewing.tick(now) {
            Tick::Send { .. } if !self.is_wanted(now) => {
                // It is looked at again soon.
                self.renewing.failed(now);
                Tick::Wait
            }
            tick => tick,
        }
    }

    /// Whether the client must tell the store now who has the lease.
    fn tells(&mut self, now: Instant) -> bool {
        let is_due = self.tell_at.is_some_and(|at| at <= now + BATCH_SLACK);
        if is_due {
            self.tell_at = None;
        }
        is_due
    }

    /// Moves a lease in the queue if it is due earlier now. An entry that is too early in the queue
    /// only costs one check, so it stays there. Otherwise a lease that goes from caller to caller
    /// would move each time.
    fn reschedule_earlier(&mut self, due: &mut Due) {
        if self.wake_at() < self.due {
            self.reschedule(due);
        }
    }

    fn reschedule(&mut self, due: &mut Due) {
        due.remove(&(self.due, self.state.id.attempt));
        self.due = self.wake_at();
        due.insert((self.due, self.state.id.attempt));
    }
}

impl Leases {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            entries: HashMap::new(),
            by_name: BTreeSet::new(),
            due: Due::new(),
            jitter: Jitter::new(seed),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Adds a lease, and returns when it is due.
    pub(super) fn add(
        &mut self,
        state: Arc<LeaseState>,
        renewing: Renewing,
        gathers: Option<Arc<Polled>>,
    ) -> Instant {
        let (id, tell_at) = (state.id.attempt, state.tell_at);
        let due = renewing.wake_at();
        let due = tell_at.map_or(due, |at| at.min(due));
        self.due.insert((due, id));
        self.by_name.insert((self.entries.hasher().hash_one(&state.name), id));
        self.entries.insert(id, KeptLease { state, renewing, gathers, tell_at, due });
        due
    }

    pub(super) fn get(&self, id: HolderId) -> Option<&Arc<LeaseState>> {
        self.entries.get(&id.attempt).map(|entry| &entry.state)
    }

    pub(super) fn all(&self) -> Vec<Arc<LeaseState>> {
        self.entries.values().map(|entry| Arc::clone(&entry.state)).collect()
    }

    /// Whether the table has this lease, and with this holder.
    pub(super) fn keeps(&self, state: &LeaseState) -> bool {
        self.entries.get(&state.id.attempt).is_some_and(|entry| entry.is_of(state))
    }

    /// Removes a lease and returns its renewal, if the table had it with this holder. The caller
    /// that removes a lease reports its end.
    pub(super) fn remove(&mut self, state: &LeaseState) -> Option<Renewing> {
        let entry = self.keeps(state).then(|| self.take(state.id.attempt)).flatten()?;
        self.due.remove(&(entry.due, state.id.attempt));
        Some(entry.renewing)
    }

    /// Passes a lease on to the next caller, if it has not ended. Returns the lease of that caller,
    /// and when it is due.
    pub(super) fn pass_on(
        &mut self,
        state: &LeaseState,
        now: Instant,
        next: impl FnOnce() -> Option<Arc<LeaseState>>,
    ) -> Option<(Arc<LeaseState>, Instant)> {
        let entry = self.entries.get_mut(&state.id.attempt).filter(|entry| entry.is_of(state))?;
        if entry.renewing.valid_until() <= now && !bugs::is_on(Bug::LocalHandOffTooLate) {
            return None;
        }
        entry.state = next()?;
        entry.tell_at = entry.state.tell_at;
        entry.reschedule_earlier(&mut self.due);
        Some((Arc::clone(&entry.state), entry.due))
    }

    /// Removes an entry. The caller updates the queue of due times.
    fn take(&mut self, id: u64) -> Option<KeptLease> {
        let entry = self.entries.remove(&id)?;
        self.by_name.remove(&(self.entries.hasher().hash_one(&entry.state.name), id));
        Some(entry)
    }

    /// Marks these leases as delivered to their callers, and returns when the first of them is due.
    /// If one of them is no longer in the table, none is delivered.
    pub(super) fn mark_delivered<'a>(
        &mut self,
        states: impl Iterator<Item = &'a Arc<LeaseState>> + Clone,
        limit: Option<Instant>,
    ) -> Option<Instant> {
        if !states.clone().all(|state| self.keeps(state)) {
            return None;
        }
        let mut due = Instant::from_origin(Duration::MAX);
        for state in states {
            let Some(entry) = self.entries.get_mut(&state.id.attempt) else { continue };
            entry.gathers = None;
            entry.renewing.set_renewal(entry.state.options.renewal);
            if let Some(limit) = limit {
                entry.renewing.limit_to(limit);
            }
            entry.reschedule_earlier(&mut self.due);
            due = due.min(entry.due);
        }
        Some(due)
    }

    /// Plans to tell the store at `at` who has a lease, if it still has this holder.
    pub(super) fn tell_at(&mut self, state: &LeaseState, at: Instant) {
        let entry = self.entries.get_mut(&state.id.attempt).filter(|entry| entry.is_of(state));
        if let Some(entry) = entry {
            entry.tell_at = Some(at);
            entry.reschedule_earlier(&mut self.due);
        }
    }

    /// Updates the renewal of a lease, and returns the output of `update`; `None` if the lease is
    /// no longer in the table.
    pub(super) fn update<T>(
        &mut self,
        id: HolderId,
        now: Instant,
        update: impl FnOnce(&mut Renewing) -> T,
    ) -> Option<T> {
        let entry = self.entries.get_mut(&id.attempt)?;
        let output = update(&mut entry.renewing);
        entry.state.signal.extend(now, entry.renewing.valid_until());
        entry.reschedule(&mut self.due);
        Some(output)
    }

    /// Renews every lease soon. Messages may have been lost, perhaps because the store has
    /// forgotten everything, and the renewals find that out. Of a lease that the store knows
    /// nothing of, the report of its holder finds it out.
    pub(super) fn renew_all(&mut self, now: Instant) {
        for entry in self.entries.values_mut().filter(|entry| entry.state.is_described()) {
            entry.renewing.renew_by(now + self.jitter.between(Duration::ZERO, RENEW_ALL));
            entry.reschedule(&mut self.due);
        }
    }

    /// The token of a lease that must end before a lease of `mode` is granted; the lease `own` does
    /// not count. `is_queued` says that the call is in the queue: a reader there is behind a
    /// writer, which waits for other readers.
    pub(super) fn own_in_the_way(
        &self,
        name: &LockName,
        mode: Mode,
        is_queued: bool,
        own: Option<HolderId>,
    ) -> Option<FencingToken> {
        let mut others = self.of(name).filter(|other| Some(other.id) != own);
        let blocks = mode.held_up_by(others.clone().map(|other| other.request.mode), is_queued)?;
        others.nth(blocks).map(|other| other.token())
    }

    /// The leases on one name.
    fn of(&self, name: &LockName) -> impl Iterator<Item = &Arc<LeaseState>> + Clone {
        let hash = self.entries.hasher().hash_one(name);
        let of_hash = self.by_name.range((hash, 0)..=(hash, u64::MAX));
        let states = of_hash.filter_map(|(_, id)| Some(&self.entries.get(id)?.state));
        states.filter(move |state| state.name == *name)
    }

    /// Takes out the work that is due at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> DueLeases {
        let mut due = DueLeases::default();
        // The keeper also takes leases that are due a little later, so that they share a call.
        let after = now + BATCH_SLACK + Duration::from_nanos(1);
        let later = self.due.split_off(&(after, 0));
        for (_, id) in mem::replace(&mut self.due, later) {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            match entry.tick(now) {
                Tick::Lost(reason) => {
                    due.lost.extend(self.take(id).map(|entry| (entry.state, reason)));
                    continue;
                }
                Tick::Send { timeout } => due.renewals.push((Arc::clone(&entry.state), timeout)),
                Tick::Wait => {}
            }
            if entry.tells(now) {
                due.untold.push(Arc::clone(&entry.state));
            }
            entry.reschedule(&mut self.due);
        }
        due
    }
}
