//! The keeper renews leases, completes releases and cancellations that nobody waits for, polls on
//! behalf of waiters, and hands grants to them. Its renewing half is what other libraries call a
//! watchdog.
//!
//! There is one future for each client. In production, the one background thread of the process
//! drives it. So a caller that blocks its runtime does not lose its lease, a guard can be dropped
//! anywhere, and no slow command delays a renewal. In a test that moves the clock itself, the
//! caller's runtime drives that future.

mod cleanups;
mod due_queue;
mod handle;
mod handoff;
mod keeper;
mod keeping;
mod lease;
mod leases;
mod local_queue;
mod observe;
mod polls;
mod renewals;
mod run;
mod state;

pub(crate) use self::handle::Handle;
pub(crate) use self::handoff::Pulse;
pub(crate) use self::lease::{Attempt, LeaseState};
pub(crate) use self::local_queue::Poller;
pub(crate) use self::state::{Ask, Behind, Held, Keeper, Left, PendingRelease, Step, Turn};

#[cfg(test)]
mod tests;
