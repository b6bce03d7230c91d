//! One held lease, shared by its guards; letting go of the last of them releases it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_core::{
    Action, Error, FencingToken, HolderId, Instant, LeaseOptions, LockName, LossReason, Mode,
    Reply, Result,
};
use tokio::sync::Notify;

use super::{Keeper, may_pass, renewal_outcome, unexpected};
use crate::contact::Timed;
use crate::lost::Signal;

/// What guards and keeper share of one lease.
#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) options: LeaseOptions,
    pub(crate) granted_at: Instant,
    pub(crate) signal: Arc<Signal>,
    /// When it came into the hands of the caller: what it is held for counts from then on. One that
    /// never gets there (given back, cancelled, one of several names) keeps nothing taken.
    delivered_at: OnceLock<Instant>,
    /// Rung when the store says that this reader has become the writer.
    pub(crate) upgraded: Notify,
    /// Some copy of the acquire, or of a reclaim, was never answered and may still arrive.
    unanswered: AtomicBool,
    /// What it says of itself to others.
    label: Mutex<Option<String>>,
    /// Somebody has taken on its release, or it was handed out.
    finished: AtomicBool,
    token: AtomicU64,
    mode: Mutex<Mode>,
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
}

impl LeaseState {
    pub(super) fn new(granted: Granted, signal: Arc<Signal>, now: Instant) -> Self {
        Self {
            name: granted.name,
            id: granted.id,
            label: Mutex::new(granted.options.label.clone()),
            options: granted.options,
            granted_at: now,
            signal,
            delivered_at: OnceLock::new(),
            upgraded: Notify::new(),
            unanswered: AtomicBool::new(granted.unanswered),
            finished: AtomicBool::new(false),
            token: AtomicU64::new(granted.token.get()),
            mode: Mutex::new(granted.mode),
        }
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::from_number(self.token.load(Ordering::Acquire))
            .unwrap_or(FencingToken::at_us(0)) // unreachable: only tokens are stored
    }

    pub(crate) fn mode(&self) -> Mode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changed(&self, mode: Mode, token: FencingToken) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        self.token.store(token.get(), Ordering::Release);
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

    pub(crate) fn lost(&self, reason: LossReason) -> Error {
        Error::Lost { name: self.name.clone(), token: self.token(), reason }
    }

    /// Takes on the duty to release; true for the first who does.
    pub(crate) fn finish(&self) -> bool {
        !self.finished.swap(true, Ordering::AcqRel)
    }

    pub(super) fn deliver(&self, now: Instant) {
        self.delivered_at.get_or_init(|| now);
    }

    pub(super) fn release_action(&self, now: Instant) -> Action {
        let keep = match (self.delivered_at.get(), self.options.min_hold) {
            (Some(delivered), Some(least)) => {
                least.saturating_sub(now.saturating_since(*delivered))
            }
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
    /// The caller has it from now on.
    pub(crate) fn deliver(&self) {
        self.keeper.deliver(&self.state);
    }

    pub(crate) fn ensure_held(&self) -> Result<()> {
        self.state.signal.check().map_or(Ok(()), |reason| Err(self.state.lost(reason)))
    }

    /// Takes note of the answer to a renewal. What the store has forgotten is taken back if it may
    /// be.
    pub(crate) async fn renewed(&self, timed: &Timed, reply: &Reply) -> Result<()> {
        let (keeper, state) = (&self.keeper, &self.state);
        match renewal_outcome(reply, state.token()) {
            Some(Ok(grant)) => {
                let until = keeper.contact.valid_until(timed, grant, state.options.ttl);
                keeper.extend(state, until);
                Ok(())
            }
            Some(Err(reason)) if keeper.may_reclaim(state, reason) => {
                let result = keeper.reclaim(state).await;
                let failure = result.as_ref().err().cloned();
                keeper.reclaimed(state, reason, result);
                self.ensure_held()?;
                failure.map_or(Ok(()), |error| Err(error.into()))
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
        match keeper.contact.apply(&state.name, action).await {
            Ok(timed) => {
                state.finish();
                match renewal_outcome(&timed.answer.reply, state.token()) {
                    Some(Err(reason)) => Err(state.lost(reason)),
                    Some(Ok(_)) | None => Ok(()),
                }
            }
            // Dropping it leaves it to the keeper.
            Err(error) if may_pass(&error) => Ok(()),
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
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}
