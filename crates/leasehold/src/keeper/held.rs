//! One held lease, shared by its guards; letting go of the last of them releases it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{Action, FencingToken, HolderId, Instant, LeaseOptions, LockName, Mode};
use tokio::sync::Notify;

use super::Keeper;
use crate::lost::Signal;

/// What guards and keeper share of one lease.
#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) name: LockName,
    pub(crate) id: HolderId,
    pub(crate) options: LeaseOptions,
    pub(crate) granted_at: Instant,
    pub(crate) signal: Arc<Signal>,
    /// Rung when the store says that this reader has become the writer.
    pub(crate) upgraded: Notify,
    /// Some copy of the acquire was never answered and may still arrive.
    unanswered: bool,
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
            options: granted.options,
            granted_at: now,
            signal,
            upgraded: Notify::new(),
            unanswered: granted.unanswered,
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

    /// Takes on the duty to release; true for the first who does.
    pub(crate) fn finish(&self) -> bool {
        !self.finished.swap(true, Ordering::AcqRel)
    }

    pub(super) fn release_action(&self, now: Instant) -> Action {
        let held = now.saturating_since(self.granted_at);
        let keep = self.options.min_hold.unwrap_or(Duration::ZERO).saturating_sub(held);
        Action::Release { id: self.id, keep, unanswered: self.unanswered }
    }
}

/// A held lease. The last guard that lets go drops it, and its release is handed to the keeper
/// unless it was released or handed out before.
pub(crate) struct Held {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) state: Arc<LeaseState>,
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
