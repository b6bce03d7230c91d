//! Ends the leases and the places of a client as soon as it is found dead.

use leasehold_core::model::{self, Record, Rules};
use leasehold_core::{Action, Addressed, ClientId, HoldState, Now, Reply};

use super::liveness::Liveness;

/// The largest number of processes that one step checks: as many as the holds that it checks for
/// expiry. At 2 µs each, that takes little more than the step itself.
const LOOK_BOUND: usize = model::REAP_BOUND as usize;

/// The largest number of processes that one waiter watches: the head may wait for several readers.
const WATCH_BOUND: usize = 16;

/// The results of ending dead clients.
#[derive(Debug, Default)]
pub(crate) struct Reaped {
    pub(crate) messages: Vec<Addressed>,
    pub(crate) more: bool,
}

impl Reaped {
    pub(crate) fn append(&mut self, later: Self) {
        self.messages.extend(later.messages);
        self.more |= later.more;
    }
}

/// Ends the leases of dead clients, and their places at the head of the queue.
///
/// The first waiter is checked before the holders. Otherwise the lock of a dead holder could be
/// handed to a dead waiter. A client that gets the lock in this way is checked as well.
pub(crate) fn reap_dead_clients(
    record: &mut Record,
    now: Now,
    rules: Rules,
    liveness: &Liveness,
) -> Reaped {
    let mut reaped = Reaped::default();
    let mut seen = Vec::new();
    let mut holders = holders(record, now);
    while seen.len() < LOOK_BOUND {
        let head = record.queue.values().next().map(|waiting| waiting.id.client);
        let head = head.filter(|client| !seen.contains(client));
        let Some(client) = head.or_else(|| holders.pop()) else { break };
        if seen.contains(&client) {
            continue;
        }
        seen.push(client);
        if liveness.is_dead(client) {
            let outcome = model::reap(record, now, rules, client);
            holders.extend(outcome.messages.iter().map(|(granted, _)| *granted));
            reaped.messages.extend(outcome.messages);
            reaped.more |= outcome.more;
        }
    }
    reaped
}

/// The clients that hold a lease. If there are more holds than a step can check, each step begins
/// at another hold.
fn holders(record: &Record, now: Now) -> Vec<ClientId> {
    let holds = &record.holds;
    let start = if holds.len() > LOOK_BOUND { now.lease_us as usize % holds.len() } else { 0 };
    let some = holds[start..].iter().chain(&holds[..start]).take(LOOK_BOUND);
    some.filter(|hold| hold.state != HoldState::Cooldown).map(|hold| hold.id.client).collect()
}

/// The clients whose deaths concern an attempt that has to wait.
///
/// Every waiter watches the last living waiter before it, and the head watches the holders. So a
/// death wakes one process instead of a hundred, and no death is missed: the waiter behind a dead
/// one asks again, and then watches the next living one. If a living waiter leaves the queue, the
/// next poll notices that.
pub(crate) fn watched(
    record: &Record,
    action: &Action,
    reply: &Reply,
    liveness: &Liveness,
) -> Vec<ClientId> {
    let Some(id) = action.holder() else { return Vec::new() };
    let before = match reply {
        Reply::Queued(place) => {
            let before = record.queue.range(..place.sequence).rev().take(LOOK_BOUND);
            before.map(|(_, waiting)| waiting.id.client).find(|client| !liveness.is_dead(*client))
        }
        _ => return Vec::new(),
    };
    let watched: Vec<ClientId> = match before {
        Some(before) => vec![before],
        None => record.holds.iter().take(WATCH_BOUND).map(|hold| hold.id.client).collect(),
    };
    watched.into_iter().filter(|client| *client != id.client).collect()
}

/// Whether the attempt may still hold or wait after a reply. In case of doubt, returns true.
pub(crate) fn may_be_left(action: &Action, reply: &Reply) -> bool {
    match reply {
        Reply::Cancelled(_) | Reply::Gone | Reply::NotHeld { .. } | Reply::Released => false,
        Reply::Busy { .. } | Reply::Refused(_) | Reply::Stale => {
            !matches!(action, Action::Acquire(_) | Action::Adopt(_))
        }
        _ => true,
    }
}
