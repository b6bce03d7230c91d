//! One held lease, shared by its guards; letting go of the last of them releases it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_core::{
    Action, Error, FencingToken, HolderId, Instant, LeaseOptions, LockName, LossReason, Mode,
    RenewLease, Reply, Result, StoreError,
};
use tokio::sync::Notify;

use super::{Delivery, Keeper, renewal_outcome, unexpected};
use crate::failures::FailureStreak;
use crate::lost::Signal;
use crate::store::clocked::TimedAnswer;

/// What guards and keeper share of one lease.
#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) options: LeaseOptions,
    pub(crate) granted_at: Instant,
    pub(crate) signal: Arc<Signal>,
    /// When the verb was called.
    pub(super) asked_at: Instant,
    /// From when on counts what it is held for: its grant, or the last one of several names. Empty
    /// until it has come into the hands of the caller; one that never does (given back, cancelled,
    /// one of several names) keeps nothing taken.
    delivered: OnceLock<Instant>,
    /// Rung when the store says that this reader has become the writer.
    pub(crate) upgraded: Notify,
    /// For how long it is renewed, in nanoseconds, and the longest that it ever was.
    ttl: AtomicU64,
    longest_ttl: AtomicU64,
    /// Some copy of the acquire, or of a reclaim, was never answered and may still arrive.
    unanswered: AtomicBool,
    /// What it says of itself to others.
    label: Mutex<Option<String>>,
    /// Somebody has taken on its release, or it was handed out.
    finished: AtomicBool,
    token: AtomicU64,
    modes: Mutex<Modes>,
    /// Why its renewals fail, since the last that did not.
    trouble: Mutex<FailureStreak>,
}

/// What a lease is, and the order of the changes of its mode.
///
/// A request that was given up may still be under way when the next one is made. Each has a number
/// of its own, and an answer counts only while no later one was asked for: so what is believed here
/// is what the store comes to, in whatever order the requests arrive there.
#[derive(Clone, Copy, Debug)]
struct Modes {
    mode: Mode,
    /// What it is while it is not the writer: a reader, or an upgradable one.
    reader: Mode,
    /// The number of the change that made it so.
    change: u64,
    /// The last number that was drawn.
    drawn: u64,
}

impl Modes {
    fn granted(mode: Mode) -> Self {
        let reader = if mode == Mode::Upgradable { mode } else { Mode::Shared };
        Self { mode, reader, change: 0, drawn: 0 }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A grant, on its way to become a [`Held`].
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) mode: Mode,
    pub(crate) options: LeaseOptions,
    pub(crate) unanswered: bool,
    pub(crate) token: FencingToken,
    pub(crate) valid_until: Instant,
    /// False for a hand-over that is entered before the store has confirmed it.
    pub(crate) confirmed: bool,
    /// When the verb was called, for whoever counts.
    pub(crate) asked_at: Instant,
    pub(crate) delivery: Delivery,
}

impl LeaseState {
    pub(super) fn new(granted: Granted, signal: Arc<Signal>, now: Instant) -> Self {
        Self {
            name: granted.name,
            id: granted.id,
            label: Mutex::new(granted.options.label.clone()),
            ttl: AtomicU64::new(nanos(granted.options.ttl)),
            longest_ttl: AtomicU64::new(nanos(granted.options.ttl)),
            options: granted.options,
            granted_at: now,
            signal,
            asked_at: granted.asked_at,
            delivered: OnceLock::new(),
            upgraded: Notify::new(),
            unanswered: AtomicBool::new(granted.unanswered),
            finished: AtomicBool::new(false),
            token: AtomicU64::new(granted.token.get()),
            modes: Mutex::new(Modes::granted(granted.mode)),
            trouble: Mutex::default(),
        }
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::from_number(self.token.load(Ordering::Acquire))
            .unwrap_or(FencingToken::at_us(0)) // unreachable: only tokens are stored
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

    fn modes(&self) -> MutexGuard<'_, Modes> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.modes().mode
    }

    /// What is believed of the mode, and by which change: while a reader waits to become the
    /// writer, what was so before.
    pub(super) fn believed(&self) -> (Mode, u64) {
        let modes = self.modes();
        (modes.mode, modes.change)
    }

    /// What is asked of the store to renew it.
    pub(crate) fn renewal(&self) -> RenewLease {
        let (mode, change) = self.believed();
        RenewLease::new(self.name.clone(), self.id, self.ttl(), mode).with_change(change)
    }

    /// The number with which to ask for the writer; `None` for who is the writer already.
    pub(crate) fn begin_upgrade(&self) -> Option<u64> {
        let mut modes = self.modes();
        if modes.mode == Mode::Exclusive {
            return None;
        }
        modes.drawn += 1;
        Some(modes.drawn)
    }

    /// The store has made it the writer, by the request with this number. False if another was
    /// made since, of which nothing is known yet.
    pub(crate) fn upgraded(&self, number: u64, token: FencingToken) -> bool {
        let mut modes = self.modes();
        let is_last = modes.drawn == number;
        if is_last {
            self.token.store(token.get(), Ordering::Release);
            (modes.mode, modes.change) = (Mode::Exclusive, number);
        }
        is_last
    }

    /// Makes it a reader from now on, and gives the number to say so with. One that was upgradable
    /// before it became the writer is that again, and one that is upgradable is so no more.
    pub(crate) fn begin_downgrade(&self) -> (Mode, u64) {
        let mut modes = self.modes();
        if modes.mode == Mode::Upgradable {
            modes.reader = Mode::Shared;
        }
        if modes.mode != modes.reader || modes.drawn != modes.change {
            modes.drawn += 1;
            (modes.mode, modes.change) = (modes.reader, modes.drawn);
        }
        (modes.mode, modes.change)
    }

    /// As what kind of reader the request with this number must be taken back, now that nobody
    /// waits for its answer: not at all if it was believed, nor if a later one has taken its place.
    pub(crate) fn gives_up(&self, number: u64) -> Option<Mode> {
        let mut modes = self.modes();
        let gives_up = modes.mode.is_reader() && modes.drawn == number;
        if gives_up {
            modes.change = number;
        }
        gives_up.then_some(modes.mode)
    }

    /// The store's token of a hold is higher than that of its guard if it made the reader the
    /// writer after that had given up. It is the token of the same lease.
    pub(super) fn saw(&self, token: FencingToken) {
        let modes = self.modes();
        if modes.mode.is_reader() && token > self.token() {
            self.token.store(token.get(), Ordering::Release);
        }
    }

    pub(super) fn label(&self) -> Option<String> {
        self.label.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn described(&self, label: Option<String>) {
        *self.label.lock().unwrap_or_else(PoisonError::into_inner) = label;
    }

    /// A copy of something that grants may arrive late: the release leaves a tombstone.
    pub(super) fn expect_late_copies(&self) {
        self.unanswered.store(true, Ordering::Release);
    }

    fn trouble(&self) -> MutexGuard<'_, FailureStreak> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A renewal has failed. True if that was for another kind of reason than the one before.
    pub(super) fn note_trouble(&self, cause: &StoreError, now: Instant) -> bool {
        self.trouble().record(cause, now).is_none()
    }

    pub(super) fn end_trouble(&self) {
        self.trouble().end();
    }

    /// Why it was not renewed, for a lease that ended because of that.
    pub(super) fn cause(&self, reason: LossReason) -> Option<StoreError> {
        let trouble = self.trouble();
        trouble.cause().filter(|_| reason == LossReason::Expired).cloned()
    }

    pub(crate) fn lost(&self, reason: LossReason) -> Error {
        Error::lost(self.name.clone(), self.token(), reason)
    }

    /// Takes on the duty to release; true for the first who does.
    pub(crate) fn finish(&self) -> bool {
        !self.finished.swap(true, Ordering::AcqRel)
    }

    /// The caller has it, and it counts from then.
    pub(super) fn deliver(&self, from: Instant) {
        self.delivered.get_or_init(|| from);
    }

    pub(super) fn is_delivered(&self) -> bool {
        self.delivered.get().is_some()
    }

    pub(super) fn release_action(&self, now: Instant) -> Action {
        let keep = match (self.delivered.get(), self.options.min_hold) {
            (Some(from), Some(least)) => least.saturating_sub(now.saturating_since(*from)),
            (Some(_), None) | (None, _) => Duration::ZERO,
        };
        let unanswered = self.unanswered.load(Ordering::Acquire);
        Action::Release { id: self.id, keep, unanswered }
    }
}

/// A held lease. The last guard that lets go drops it, and its release is handed to the keeper
/// unless it was released or handed out before.
pub(crate) struct Held {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) state: Arc<LeaseState>,
}

impl Held {
    /// The caller has all of these from now on; false, and none, if one was given back or has
    /// ended before.
    pub(crate) fn deliver(held: &[Self]) -> bool {
        held.first().is_some_and(|first| first.keeper.deliver(held))
    }

    pub(crate) fn ensure_held(&self) -> Result<()> {
        self.state.signal.check().map_or(Ok(()), |reason| Err(self.state.lost(reason)))
    }

    /// Takes note of the answer to a renewal, for another ttl perhaps. What the store has forgotten
    /// is taken back if it may be.
    pub(crate) async fn renewed(
        &self,
        another: Option<Duration>,
        timed: &TimedAnswer,
        reply: &Reply,
    ) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        match renewal_outcome(reply, state.token()) {
            Some(Ok(grant)) => {
                if let Some(ttl) = another {
                    keeper.change_ttl(state, ttl);
                }
                keeper.extend(state, timed, grant);
                Ok(())
            }
            Some(Err(reason)) if keeper.may_reclaim(state, reason) => {
                let result = keeper.reclaim(state).await;
                let failure = result.as_ref().err().cloned();
                keeper.reclaimed(state, reason, result);
                self.ensure_held()?;
                if let Some(error) = failure {
                    return Err(error.into());
                }
                if let Some(ttl) = another {
                    keeper.change_ttl(state, ttl);
                }
                Ok(())
            }
            Some(Err(reason)) => {
                keeper.lose(state, reason);
                Err(state.lost(reason))
            }
            None => Err(unexpected(reply).into()),
        }
    }

    /// Lets go now. Without an answer it is left to the keeper, which is as good.
    pub(crate) async fn release(&self) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        self.ensure_held()?;
        let action = keeper.begin_release(state);
        match keeper.store.apply(&state.name, action).await {
            Ok(timed) => {
                state.finish();
                keeper.tell(&state.name, keeper.news_of_end(state)).await;
                match renewal_outcome(&timed.answer.reply, state.token()) {
                    Some(Err(reason)) => Err(state.lost(reason)),
                    Some(Ok(_)) | None => Ok(()),
                }
            }
            // Dropping it leaves it to the keeper.
            Err(error) if error.kind().is_transient() => Ok(()),
            Err(error) => {
                state.finish();
                Err(error.into())
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.state.finish() {
            self.keeper.let_go(&self.state);
            if !self.keeper.has_handles() {
                self.keeper.settle();
            }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}
