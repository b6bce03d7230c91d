//! What the keeper has to look after, and when. Plain data behind one mutex; no I/O, no callbacks.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backoff::{Backoff, Jitter};
use leasehold_core::model::POLL_INTERVAL;
use leasehold_core::renewal::{BATCH_SLACK, Renewing, Tick};
use leasehold_core::{
    Action, FencingToken, HolderId, Instant, LeaseOptions, LockName, LossReason, Mode, Place,
    StoreError,
};
use tokio::sync::oneshot;

use super::delivery::{Delivery, Pulse};
use super::ended::Ended;
use super::held::{Held, LeaseState};
use crate::failures::FailureStreak;

/// First and longest delay of a poll after one that failed: 50 ms to 1 s.
const POLL_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// When messages may have been lost, all leases are renewed within 1 s: ten thousand of them are a
/// hundred calls.
const RENEW_ALL: Duration = Duration::from_secs(1);

/// What a waiter is told, once.
#[derive(Debug)]
pub(crate) enum Turn {
    Failed(StoreError),
    /// It is not in the queue any more: join again with a new attempt.
    Gone,
    Granted(Held),
}

/// An acquire that waits, as the keeper knows it.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) nonce: u64,
    pub(crate) mode: Mode,
    pub(crate) options: LeaseOptions,
    pub(crate) asked_at: Instant,
    pub(crate) turn: oneshot::Sender<Turn>,
    /// That of the call, if it gathers several names.
    pub(super) pulse: Option<Arc<Pulse>>,
    /// Its place in the store's order, once the store has told it. From then on the keeper asks
    /// about it, and before its acquire does: there are never two questions about it at once.
    sequence: Option<u64>,
    /// The keeper has asked about it and has no answer yet.
    is_asked: bool,
    /// It was told of its grant while a question was out whose answer may not say so.
    is_told: bool,
    /// Some copy of its acquire was not answered, as far as is known.
    pub(super) unanswered: bool,
}

impl Waiter {
    pub(crate) fn new(
        (name, id, nonce): (LockName, HolderId, u64),
        (mode, options): (Mode, LeaseOptions),
        asked_at: Instant,
        turn: oneshot::Sender<Turn>,
        pulse: Option<Arc<Pulse>>,
    ) -> Self {
        Self {
            name,
            id,
            nonce,
            mode,
            options,
            asked_at,
            turn,
            pulse,
            sequence: None,
            is_asked: false,
            is_told: false,
            unanswered: true,
        }
    }
}

/// Something that must still reach the store although nobody waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    pub(crate) name: LockName,
    pub(crate) action: Action,
    /// From then on it does not matter any more: time has done it.
    pub(crate) until: Instant,
    /// What those are told who watch the name, once it is done.
    pub(crate) news: Option<String>,
}

#[derive(Debug)]
struct LeaseEntry {
    state: Arc<LeaseState>,
    renewing: Renewing,
    delivery: Delivery,
    due: Instant,
}

impl LeaseEntry {
    fn wake_at(&self) -> Instant {
        let wake_at = self.renewing.wake_at();
        match &self.delivery {
            Delivery::Done => wake_at,
            Delivery::Gathered(pulse) => wake_at.min(pulse.until()),
            Delivery::Waiting { until } => *until,
        }
    }

    /// What is to be done for it now.
    fn tick(&mut self, now: Instant) -> Tick {
        match self.delivery {
            Delivery::Waiting { .. } => Tick::Wait,
            Delivery::Done | Delivery::Gathered(_) => self.renewing.tick(now),
        }
    }
}

/// The waiters of this client on one name. They are served in the order of their sequence numbers,
/// so a poll in the name of the first finds whatever message was lost.
#[derive(Debug)]
struct Group {
    members: BTreeSet<(u64, HolderId)>,
    /// Members that may have lost their place together with one that did.
    suspects: VecDeque<HolderId>,
    due: Instant,
    in_flight: bool,
    backoff: Backoff,
    /// Why questions fail, since the last that did not.
    trouble: FailureStreak,
}

/// A question about a waiter: its name, its attempt, and for how long it wants the lock.
pub(super) type Poll = (LockName, HolderId, Duration);

/// The work that is due now.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) cleanups: Vec<Cleanup>,
    pub(super) lost: Vec<(Arc<LeaseState>, LossReason)>,
    pub(super) polls: Vec<Poll>,
    pub(super) renewals: Vec<(Arc<LeaseState>, Duration)>,
    /// What nobody has fetched in time.
    pub(super) unfetched: Vec<Arc<LeaseState>>,
}

#[derive(Debug)]
pub(super) struct Table {
    leases: HashMap<HolderId, LeaseEntry>,
    lease_due: BTreeSet<(Instant, HolderId)>,
    waiters: HashMap<HolderId, Waiter>,
    groups: BTreeMap<LockName, Group>,
    group_due: BTreeSet<(Instant, LockName)>,
    /// To be asked at once.
    polls: Vec<Poll>,
    cleanups: Vec<Cleanup>,
    pub(super) ended: Ended,
    /// Cleanups that are queued or under way.
    pub(super) unfinished: usize,
    /// Why a cleanup was given up, for whoever waits for all of them.
    pub(super) given_up: Option<StoreError>,
    pub(super) running: bool,
    pub(super) closed: bool,
    pub(super) wants_inbox: bool,
    /// When the keeper will look next by itself.
    pub(super) planned: Instant,
    jitter: Jitter,
}

impl Table {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            leases: HashMap::new(),
            lease_due: BTreeSet::new(),
            waiters: HashMap::new(),
            groups: BTreeMap::new(),
            group_due: BTreeSet::new(),
            polls: Vec::new(),
            cleanups: Vec::new(),
            ended: Ended::default(),
            unfinished: 0,
            given_up: None,
            running: false,
            closed: false,
            wants_inbox: false,
            planned: Instant::default(),
            jitter: Jitter::new(seed),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.leases.is_empty() && self.waiters.is_empty() && self.unfinished == 0
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let lease = self.lease_due.first().map(|(due, _)| *due);
        let group = self.group_due.first().map(|(due, _)| *due);
        lease.into_iter().chain(group).min()
    }

    pub(super) fn seed(&mut self) -> u64 {
        self.jitter.next_u64()
    }

    /// Takes out all that is due at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Due {
        let mut due = Due { cleanups: std::mem::take(&mut self.cleanups), ..Due::default() };
        self.take_due_leases(now, &mut due);
        self.take_due_polls(now, &mut due);
        due
    }

    fn take_due_leases(&mut self, now: Instant, due: &mut Due) {
        // A little ahead, so that leases that are due at almost the same time share a call.
        let later = self.lease_due.split_off(&(now + BATCH_SLACK, HolderId::MIN));
        for (_, id) in std::mem::replace(&mut self.lease_due, later) {
            let Some(entry) = self.leases.get_mut(&id) else { continue };
            if entry.delivery.until().is_some_and(|until| until <= now) {
                due.unfetched.push(Arc::clone(&entry.state));
                self.leases.remove(&id);
                continue;
            }
            match entry.tick(now) {
                Tick::Lost(reason) => {
                    due.lost.push((Arc::clone(&entry.state), reason));
                    self.leases.remove(&id);
                    continue;
                }
                Tick::Send { timeout } => due.renewals.push((Arc::clone(&entry.state), timeout)),
                Tick::Wait => {}
            }
            entry.due = entry.wake_at();
            self.lease_due.insert((entry.due, id));
        }
    }

    fn take_due_polls(&mut self, now: Instant, due: &mut Due) {
        while let Some((at, name)) = self.group_due.first().cloned()
            && at <= now
        {
            self.group_due.pop_first();
            let Some(group) = self.groups.get_mut(&name) else { continue };
            group.in_flight = true;
            let next = loop {
                match group.suspects.pop_front() {
                    Some(id) if self.waiters.contains_key(&id) => break Some(id),
                    Some(_) => {}
                    None => break group.members.first().map(|(_, id)| *id),
                }
            };
            // If it is asked about already, the answer to that says when its name is due next.
            if let Some(id) = next {
                self.ask(id);
            }
        }
        due.polls = std::mem::take(&mut self.polls);
    }

    /// Asks about a waiter, unless its acquire does or a question about it is out.
    fn ask(&mut self, id: HolderId) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        if waiter.sequence.is_none() || waiter.is_asked {
            return;
        }
        (waiter.is_asked, waiter.is_told) = (true, false);
        self.polls.push((waiter.name.clone(), id, waiter.options.ttl));
    }

    /// A waiter was told of its grant. It is asked about at once, or as soon as the question that
    /// is out is answered.
    pub(super) fn told(&mut self, id: HolderId) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.is_told = true;
            self.ask(id);
        }
    }

    /// The question about a waiter was answered, or failed.
    pub(super) fn answered(&mut self, id: HolderId) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.is_asked = false;
            if waiter.is_told {
                self.ask(id);
            }
        }
    }

    // ---- leases

    pub(super) fn add_lease(
        &mut self,
        state: Arc<LeaseState>,
        renewing: Renewing,
        delivery: Delivery,
    ) -> Instant {
        let due = renewing.wake_at();
        // What is fetched soon, as most is, is due when it would be anyway.
        let due = delivery.until().map_or(due, |until| until.min(due));
        self.lease_due.insert((due, state.id));
        self.leases.insert(state.id, LeaseEntry { state, renewing, delivery, due });
        due
    }

    /// Whoever asked for these leases has them from now on, unless one of them is not kept any
    /// more: then none is delivered. Gives when the first of them is due.
    pub(super) fn deliver(
        &mut self,
        ids: impl Iterator<Item = HolderId> + Clone,
        limit: Option<Instant>,
    ) -> Option<Instant> {
        if !ids.clone().all(|id| self.leases.contains_key(&id)) {
            return None;
        }
        let mut due = Instant::from_origin(Duration::MAX);
        for id in ids {
            let Some(entry) = self.leases.get_mut(&id) else { continue };
            entry.delivery = Delivery::Done;
            if let Some(limit) = limit {
                entry.renewing.limit_to(limit);
            }
            self.lease_due.remove(&(entry.due, id));
            entry.due = entry.wake_at();
            self.lease_due.insert((entry.due, id));
            due = due.min(entry.due);
        }
        Some(due)
    }

    pub(super) fn lease(&self, id: HolderId) -> Option<&Arc<LeaseState>> {
        self.leases.get(&id).map(|entry| &entry.state)
    }

    pub(super) fn leases(&self) -> Vec<Arc<LeaseState>> {
        self.leases.values().map(|entry| Arc::clone(&entry.state)).collect()
    }

    /// A lease that must end before one of `mode` is granted. A reader is not in the way of another
    /// but where that is queued, and so behind a writer who waits for the first.
    pub(super) fn own_in_the_way(
        &self,
        name: &LockName,
        mode: Mode,
        is_queued: bool,
    ) -> Option<FencingToken> {
        let own = || self.leases.values().map(|entry| &entry.state).filter(|own| own.name == *name);
        let held: u64 = own().map(|own| u64::from(own.mode().weight())).sum();
        let fits = held + u64::from(mode.weight()) <= u64::from(mode.capacity());
        let blocks = |held: Mode| match (held, mode) {
            (Mode::Shared, Mode::Shared | Mode::Upgradable) | (Mode::Upgradable, Mode::Shared) => {
                is_queued
            }
            (Mode::Permits { .. }, Mode::Permits { .. }) => !fits,
            _ => true,
        };
        own().find(|own| blocks(own.mode())).map(|own| own.token())
    }

    /// True if it was there: whoever removes a lease tells of its end.
    pub(super) fn remove_lease(&mut self, id: HolderId) -> bool {
        let Some(entry) = self.leases.remove(&id) else { return false };
        self.lease_due.remove(&(entry.due, id));
        true
    }

    /// Tells a lease's renewal what came of it; false if the lease is gone.
    pub(super) fn renewed<T>(
        &mut self,
        id: HolderId,
        tell: impl FnOnce(&mut Renewing) -> T,
    ) -> Option<T> {
        let entry = self.leases.get_mut(&id)?;
        let told = tell(&mut entry.renewing);
        entry.state.signal.extend(entry.renewing.valid_until());
        self.lease_due.remove(&(entry.due, id));
        entry.due = entry.wake_at();
        self.lease_due.insert((entry.due, id));
        Some(told)
    }

    /// Messages may have been lost, perhaps because the store has forgotten everything: every lease
    /// is renewed soon, which tells.
    pub(super) fn renew_all(&mut self, now: Instant) {
        for (id, entry) in &mut self.leases {
            self.lease_due.remove(&(entry.due, *id));
            entry.renewing.hasten(now + self.jitter.between(Duration::ZERO, RENEW_ALL));
            entry.due = entry.wake_at();
            self.lease_due.insert((entry.due, *id));
        }
    }

    // ---- waiters

    pub(super) fn add_waiter(&mut self, waiter: Waiter) {
        self.waiters.insert(waiter.id, waiter);
    }

    pub(super) fn waiter(&self, id: HolderId) -> Option<&Waiter> {
        self.waiters.get(&id)
    }

    /// Takes a waiter out; `None` if it has had its turn.
    pub(super) fn take_waiter(&mut self, id: HolderId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        if let Some(sequence) = waiter.sequence
            && let Some(group) = self.groups.get_mut(&waiter.name)
        {
            group.members.remove(&(sequence, id));
            if group.members.is_empty() {
                self.group_due.remove(&(group.due, waiter.name.clone()));
                self.groups.remove(&waiter.name);
            }
        }
        Some(waiter)
    }

    pub(super) fn take_waiters_of(&mut self, name: &LockName) -> Vec<Waiter> {
        let Some(group) = self.groups.get(name) else { return Vec::new() };
        let ids: Vec<_> = group.members.iter().map(|(_, id)| *id).collect();
        ids.into_iter().filter_map(|id| self.take_waiter(id)).collect()
    }

    pub(super) fn take_all_waiters(&mut self) -> Vec<Waiter> {
        self.groups.clear();
        self.group_due.clear();
        self.waiters.drain().map(|(_, waiter)| waiter).collect()
    }

    /// Notes the place of a waiter that has joined, and when it or its name is asked about next.
    pub(super) fn joined(
        &mut self,
        id: HolderId,
        place: Place,
        unanswered: bool,
        now: Instant,
    ) -> Option<Instant> {
        let waiter = self.waiters.get_mut(&id)?;
        let name = waiter.name.clone();
        waiter.unanswered = unanswered;
        waiter.sequence = Some(place.sequence);
        let is_told = waiter.is_told;
        let at = now + patience(place, &mut self.jitter);
        match self.groups.get_mut(&name) {
            Some(group) => {
                group.members.insert((place.sequence, id));
                let sooner = at < group.due && !group.in_flight;
                if sooner {
                    self.poll_at(&name, at);
                }
            }
            None => {
                let (first, longest) = POLL_BACKOFF;
                let group = Group {
                    members: BTreeSet::from([(place.sequence, id)]),
                    suspects: VecDeque::new(),
                    due: at,
                    in_flight: false,
                    backoff: Backoff::new(first, longest),
                    trouble: FailureStreak::default(),
                };
                self.groups.insert(name.clone(), group);
                self.group_due.insert((at, name));
            }
        }
        if is_told {
            self.ask(id);
            return Some(now);
        }
        Some(at)
    }

    fn poll_at(&mut self, name: &LockName, at: Instant) {
        let Some(group) = self.groups.get_mut(name) else { return };
        self.group_due.remove(&(group.due, name.clone()));
        group.due = at;
        group.in_flight = false;
        self.group_due.insert((at, name.clone()));
    }

    /// The polled member waits at this place. True if the questions before had failed.
    pub(super) fn still_waiting(
        &mut self,
        name: &LockName,
        place: Place,
        more: bool,
        now: Instant,
    ) -> bool {
        let mut had_trouble = false;
        if let Some(group) = self.groups.get_mut(name) {
            group.suspects.clear();
            group.backoff.reset();
            had_trouble = group.trouble.end();
        }
        let delay = if more { Duration::ZERO } else { patience(place, &mut self.jitter) };
        self.poll_at(name, now + delay);
        had_trouble
    }

    /// The polled member was granted, so the next may have been too.
    pub(super) fn poll_next(&mut self, name: &LockName, now: Instant) {
        self.poll_at(name, now);
    }

    /// The polled member was not in the queue, so the others may not be either.
    pub(super) fn suspect_all(&mut self, name: &LockName, now: Instant) {
        if let Some(group) = self.groups.get_mut(name)
            && group.suspects.is_empty()
        {
            group.suspects = group.members.iter().map(|(_, id)| *id).collect();
        }
        self.poll_at(name, now);
    }

    /// The poll failed. Gives for how long polls have failed like this, if anybody still waits.
    pub(super) fn poll_later(
        &mut self,
        name: &LockName,
        cause: &StoreError,
        now: Instant,
    ) -> Option<Duration> {
        let group = self.groups.get_mut(name)?;
        let lasting = group.trouble.record(cause, now).unwrap_or_default();
        let delay = group.backoff.next_delay(&mut self.jitter);
        self.poll_at(name, now + delay);
        Some(lasting)
    }

    /// Why the last poll of a name failed, if it did.
    pub(super) fn trouble(&self, name: &LockName) -> Option<StoreError> {
        self.groups.get(name)?.trouble.cause().cloned()
    }

    /// Messages may have been lost: every name is polled soon.
    pub(super) fn poll_all(&mut self, now: Instant) {
        let idle: Vec<_> = self
            .groups
            .iter()
            .filter(|(_, group)| !group.in_flight)
            .map(|(name, _)| name.clone())
            .collect();
        for name in idle {
            let at = now + self.jitter.between(Duration::ZERO, Duration::from_millis(20));
            self.poll_at(&name, at);
        }
    }

    // ---- cleanups

    pub(super) fn add_cleanup(&mut self, cleanup: Cleanup) {
        self.unfinished += 1;
        self.cleanups.push(cleanup);
    }
}

/// When a waiter asks again: the head when the lock may be free, the others when the store says.
fn patience(place: Place, jitter: &mut Jitter) -> Duration {
    let (low, high) = match place.ahead {
        0 => (Duration::from_millis(1), Duration::from_millis(5)),
        _ => return jitter.between(place.retry_after * 4 / 5, place.retry_after),
    };
    (place.retry_after + jitter.between(low, high)).min(POLL_INTERVAL)
}
