//! An attempt to get a lease, and what its guards and the keeper share of one that is held.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;

use leasehold_core::{
    Action, Error, FencingToken, HolderId, Instant, LeaseOptions, LockName, LossReason, Mode,
    PassedOn, RenewLease, Renewal, StoreError,
};
use tokio::sync::Notify;

use super::handoff::Pulse;
use crate::event::LeaseFacts;
use crate::failures::FailureStreak;
use crate::lost::{End, Signal};
use crate::mutex::Mutex;
use crate::sync::{AtomicBool, AtomicU64};

/// What guards and keeper share of one lease.
#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) options: LeaseOptions,
    pub(crate) granted_at: Instant,
    pub(crate) signal: Arc<Signal>,
    /// From when on counts what it is held for: its grant, or the last one of several names. Empty
    /// until it has come into the hands of the caller; one that never does (given back, cancelled,
    /// one of several names) keeps nothing taken.
    delivered: OnceLock<Instant>,
    /// Rung when a message announces that this reader has become the writer.
    pub(crate) upgraded: Notify,
    /// For how long it is renewed, in nanoseconds, and the longest that it ever was.
    ttl: AtomicU64,
    longest_ttl: AtomicU64,
    /// How long the name stays taken at least, in nanoseconds; zero for no longer than it is held.
    min_hold: AtomicU64,
    /// Some copy of the acquire, or of a reclaim, was never answered and may still arrive.
    unanswered: AtomicBool,
    /// The label that others see.
    shown_label: Mutex<Option<String>>,
    /// Somebody has taken on its release, or it was handed out.
    finished: AtomicBool,
    /// The token of the grant, as the store knows it.
    token: AtomicU64,
    /// How often the lease was passed on since: the token of this guard is higher by that number.
    passed_on: PassedOn,
    modes: Mutex<ModeChanges>,
    /// Why its renewals fail, since the last that did not.
    failures: Mutex<FailureStreak>,
    pub(super) observed: Mutex<Observed>,
}

/// How far the observer knows a lease: that it was granted, and then once that it has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Observed {
    #[default]
    Nothing,
    /// Nothing yet, and it has ended: the caller that reports the grant reports that, too.
    Ending(End),
    Held(Mode),
    Ended,
}

/// The keeper tells the store who holds a passed lease after that holder has had it for 100 ms.
/// Most have let go by then, and nobody asks the store for each of them.
const TELL_AFTER: Duration = Duration::from_millis(100);

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of a place in line: the caller with the lower one is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(super) u64);

/// An attempt to get a lease: what its caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) nonce: u64,
    pub(crate) mode: Mode,
    pub(crate) options: LeaseOptions,
    /// That of the call, if it gathers several names.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// It may stand in line with others of its client who ask for the same.
    pub(crate) joins: bool,
    /// The place in line of its caller, if it has one.
    pub(crate) ticket: Option<Ticket>,
    /// Some copy of its acquire was not answered, as far as is known.
    pub(crate) unanswered: bool,
}

/// What all of a line ask for. A caller that wants anything else asks the store itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    ttl: Duration,
    min_validity: Option<Duration>,
}

impl Terms {
    /// Those of an attempt that may stand in line: what limits how long something is held or
    /// remembered, or leaves renewals to its holder, is about one grant.
    pub(super) fn of(attempt: &Attempt) -> Option<Self> {
        let LeaseOptions { ttl, renewal, min_validity, max_hold, min_hold, remember, .. } =
            attempt.options;
        let joins = attempt.joins
            && attempt.mode == Mode::Exclusive
            && renewal == Renewal::Auto
            && max_hold.is_none()
            && min_hold.is_none()
            && remember.is_none();
        joins.then_some(Self { ttl, min_validity })
    }
}

impl LeaseState {
    /// What an attempt was granted at `now`.
    pub(super) fn new(
        attempt: Attempt,
        token: FencingToken,
        signal: Arc<Signal>,
        now: Instant,
    ) -> Self {
        let Attempt { name, id, mode, options, unanswered, .. } = attempt;
        Self {
            name,
            id,
            shown_label: Mutex::new(options.label.clone()),
            ttl: AtomicU64::new(nanos(options.ttl)),
            longest_ttl: AtomicU64::new(nanos(options.ttl)),
            min_hold: AtomicU64::new(nanos(options.min_hold.unwrap_or_default())),
            options,
            granted_at: now,
            signal,
            delivered: OnceLock::new(),
            upgraded: Notify::new(),
            unanswered: AtomicBool::new(unanswered),
            finished: AtomicBool::new(false),
            token: AtomicU64::new(token.get()),
            passed_on: PassedOn::default(),
            modes: Mutex::new(ModeChanges::granted(mode)),
            failures: Mutex::default(),
            observed: Mutex::default(),
        }
    }

    /// The same lease for the next caller in line; `None` when its tokens are used up, or when it
    /// is no longer what was granted.
    pub(super) fn passed_on(&self, options: LeaseOptions, now: Instant) -> Option<Self> {
        let PassedOn { times, after } = self.passed_on;
        let after = after + now.saturating_since(self.granted_at);
        let passed_on = PassedOn { times: times + 1, after };
        self.grant_token().passed_on(passed_on.times)?;
        let modes = *self.modes();
        if self.ttl() != self.options.ttl || modes.was_changed() {
            return None;
        }
        Some(Self {
            name: self.name.clone(),
            id: self.id,
            shown_label: Mutex::new(options.label.clone()),
            ttl: AtomicU64::new(nanos(options.ttl)),
            longest_ttl: AtomicU64::new(self.longest_ttl.load(Ordering::Acquire)),
            min_hold: AtomicU64::new(nanos(options.min_hold.unwrap_or_default())),
            options,
            granted_at: now,
            signal: self.signal.succeeding(),
            delivered: OnceLock::new(),
            upgraded: Notify::new(),
            unanswered: AtomicBool::new(self.unanswered.load(Ordering::Acquire)),
            finished: AtomicBool::new(false),
            token: AtomicU64::new(self.token.load(Ordering::Acquire)),
            passed_on,
            modes: Mutex::new(modes),
            failures: Mutex::default(),
            observed: Mutex::default(),
        })
    }

    /// The token of this guard.
    pub(crate) fn token(&self) -> FencingToken {
        let grant = self.grant_token();
        // Else unreachable: it was asked on passing on.
        grant.passed_on(self.passed_on.times).unwrap_or(grant)
    }

    /// The token of the grant, by which the store knows the lease.
    pub(crate) fn grant_token(&self) -> FencingToken {
        FencingToken::from_number(self.token.load(Ordering::Acquire))
            .unwrap_or(FencingToken::from_micros(0)) // unreachable: only tokens are stored
    }

    /// How often it was passed on since the grant, and when.
    pub(crate) fn passed_on_since(&self) -> PassedOn {
        self.passed_on
    }

    /// When the store is told who has it, if that knows somebody else as the holder.
    pub(super) fn tell_at(&self) -> Option<Instant> {
        (self.passed_on.times > 0).then(|| self.granted_at + TELL_AFTER)
    }

    /// For how long it is renewed.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    /// The longest that a store may keep it without a renewal: no shorter ttl takes that back.
    pub(crate) fn longest_ttl(&self) -> Duration {
        Duration::from_nanos(self.longest_ttl.load(Ordering::Acquire))
    }

    pub(super) fn set_ttl(&self, ttl: Duration) {
        self.longest_ttl.fetch_max(nanos(ttl), Ordering::AcqRel);
        self.ttl.store(nanos(ttl), Ordering::Release);
    }

    pub(crate) fn set_min_hold(&self, least: Duration) {
        self.min_hold.store(nanos(least), Ordering::Release);
    }

    fn modes(&self) -> MutexGuard<'_, ModeChanges> {
        self.modes.lock()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.modes().mode
    }

    /// What is believed of the mode, and by which change: while a reader waits to become the
    /// writer, what was so before.
    pub(super) fn mode_and_change(&self) -> (Mode, u64) {
        let modes = self.modes();
        (modes.mode, modes.change)
    }

    /// What is asked of the store to renew it.
    pub(crate) fn renewal(&self) -> RenewLease {
        let (mode, change) = self.mode_and_change();
        RenewLease::new(self.name.clone(), self.id, self.ttl(), mode).with_change(change)
    }

    /// The number with which to ask for the writer; `None` for who is the writer already.
    pub(crate) fn begin_upgrade(&self) -> Option<u64> {
        self.modes().begin_upgrade()
    }

    /// The store has made it the writer, by the request with this number. False if another was
    /// made since, of which nothing is known yet.
    pub(crate) fn upgraded(&self, number: u64, token: FencingToken) -> bool {
        let mut modes = self.modes();
        let is_last = modes.upgraded(number);
        if is_last {
            self.token.store(token.get(), Ordering::Release);
        }
        is_last
    }

    /// Makes it a reader from now on, and gives the number to say so with.
    pub(crate) fn begin_downgrade(&self) -> (Mode, u64) {
        self.modes().begin_downgrade()
    }

    /// As what kind of reader the change with this number must be taken back, if it must.
    pub(crate) fn give_up_change(&self, number: u64) -> Option<Mode> {
        self.modes().give_up(number)
    }

    /// The store's token of a hold is higher than that of its guard if it made the reader the
    /// writer after that had given up. It is the token of the same lease.
    pub(super) fn note_token(&self, token: FencingToken) {
        let modes = self.modes();
        if modes.mode.is_reader() && token > self.grant_token() {
            self.token.store(token.get(), Ordering::Release);
        }
    }

    /// The label that others see.
    pub(super) fn shown_label(&self) -> Option<String> {
        self.shown_label.lock().clone()
    }

    /// What observers learn of it, held in this mode.
    pub(super) fn facts(&self, mode: Mode) -> LeaseFacts<'_> {
        let (label, token) = (self.options.label.as_deref(), self.token());
        LeaseFacts { holder: self.id, name: &self.name, mode, label, token }
    }

    pub(crate) fn described(&self, label: Option<String>) {
        *self.shown_label.lock() = label;
    }

    /// A copy of something that grants may arrive late: the release leaves a tombstone.
    pub(super) fn expect_late_copies(&self) {
        self.unanswered.store(true, Ordering::Release);
    }

    fn failures(&self) -> MutexGuard<'_, FailureStreak> {
        self.failures.lock()
    }

    /// A renewal has failed. Gives for how long they have for this kind of reason: zero for the
    /// first, and for no other, also while the clock stands still.
    pub(super) fn renewal_failed(&self, cause: &StoreError, now: Instant) -> Duration {
        let lasting = self.failures().record(cause, now);
        lasting.map_or(Duration::ZERO, |lasting| lasting.max(Duration::from_nanos(1)))
    }

    pub(super) fn renewal_succeeded(&self) {
        self.failures().end();
    }

    /// Why it was not renewed, for a lease that ended because of that.
    pub(super) fn cause(&self, reason: LossReason) -> Option<StoreError> {
        let failures = self.failures();
        failures.cause().filter(|_| reason == LossReason::Expired).cloned()
    }

    pub(crate) fn lost(&self, reason: LossReason) -> Error {
        Error::lost(self.name.clone(), self.token(), reason)
    }

    /// Takes on the duty to release; true for the first who does.
    pub(crate) fn finish(&self) -> bool {
        !self.finished.swap(true, Ordering::AcqRel)
    }

    /// The caller has it, and what it is held for counts from then.
    pub(super) fn mark_delivered(&self, from: Instant) {
        self.delivered.get_or_init(|| from);
    }

    /// From when on counts what its caller holds it for, once that has it.
    pub(super) fn held_from(&self) -> Instant {
        self.delivered.get().copied().unwrap_or(self.granted_at)
    }

    pub(crate) fn is_delivered(&self) -> bool {
        self.delivered.get().is_some()
    }

    pub(super) fn release_action(&self, now: Instant) -> Action {
        let least = Duration::from_nanos(self.min_hold.load(Ordering::Acquire));
        let cooldown = self
            .delivered
            .get()
            .map_or(Duration::ZERO, |from| least.saturating_sub(now.saturating_since(*from)));
        let unanswered = self.unanswered.load(Ordering::Acquire);
        Action::Release { id: self.id, cooldown, unanswered }
    }
}

/// What a lease is held as.
///
/// A request that was given up may still be under way when the next one is made. Each has its own
/// number, and an answer counts only while no later request was made: so what is believed here is
/// what the store comes to, in whatever order the requests arrive there.
#[derive(Clone, Copy, Debug)]
struct ModeChanges {
    mode: Mode,
    /// What it is while it is not the writer: a reader, or an upgradable one.
    reader: Mode,
    /// The number of the change that made it so.
    change: u64,
    /// The last number that was drawn.
    drawn: u64,
}

impl ModeChanges {
    fn granted(mode: Mode) -> Self {
        let reader = if mode == Mode::Upgradable { mode } else { Mode::Shared };
        Self { mode, reader, change: 0, drawn: 0 }
    }

    /// Whether any change was asked for since the grant.
    fn was_changed(&self) -> bool {
        self.drawn > 0
    }

    /// The number with which to ask for the writer; `None` for who is the writer already.
    fn begin_upgrade(&mut self) -> Option<u64> {
        if self.mode == Mode::Exclusive {
            return None;
        }
        self.drawn += 1;
        Some(self.drawn)
    }

    /// The store has made it the writer, by the request with this number. False if another was
    /// made since, of which nothing is known yet.
    fn upgraded(&mut self, number: u64) -> bool {
        let is_last = self.drawn == number;
        if is_last {
            (self.mode, self.change) = (Mode::Exclusive, number);
        }
        is_last
    }

    /// Makes it a reader from now on, and gives the number to say so with. One that was upgradable
    /// before it became the writer is that again, and one that is upgradable is so no more.
    fn begin_downgrade(&mut self) -> (Mode, u64) {
        if self.mode == Mode::Upgradable {
            self.reader = Mode::Shared;
        }
        if self.mode != self.reader || self.drawn != self.change {
            self.drawn += 1;
            (self.mode, self.change) = (self.reader, self.drawn);
        }
        (self.mode, self.change)
    }

    /// As what kind of reader the request with this number must be taken back, now that nobody
    /// waits for its answer: not at all if it was believed, nor if a later one has taken its place.
    fn give_up(&mut self, number: u64) -> Option<Mode> {
        let gives_up = self.mode.is_reader() && self.drawn == number;
        if gives_up {
            self.change = number;
        }
        gives_up.then_some(self.mode)
    }
}
