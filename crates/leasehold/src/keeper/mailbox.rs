//! The mailbox of an attempt: what the keeper tells the call that asks for it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Action, End, FencingToken, Instant, LockName, Request};
use tokio::sync::Notify;

use super::cleanup::{CLEANUP_LIFE, Cleanup};
use crate::mutex::Mutex;

/// What a message means for an attempt that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Messages may have been lost, or the client was closed: look again.
    Ask,
    /// The store has granted the attempt, at this time by its clock.
    Granted { token: FencingToken, now_us: u64 },
}

/// An attempt of a call under way. The keeper knows it by its number.
#[derive(Debug)]
pub(crate) struct Mailbox {
    name: LockName,
    request: Request,
    ttl: Duration,
    told: Mutex<Option<Told>>,
    rung: Notify,
}

impl Mailbox {
    pub(super) fn new(name: LockName, request: Request, ttl: Duration) -> Arc<Self> {
        Arc::new(Self { name, request, ttl, told: Mutex::default(), rung: Notify::new() })
    }

    pub(super) fn tell(&self, told: Told) {
        {
            let mut before = self.told.lock();
            // A gap says less than a grant.
            if told != Told::Ask || before.is_none() {
                *before = Some(told);
            }
        }
        self.rung.notify_one();
    }

    /// What was told since the last call, if anything was.
    pub(crate) fn take(&self) -> Option<Told> {
        self.told.lock().take()
    }

    /// Waits until something is told. Dropping the future loses nothing.
    pub(crate) async fn next(&self) -> Told {
        loop {
            if let Some(told) = self.take() {
                return told;
            }
            self.rung.notified().await;
        }
    }

    /// What ends the attempt at the store if its call cannot.
    pub(super) fn cleanup(&self, now: Instant) -> Cleanup {
        let action = Action::End(End::new(self.request.clone()).with_closes(true));
        let until = now + self.ttl.max(CLEANUP_LIFE);
        Cleanup { name: self.name.clone(), action, until, notice: None }
    }
}
