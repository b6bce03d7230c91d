//! Ends the leases and the places of a client as soon as it is found dead.

use leasehold_core::model::{self, Outcome, Record, Rules, Times, Waiter};
use leasehold_core::{Action, Addressed, ClientId, HolderId, Now};

use super::liveness::Liveness;

/// Waiters ask only every 10 s, so that a hundred of them cost about one hundredth of a
/// processor. At other stores, asking finds lost messages and deaths. Here a message is lost only
/// with the process that sent it, and the deaths that concern a waiter wake it. So asking only has
/// to find waiters that hang.
const RULES: Rules = Rules { times: Times { ask_ms: 10_000, ..Times::USUAL }, ..Rules::USUAL };

/// The largest number of processes that one step checks: 64. At 2 µs each, that takes little more
/// than the step itself.
const LOOK_BOUND: usize = 64;

/// The largest number of processes that one waiter watches: the head may wait for several readers.
const WATCH_BOUND: usize = 16;

/// Does one step, and ends the leases of dead clients, and their places at the head of the queue.
pub(crate) fn step(
    record: &mut Record,
    counter: &mut u64,
    now: Now,
    action: &Action,
    liveness: &Liveness,
) -> Outcome {
    let mut messages = reap_dead_clients(record, counter, now, liveness);
    let outcome = model::step(record, counter, now, RULES, action);
    if !outcome.messages.is_empty() {
        // The step has granted the name to a client that may be dead, and was not checked before.
        messages.extend(outcome.messages);
        messages.extend(reap_dead_clients(record, counter, now, liveness));
    }
    if let Some(id) = action.holder() {
        note(record, id, liveness);
    }
    Outcome { messages, ..outcome }
}

/// The first waiter is checked before the holders. Otherwise the lock of a dead holder could be
/// handed to a dead waiter. A client that gets the lock in this way is checked as well.
fn reap_dead_clients(
    record: &mut Record,
    counter: &mut u64,
    now: Now,
    liveness: &Liveness,
) -> Vec<Addressed> {
    let (mut messages, mut seen) = (Vec::new(), Vec::new());
    let mut holders = record.holders();
    // If there are more than a step can check, each step begins at another one.
    let start = now.lease_us as usize % holders.len().max(1);
    holders.rotate_left(start);
    while seen.len() < LOOK_BOUND {
        let head = record.queue.values().next().map(|waiter| waiter.request.id.client);
        let head = head.filter(|client| !seen.contains(client));
        let Some(client) = head.or_else(|| holders.pop()) else { break };
        if seen.contains(&client) {
            continue;
        }
        seen.push(client);
        if liveness.is_dead(client) {
            let told = end_dead(record, counter, now, &[client]);
            holders.extend(told.iter().map(|(granted, _)| *granted));
            messages.extend(told);
        }
    }
    messages
}

/// Tells a client of this process what an attempt of it has become, and whose deaths concern it.
///
/// Every waiter watches the last living waiter before it, and the head watches the holders. So a
/// death wakes one process instead of a hundred, and no death is missed: the waiter behind a dead
/// one asks again, and then watches the next living one. If a living waiter leaves the queue, the
/// waiter behind it notices that when it asks again.
fn note(record: &Record, id: HolderId, liveness: &Liveness) {
    let Some(client) = liveness.client(id.client) else { return };
    let is_attempt = |waiter: &Waiter| waiter.request.id == id;
    let Some((place, _)) = record.queue.iter().find(|(_, waiter)| is_attempt(waiter)) else {
        let holds = record.is_held_by(id) || record.shares.contains_key(&id);
        return client.keep(id.attempt, holds.then(Vec::new));
    };
    let before = record.queue.range(..place).rev().take(LOOK_BOUND);
    let mut before = before.map(|(_, waiter)| waiter.request.id.client);
    let mut watched: Vec<ClientId> = match before.find(|client| !liveness.is_dead(*client)) {
        Some(before) => vec![before],
        None => record.holders().into_iter().take(WATCH_BOUND).collect(),
    };
    watched.retain(|client| *client != id.client);
    client.keep(id.attempt, Some(watched));
}

/// Ends the leases and the places of clients that are known to be dead, under one name. Returns the
/// messages to those that are next.
pub(crate) fn end_dead(
    record: &mut Record,
    counter: &mut u64,
    now: Now,
    dead: &[ClientId],
) -> Vec<Addressed> {
    let ended = dead.iter().map(|client| model::reap(record, counter, now, RULES, *client));
    ended.flat_map(|outcome| outcome.messages).collect()
}
