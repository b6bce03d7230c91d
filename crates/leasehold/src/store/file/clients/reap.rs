//! What a client that is found dead holds, and its places, end at once.

use leasehold_core::model::{self, Record, Rules};
use leasehold_core::{Action, Addressed, ClientId, HoldState, Now, Reply};

use super::liveness::Liveness;

/// The most processes that are looked at in one go: as many as a step looks at holds for expiry. At
/// 2 µs each that is little more than the step itself takes.
const LOOK_BOUND: usize = model::REAP_BOUND as usize;

/// The most processes that one waiter watches: the head may wait for any of several readers.
const WATCH_BOUND: usize = 16;

/// What the end of dead clients has led to.
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

/// Ends what the dead hold, and their places at the head of the queue.
///
/// The head comes first: were a dead holder reaped before, the lock would be handed to the next
/// dead one. A client that is granted the lock by that is looked at as well.
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

/// The clients that hold something. With more holds than can be looked at, each step begins
/// elsewhere.
fn holders(record: &Record, now: Now) -> Vec<ClientId> {
    let holds = &record.holds;
    let start = if holds.len() > LOOK_BOUND { now.lease_us as usize % holds.len() } else { 0 };
    let some = holds[start..].iter().chain(&holds[..start]).take(LOOK_BOUND);
    some.filter(|hold| hold.state != HoldState::Cooldown).map(|hold| hold.id.client).collect()
}

/// The clients whose deaths concern an attempt that has to wait.
///
/// Every waiter watches the one before it, and the head watches the holders. So a death wakes one
/// process and not a hundred, and no death goes unseen: the waiter behind a dead one takes its
/// place, and watches the same clients. If a waiter leaves the queue alive, the next poll notices
/// that.
pub(crate) fn watched(record: &Record, action: &Action, reply: &Reply) -> Vec<ClientId> {
    let Some(id) = action.holder() else { return Vec::new() };
    let before = match reply {
        Reply::Queued(place) => record.queue.range(..place.sequence).next_back(),
        Reply::Busy { .. } if record.upgrading == Some(id) => None,
        _ => return Vec::new(),
    };
    let watched: Vec<ClientId> = match before {
        Some((_, before)) => vec![before.id.client],
        None => record.holds.iter().take(WATCH_BOUND).map(|hold| hold.id.client).collect(),
    };
    watched.into_iter().filter(|client| *client != id.client).collect()
}

/// Whether the attempt may still hold or wait after a reply. When in doubt it may.
pub(crate) fn may_be_left(action: &Action, reply: &Reply) -> bool {
    match reply {
        Reply::Cancelled(_) | Reply::Gone | Reply::NotHeld { .. } | Reply::Released => false,
        Reply::Busy { .. } | Reply::Refused(_) | Reply::Stale => {
            !matches!(action, Action::Acquire(_) | Action::Adopt(_))
        }
        _ => true,
    }
}
