//! Finds clients that wait for each other, among locks that were looked at.
//!
//! Renewal keeps the leases of such clients alive for ever, so somebody must report them. A store
//! knows clients and not their tasks: one task of a client may hold while another waits. So a
//! circle is only *probably* a deadlock. It counts if each client has waited for a while, and held
//! its name before it began to wait.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::{ClientId, HoldState, Holder, Waiter};
use leasehold::time::show_duration;

use super::row::Row;
use crate::moment::began_ms;

/// Waits of less than 10 s do not count, because they may be ordinary contention.
const LEAST_WAIT: Duration = Duration::from_secs(10);

/// How much later than a wait a hold may seem to begin, although it began earlier: 1 s. The locks
/// are not looked at at the same time.
const LOOK_ERROR_MS: u64 = 1_000;

/// Clients that wait for each other: each for the next, and the last for the first.
#[derive(Clone, Debug)]
pub(crate) struct Deadlock<'a>(pub(crate) Vec<Wait<'a>>);

/// One client of a deadlock: it waits for a lock, and the next client holds that lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait<'a> {
    pub(crate) name: &'a LockName,
    row: &'a Row,
    pub(crate) waiter: &'a Waiter,
    pub(crate) holder: &'a Holder,
}

impl fmt::Display for Deadlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Wait { name, waiter, holder, .. }) in self.0.iter().enumerate() {
            let next = if n == 0 { "" } else { "; " };
            let (who, waited) = (waiter.info.in_words(waiter.id), show_duration(waiter.waited));
            let (other, held) = (holder.info.in_words(holder.id), show_duration(holder.held_for));
            write!(f, "{next}{who} has waited for {name} for {waited}, ")?;
            write!(f, "which {other} has held for {held}")?;
        }
        Ok(())
    }
}

impl Deadlock<'_> {
    /// Whether one of the clients waits for this lock.
    pub(crate) fn has(&self, name: &LockName) -> bool {
        self.0.iter().any(|wait| wait.name == name)
    }
}

impl Wait<'_> {
    fn since_ms(&self) -> u64 {
        began_ms(self.row.seen_ms, self.waiter.waited)
    }

    /// Whether the holder of another wait is the client that waits here, and does not release
    /// before this wait ends. Two tasks of one client that want the same lock are contention.
    fn keeps(&self, other: &Wait<'_>) -> bool {
        let held_since_ms = began_ms(other.row.seen_ms, other.holder.held_for);
        self.name != other.name && held_since_ms <= self.since_ms() + LOOK_ERROR_MS
    }
}

/// The waits that may be a part of a deadlock, by client.
type Waits<'a> = BTreeMap<ClientId, Vec<Wait<'a>>>;

/// The wait that must end before this one can.
fn next<'a>(waits: &Waits<'a>, wait: &Wait<'a>) -> Option<Wait<'a>> {
    waits.get(&wait.holder.id.client)?.iter().find(|next| next.keeps(wait)).copied()
}

/// The waits that would last even if all holders outside of `stuck` released: of two readers none
/// waits for the other, nor does a request for permits if enough become free. At first, all holders
/// count as stuck.
fn blocked<'a>(rows: &[(&'a LockName, &'a Row)], stuck: Option<&Waits<'a>>) -> Waits<'a> {
    let mut waits = Waits::new();
    for &(name, row) in rows {
        let Some(waiter) = row.status.waiters.first() else { continue };
        // Holds in other states have no client behind them, or end by themselves.
        let held = row.status.holders.iter().filter(|it| it.state == HoldState::Claimed);
        let is_stuck = |holder: &&Holder| {
            let wait = Wait { name, row, waiter, holder };
            stuck.is_none_or(|stuck| next(stuck, &wait).is_some())
        };
        let held: Vec<&Holder> = held.filter(is_stuck).collect();
        let Some(holder) = held.first().copied() else { continue };
        let taken: u64 = held.iter().map(|holder| u64::from(holder.mode.weight())).sum();
        let mut is_behind = false;
        for waiter in &row.status.waiters {
            let mode = waiter.mode;
            // Who would fit waits behind another waiter in the queue that does not.
            is_behind |= taken + u64::from(mode.weight()) > u64::from(mode.capacity());
            if is_behind && waiter.waited >= LEAST_WAIT {
                let wait = Wait { name, row, waiter, holder };
                waits.entry(waiter.id.client).or_default().push(wait);
            }
        }
    }
    waits
}

/// The deadlocks among these locks. A waiter that is only queued behind a deadlock is in none.
pub(crate) fn deadlocks<'a>(rows: &[(&'a LockName, &'a Row)]) -> Vec<Deadlock<'a>> {
    let count = |waits: &Waits<'_>| waits.values().map(Vec::len).sum::<usize>();
    let mut stuck = blocked(rows, None);
    loop {
        let rest = blocked(rows, Some(&stuck));
        let is_last = count(&rest) == count(&stuck);
        stuck = rest;
        if is_last {
            break;
        }
    }
    let (mut found, mut passed) = (Vec::new(), BTreeSet::new());
    for start in stuck.values().flatten() {
        let (mut path, mut at) = (Vec::new(), Some(*start));
        while let Some(wait) = at.filter(|wait| !passed.contains(&wait.waiter.id)) {
            passed.insert(wait.waiter.id);
            path.push(wait);
            at = next(&stuck, &wait);
        }
        // Each wait leads to another, so the way has ended at a wait that was passed before: in an
        // earlier circle, or in this path, where a circle begins there.
        let begin = path.iter().position(|wait| Some(wait.waiter.id) == at.map(|it| it.waiter.id));
        let Some(mut circle) = begin.map(|begin| path.split_off(begin)) else { continue };
        // The order does not depend on the clients' ids, which are random.
        let least = circle.iter().enumerate().min_by_key(|(_, wait)| wait.name);
        let at = least.map_or(0, |(at, _)| at);
        circle.rotate_left(at);
        // All of it was there at the first look if each wait began before.
        let first_look_ms = circle.iter().map(|wait| wait.row.seen_ms).min().unwrap_or(0);
        if circle.iter().all(|wait| wait.since_ms() <= first_look_ms) {
            found.push(Deadlock(circle));
        }
    }
    found
}

#[cfg(test)]
mod tests;
