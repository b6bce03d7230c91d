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
use crate::sync::AtomicBool;

/// What guards and keeper share of one lease.
#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) options: LeaseOptions,
    pub(crate) granted_at: Instant,
    pub(crate) signal: Arc<Signal>,
    /// The start of the hold: the grant, or the last one of several names. It is empty until the
    /// caller has the lease. A lease that no caller ever had (given back, cancelled, one of several
    /// names) keeps nothing taken.
    delivered: OnceLock<Instant>,
    /// Rung when a message announces that this reader has become the writer.
    pub(crate) upgraded: Notify,
    /// A caller or the keeper has taken on its release, or it was handed out.
    finished: AtomicBool,
    /// The number of times that the lease was passed on since. The token of this guard is higher by
    /// that number.
    passed_on: PassedOn,
    changing: Mutex<Changing>,
    pub(super) observed: Mutex<Observed>,
}

/// What changes while a lease is held.
#[derive(Debug)]
struct Changing {
    /// The ttl of its renewals, and the longest that this ever was.
    ttl: Duration,
    longest_ttl: Duration,
    /// The least time that the name stays taken; zero for no longer than it is held.
    min_hold: Duration,
    /// Some copy of the acquire, or of a reclaim, was never answered and may still arrive.
    unanswered: bool,
    /// The label that others see.
    shown_label: Option<String>,
    /// The token of the grant, as the store knows it.
    token: FencingToken,
    modes: ModeChanges,
    /// The reasons why its renewals fail, since the last one that succeeded.
    failures: FailureStreak,
}

/// What the observer knows of a lease: that it was granted, and then once that it has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Observed {
    #[default]
    Nothing,
    /// The observer knows nothing yet, and the lease has ended: the caller that reports the grant
    /// reports the end, too.
    Ending(End),
    Held(Mode),
    Ended,
}

/// The keeper tells the store who holds a passed lease after that holder has had it for 100 ms.
/// Most have let go by then, and nobody asks the store for each of them.
const TELL_AFTER: Duration = Duration::from_millis(100);

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
    /// The pulse of the call, if that gathers several names.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// The attempt may stand in line with others of its client that ask for the same.
    pub(crate) joins: bool,
    /// The place of its caller in line, if it has one.
    pub(crate) ticket: Option<Ticket>,
    /// Some copy of its acquire was not answered, as far as is known.
    pub(crate) unanswered: bool,
}

/// The terms of a line: what all its callers ask for. A caller that wants anything else asks the
/// store itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    ttl: Duration,
    min_validity: Option<Duration>,
}

impl Terms {
    /// The terms of an attempt that may stand in line. Options that limit a hold, have it
    /// remembered, or leave renewals to the holder are about one grant, and keep it out.
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
    /// The lease that an attempt was granted at `now`.
    pub(super) fn new(
        attempt: Attempt,
        token: FencingToken,
        signal: Arc<Signal>,
        now: Instant,
    ) -> Self {
        let Attempt { name, id, mode, options, unanswered, .. } = attempt;
        let changing = Changing {
            ttl: options.ttl,
            longest_ttl: options.ttl,
            min_hold: options.min_hold.unwrap_or_default(),
            unanswered,
            shown_label: options.label.clone(),
            token,
            modes: ModeChanges::granted(mode),
            failures: FailureStreak::default(),
        };
        Self::of((name, id), options, changing, PassedOn::default(), signal, now)
    }

    fn of(
        (name, id): (LockName, HolderId),
        options: LeaseOptions,
        changing: Changing,
        passed_on: PassedOn,
        signal: Arc<Signal>,
        now: Instant,
    ) -> Self {
        Self {
            name,
            id,
            options,
            granted_at: now,
            signal,
            delivered: OnceLock::new(),
            upgraded: Notify::new(),
            finished: AtomicBool::new(false),
            passed_on,
            changing: Mutex::new(changing),
            observed: Mutex::default(),
        }
    }

    /// The same lease for the next caller in line; `None` when its tokens are used up, or when it
    /// is no longer what was granted.
    pub(super) fn passed_on(&self, options: LeaseOptions, now: Instant) -> Option<Self> {
        let PassedOn { times, after } = self.passed_on;
        let after = after + now.saturating_since(self.granted_at);
        let passed_on = PassedOn { times: times + 1, after };
        let changing = {
            let before = self.changing();
            before.token.passed_on(passed_on.times)?;
            if before.ttl != self.options.ttl || before.modes.was_changed() {
                return None;
            }
            Changing {
                ttl: options.ttl,
                longest_ttl: before.longest_ttl,
                min_hold: options.min_hold.unwrap_or_default(),
                unanswered: before.unanswered,
                shown_label: options.label.clone(),
                token: before.token,
                modes: before.modes,
                failures: FailureStreak::default(),
            }
        };
        let (name, signal) = (self.name.clone(), self.signal.succeeding());
        Some(Self::of((name, self.id), options, changing, passed_on, signal, now))
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock()
    }

    /// The token of this guard.
    pub(crate) fn token(&self) -> FencingToken {
        let grant = self.grant_token();
        // The default is unreachable: whether there is such a token was asked on passing the lease
        // on.
        grant.passed_on(self.passed_on.times).unwrap_or(grant)
    }

    /// The token of the grant, by which the store knows the lease.
    pub(crate) fn grant_token(&self) -> FencingToken {
        self.changing().token
    }

    /// How often the lease was passed on since the grant, and when.
    pub(crate) fn passed_on_since(&self) -> PassedOn {
        self.passed_on
    }

    /// When the store is told who has the lease, if it knows another caller as the holder.
    pub(super) fn tell_at(&self) -> Option<Instant> {
        (self.passed_on.times > 0).then(|| self.granted_at + TELL_AFTER)
    }

    /// The ttl for which the lease is renewed.
    pub(crate) fn ttl(&self) -> Duration {
        self.changing().ttl
    }

    /// The longest that a store may keep the lease without a renewal: no shorter ttl takes that
    /// back.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.changing().longest_ttl
    }

    pub(super) fn set_ttl(&self, ttl: Duration) {
        let mut changing = self.changing();
        changing.longest_ttl = changing.longest_ttl.max(ttl);
        changing.ttl = ttl;
    }

    pub(crate) fn set_min_hold(&self, least: Duration) {
        self.changing().min_hold = least;
    }

    pub(crate) fn mode(&self) -> Mode {
        self.changing().modes.mode
    }

    /// The mode as it is believed, and the change that made it so. While a reader waits to become
    /// the writer, both are as before.
    pub(super) fn mode_and_change(&self) -> (Mode, u64) {
        let modes = self.changing().modes;
        (modes.mode, modes.change)
    }

    /// The request that renews the lease.
    pub(crate) fn renewal(&self) -> RenewLease {
        let (mode, change) = self.mode_and_change();
        RenewLease::new(self.name.clone(), self.id, self.ttl(), mode).with_change(change)
    }

    /// The number with which to ask to become the writer; `None` if it is the writer already.
    pub(crate) fn begin_upgrade(&self) -> Option<u64> {
        self.changing().modes.begin_upgrade()
    }

    /// The store has made it the writer, by the request with this number. False if another was
    /// made since, of which nothing is known yet.
    pub(crate) fn upgraded(&self, number: u64, token: FencingToken) -> bool {
        let mut changing = self.changing();
        let is_last = changing.modes.upgraded(number);
        if is_last {
            changing.token = token;
        }
        is_last
    }

    /// Makes it a reader from now on, and gives the number to say so with.
    pub(crate) fn begin_downgrade(&self) -> (Mode, u64) {
        self.changing().modes.begin_downgrade()
    }

    /// As what kind of reader the change with this number must be taken back, if it must.
    pub(crate) fn give_up_change(&self, number: u64) -> Option<Mode> {
        self.changing().modes.give_up(number)
    }

    /// Notes the store's token of a hold. It is higher than that of the guard if the store made the
    /// reader the writer after that had given up. It is the token of the same lease.
    pub(super) fn note_token(&self, token: FencingToken) {
        let mut changing = self.changing();
        if changing.modes.mode.is_reader() && token > changing.token {
            changing.token = token;
        }
    }

    /// The label that others see.
    pub(super) fn shown_label(&self) -> Option<String> {
        self.changing().shown_label.clone()
    }

    /// The facts that observers learn of the lease, held in this mode.
    pub(super) fn facts(&self, mode: Mode) -> LeaseFacts<'_> {
        let (label, token) = (self.options.label.as_deref(), self.token());
        LeaseFacts { holder: self.id, name: &self.name, mode, label, token }
    }

    pub(crate) fn described(&self, label: Option<String>) {
        self.changing().shown_label = label;
    }

    /// A copy of something that grants may arrive late: the release leaves a tombstone.
    pub(super) fn expect_late_copies(&self) {
        self.changing().unanswered = true;
    }

    /// A renewal has failed. Gives for how long renewals have failed for this kind of reason: zero
    /// for the first failure alone, also while the clock stands still.
    pub(super) fn renewal_failed(&self, cause: &StoreError, now: Instant) -> Duration {
        let lasting = self.changing().failures.record(cause, now);
        lasting.map_or(Duration::ZERO, |lasting| lasting.max(Duration::from_nanos(1)))
    }

    pub(super) fn renewal_succeeded(&self) {
        self.changing().failures.end();
    }

    /// Why the lease was not renewed, if it ended because of that.
    pub(super) fn cause(&self, reason: LossReason) -> Option<StoreError> {
        let changing = self.changing();
        changing.failures.cause().filter(|_| reason == LossReason::Expired).cloned()
    }

    pub(crate) fn lost(&self, reason: LossReason) -> Error {
        Error::lost(self.name.clone(), self.token(), reason)
    }

    /// Takes on the duty to release; true for the first caller that does.
    pub(crate) fn finish(&self) -> bool {
        !self.finished.swap(true, Ordering::AcqRel)
    }

    /// The caller has the lease, and the hold counts from then.
    pub(super) fn mark_delivered(&self, from: Instant) {
        self.delivered.get_or_init(|| from);
    }

    /// The instant from which its caller's hold counts, once the caller has the lease.
    pub(super) fn held_from(&self) -> Instant {
        self.delivered.get().copied().unwrap_or(self.granted_at)
    }

    pub(crate) fn is_delivered(&self) -> bool {
        self.delivered.get().is_some()
    }

    pub(super) fn release_action(&self, now: Instant) -> Action {
        let Changing { min_hold, unanswered, .. } = *self.changing();
        let cooldown = self
            .delivered
            .get()
            .map_or(Duration::ZERO, |from| min_hold.saturating_sub(now.saturating_since(*from)));
        Action::Release { id: self.id, cooldown, unanswered }
    }
}

/// The mode in which a lease is held.
///
/// A request that was given up may still be under way when the next one is made. Each has its own
/// number, and an answer counts only while no later request was made. So the mode here is the one
/// that the store comes to, in any order in which the requests arrive there.
#[derive(Clone, Copy, Debug)]
struct ModeChanges {
    mode: Mode,
    /// The kind of reader that the lease is while it is not the writer: plain or upgradable.
    reader: Mode,
    /// The number of the change that led to the present mode.
    change: u64,
    /// The last number that was drawn for a change.
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

    /// The number with which to ask to become the writer; `None` if it is the writer already.
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
