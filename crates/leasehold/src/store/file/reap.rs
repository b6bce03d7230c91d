//! Ends the leases and the places of a client as soon as it is found dead.

use leasehold_core::model::{self, Outcome, Record};
use leasehold_core::{Action, Addressed, ClientId, HoldState, Now, Reply};

use super::liveness::Liveness;
use super::options::RULES;

/// The largest number of processes that one step checks: as many as the holds that it checks for
/// expiry. At 2 µs each, that takes little more than the step itself.
const LOOK_BOUND: usize = model::REAP_BOUND as usize;

/// The largest number of processes that one waiter watches: the head may wait for several readers.
const WATCH_BOUND: usize = 16;

/// Does one step, and ends the leases of dead clients, and their places at the head of the queue.
pub(crate) fn step(record: &mut Record, now: Now, action: &Action, liveness: &Liveness) -> Outcome {
    let mut before = reap_dead_clients(record, now, liveness);
    let mut outcome = model::step(record, now, RULES, action);
    if !outcome.messages.is_empty() {
        // The step has granted the name to a client that may be dead, and was not checked before.
        let after = reap_dead_clients(record, now, liveness);
        outcome.messages.extend(after.messages);
        outcome.more |= after.more;
    }
    before.messages.append(&mut outcome.messages);
    Outcome { messages: before.messages, more: before.more | outcome.more, ..outcome }
}

/// The first waiter is checked before the holders. Otherwise the lock of a dead holder could be
/// handed to a dead waiter. A client that gets the lock in this way is checked as well.
fn reap_dead_clients(record: &mut Record, now: Now, liveness: &Liveness) -> Outcome {
    let mut reaped = Outcome { reply: Reply::Released, messages: Vec::new(), more: false };
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
            let outcome = model::reap(record, now, RULES, client);
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

/// Tells a client of this process what an attempt of it has become, and whose deaths concern it.
///
/// Every waiter watches the last living waiter before it, and the head watches the holders. So a
/// death wakes one process instead of a hundred, and no death is missed: the waiter behind a dead
/// one asks again, and then watches the next living one. If a living waiter leaves the queue, the
/// next poll notices that.
pub(crate) fn note(record: &Record, action: &Action, reply: &Reply, liveness: &Liveness) {
    let Some(id) = action.holder() else { return };
    let Some(client) = liveness.client(id.client) else { return };
    if !may_be_left(action, reply) {
        return client.end(id.attempt);
    }
    let Reply::Queued(place) = reply else { return client.keep(id.attempt, Vec::new()) };
    let before = record.queue.range(..place.sequence).rev().take(LOOK_BOUND);
    let mut before = before.map(|(_, waiting)| waiting.id.client);
    let watched: Vec<ClientId> = match before.find(|client| !liveness.is_dead(*client)) {
        Some(before) => vec![before],
        None => record.holds.iter().take(WATCH_BOUND).map(|hold| hold.id.client).collect(),
    };
    client.keep(id.attempt, watched.into_iter().filter(|client| *client != id.client).collect());
}

/// Whether the attempt may still hold or wait after a reply. In case of doubt, returns true.
fn may_be_left(action: &Action, reply: &Reply) -> bool {
    match reply {
        Reply::Cancelled(_) | Reply::Gone | Reply::NotHeld { .. } | Reply::Released => false,
        Reply::Busy { .. } | Reply::Refused(_) | Reply::Stale => {
            !matches!(action, Action::Acquire(_) | Action::Adopt(_))
        }
        _ => true,
    }
}

/// Ends the leases and the places of clients that are known to be dead, under one name. Returns the
/// messages to those that are next.
pub(crate) fn end_dead(record: &mut Record, now: Now, dead: &[ClientId]) -> Vec<Addressed> {
    let mut messages = Vec::new();
    for &client in dead {
        let holds = record.holds.iter().any(|hold| hold.id.client == client);
        if holds || record.clients.contains_key(&client) {
            messages.extend(model::reap(record, now, RULES, client).messages);
        }
    }
    messages
}
