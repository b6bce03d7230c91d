//! The slot of a lease, which the verbs of its guard use one after the other.

use std::sync::{Arc, Mutex};

use leasehold::Guard;
use leasehold::election::Leadership;

use crate::process::{drop_detached, lock};

/// A lease of the library.
pub(crate) enum Lease {
    Plain(Guard),
    Leader(Leadership),
}

impl Lease {
    pub(crate) fn guard(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Leader(leadership) => leadership.guard(),
        }
    }
}

impl From<Guard> for Lease {
    fn from(guard: Guard) -> Self {
        Self::Plain(guard)
    }
}

/// Where the lease is.
enum Place {
    Here(Lease),
    /// A verb has taken the lease to change it.
    AtWork,
    LetGo,
}

/// The state that a guard shares with its verbs.
pub(crate) struct Slot {
    place: Mutex<Place>,
    /// One verb at a time: a release waits for a renewal to end.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// A lease that a verb has taken out of its slot. Dropping this puts it back; if the guard was let
/// go meanwhile, it drops the lease.
pub(crate) struct Taken {
    slot: Arc<Slot>,
    pub(crate) lease: Option<Lease>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take()
            && let Some(unwanted) = self.slot.put_back(lease)
        {
            drop_detached(unwanted);
        }
    }
}

/// The slot of a guard that was let go. Dropping this before the release has begun drops the lease,
/// which the library then releases in the background.
pub(crate) struct Leaving(pub(crate) Arc<Slot>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(unreleased) = self.0.let_go() {
            drop_detached(unreleased);
        }
    }
}

impl Slot {
    pub(crate) fn new(lease: Lease) -> Self {
        Self { place: Mutex::new(Place::Here(lease)), turn: tokio::sync::Mutex::default() }
    }

    pub(crate) fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut place = lock(&self.place);
        match std::mem::replace(&mut *place, Place::AtWork) {
            Place::Here(lease) => Some(Taken { slot: Arc::clone(self), lease: Some(lease) }),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Returns the lease if the guard was let go.
    fn put_back(&self, lease: Lease) -> Option<Lease> {
        let mut place = lock(&self.place);
        if matches!(*place, Place::LetGo) {
            return Some(lease);
        }
        *place = Place::Here(lease);
        None
    }

    pub(crate) fn let_go(&self) -> Option<Lease> {
        match std::mem::replace(&mut *lock(&self.place), Place::LetGo) {
            Place::Here(lease) => Some(lease),
            Place::AtWork | Place::LetGo => None,
        }
    }

    pub(crate) fn is_let_go(&self) -> bool {
        matches!(*lock(&self.place), Place::LetGo)
    }

    /// Reads from the lease, unless a verb has taken it.
    pub(crate) fn ask<T>(&self, what: impl FnOnce(&Guard) -> T) -> Option<T> {
        match &*lock(&self.place) {
            Place::Here(lease) => Some(what(lease.guard())),
            Place::AtWork | Place::LetGo => None,
        }
    }
}
