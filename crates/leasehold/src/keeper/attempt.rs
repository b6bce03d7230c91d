//! An attempt to get a lease: what its caller asks for, and what the store tells it meanwhile.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{FencingToken, HolderId, LeaseOptions, LockName, Mode, Renewal, Request};
use tokio::sync::Notify;

use super::polled::Polled;
use crate::mutex::Mutex;

/// What a message means for an attempt that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Messages may have been lost, or the client was closed: look again.
    Ask,
    /// The store has granted the attempt, at this time by its clock.
    Granted { token: FencingToken, now_us: u64 },
}

/// An attempt, shared by its call and the keeper, and later by its lease.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) name: LockName,
    /// What every request of the attempt says.
    pub(crate) request: Request,
    pub(crate) options: Arc<LeaseOptions>,
    /// If the call gathers several names, when it was polled last.
    pub(crate) gathers: Option<Arc<Polled>>,
    /// Whether the attempt may stand at a gate, with other callers of its client that ask for the
    /// same lease.
    joins: bool,
    told: Mutex<Option<Told>>,
    rung: Notify,
}

impl Attempt {
    pub(crate) fn new(
        name: LockName,
        request: Request,
        options: Arc<LeaseOptions>,
        gathers: Option<Arc<Polled>>,
        joins: bool,
    ) -> Arc<Self> {
        let (told, rung) = (Mutex::default(), Notify::new());
        Arc::new(Self { name, request, options, gathers, joins, told, rung })
    }

    pub(crate) fn id(&self) -> HolderId {
        self.request.id
    }

    /// The number by which the keeper knows the attempt.
    pub(super) fn number(&self) -> u64 {
        self.request.id.attempt
    }

    /// What all callers at a gate ask for: the ttl of the lease. A caller with another ttl asks the
    /// store itself. There is none if a lease of this attempt may not be passed on, because an
    /// option concerns a single grant: a limit of the hold, `once_per`, or renewals by the holder.
    pub(super) fn terms(&self) -> Option<Duration> {
        let LeaseOptions { ttl, renewal, max_hold, min_hold, once_per, .. } = *self.options;
        let joins = self.joins
            && self.request.mode == Mode::Exclusive
            && renewal == Renewal::Auto
            && max_hold.is_none()
            && min_hold.is_none()
            && once_per.is_none();
        joins.then_some(ttl)
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

    /// Waits until something is told. Dropping the future loses nothing.
    pub(crate) async fn told(&self) -> Told {
        loop {
            let told = self.told.lock().take();
            match told {
                Some(told) => return told,
                None => self.rung.notified().await,
            }
        }
    }
}
