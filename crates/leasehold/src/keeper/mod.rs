//! The keeper: renews leases, finishes releases and cancels that nobody waits for, polls on behalf
//! of waiters and hands grants to them. What peers call a watchdog is its renewing half.
//!
//! One future per client. In production the process's one background thread drives it, so that a
//! caller that blocks its runtime does not lose its lease, a guard can be dropped anywhere, and no
//! slow command stands before a renewal. With a clock that a test moves, the caller's runtime does.

mod answers;
mod cleanups;
mod delivery;
mod held;
mod jobs;
mod lease;
mod leases;
mod life;
mod lines;
mod mode_changes;
mod polls;
mod recently_ended;
mod reclaim;
mod renewals;
mod reporting;
mod reports;
mod run;
mod table;
mod telling;
mod ticket;

pub(crate) use self::answers::{end_notice, renewal_outcome, unexpected_reply, unusable_reply};
pub(crate) use self::cleanups::PendingRelease;
pub(crate) use self::delivery::{Delivery, Pulse};
pub(crate) use self::lease::{Granted, LeaseState};
pub(crate) use self::life::{Ask, Held, Keeper, Turn, Waiter};
pub(crate) use self::lines::{Begun, Left};
pub(crate) use self::table::Polling;
pub(crate) use self::ticket::Ticket;

#[cfg(test)]
mod tests;
