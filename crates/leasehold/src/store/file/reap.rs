//! What a client that is found dead holds, and its places, end at once.

use leasehold_core::model::{self, Holds as _, Record, Rules, Table as _, Tables};
use leasehold_core::{Action, Addressed, ClientId, HoldState, HolderId, Now, Reply};

use super::liveness::Liveness;

/// Most processes looked at in one go: as many as a step looks at holds for expiry. At 2 µs each
/// that is little more than the step itself takes.
const LOOK_BOUND: usize = model::REAP_BOUND as usize;

/// Spreads times over all clients there may be: 2¹²⁸ divided by the golden ratio. (Knuth, TAOCP,
/// section 6.4)
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// Most processes one waiter watches: the head may wait for any of several readers.
const WATCH_BOUND: u32 = 16;

/// What the end of dead clients has led to.
#[derive(Debug, Default)]
pub(super) struct Reaped {
    pub(super) messages: Vec<Addressed>,
    pub(super) more: bool,
}

impl Reaped {
    pub(super) fn append(&mut self, later: Self) {
        self.messages.extend(later.messages);
        self.more |= later.more;
    }
}

/// Ends what the dead hold, and their places at the head of the queue.
///
/// The head comes first: were a dead holder reaped before, the lock would be handed to the next
/// dead one. A client that is granted the lock by that is looked at as well.
pub(super) fn reap_dead_clients<T: Tables>(
    record: &mut Record<T>,
    now: Now,
    rules: Rules,
    liveness: &Liveness,
) -> Reaped {
    let mut reaped = Reaped::default();
    let mut seen = Vec::new();
    let mut holders = Holders::of(record, now);
    while seen.len() < LOOK_BOUND {
        let head = record.queue.next(0).and_then(|sequence| record.queue.find(sequence));
        let head = head.map(|waiting| waiting.id.client).filter(|client| !seen.contains(client));
        let Some(client) = head.or_else(|| holders.next_but(&seen, record)) else { break };
        seen.push(client);
        if liveness.is_dead(client) {
            let outcome = model::reap(record, now, rules, client);
            reaped.messages.extend(outcome.messages);
            reaped.more |= outcome.more;
        }
    }
    reaped
}

/// The clients that hold something, one after the other; a bounded number of holds is read.
struct Holders {
    start: HolderId,
    /// Where to go on; none when it is back where it began.
    from: Option<HolderId>,
    is_behind_start: bool,
    left: usize,
}

impl Holders {
    fn of<T: Tables>(record: &Record<T>, now: Now) -> Self {
        // With more holders than can be looked at, each step begins elsewhere.
        let client = match record.holds.count() as usize > LOOK_BOUND {
            true => u128::from(now.lease_us).wrapping_mul(SPREAD),
            false => 0,
        };
        let start = HolderId { client: ClientId(client), attempt: 0 };
        Self { start, from: Some(start), is_behind_start: true, left: LOOK_BOUND }
    }

    fn next_but<T: Tables>(
        &mut self,
        seen: &[ClientId],
        record: &mut Record<T>,
    ) -> Option<ClientId> {
        while let Some(from) = self.from
            && self.left > 0
        {
            let found = record.slots.next(from);
            let Some(id) = found.filter(|id| self.is_behind_start || *id < self.start) else {
                // From the beginning to where it began.
                let first = HolderId { client: ClientId(0), attempt: 0 };
                self.from = self.is_behind_start.then_some(first);
                self.is_behind_start = false;
                continue;
            };
            self.left -= 1;
            let slot = record.slots.find(id).copied()?;
            if record.holds.at(slot).state == HoldState::Cooldown {
                let attempt = id.attempt.saturating_add(1);
                self.from = Some(HolderId { attempt, ..id }).filter(|next| *next != id);
                continue;
            }
            let next = id.client.0.checked_add(1);
            self.from = next.map(|next| HolderId { client: ClientId(next), attempt: 0 });
            if !seen.contains(&id.client) {
                return Some(id.client);
            }
        }
        None
    }
}

/// Whose deaths concern an attempt that has to wait.
///
/// Every waiter watches the one before it, and the head watches the holders. So a death wakes one
/// process and not a hundred, and no death goes unseen: the waiter behind a dead one takes its
/// place and watches whom it watched. One that left the queue alive is noticed by the next poll.
pub(super) fn watched<T: Tables>(
    record: &mut Record<T>,
    action: &Action,
    reply: &Reply,
) -> Vec<ClientId> {
    let Some(id) = action.holder() else { return Vec::new() };
    let is_upgrading = record.upgrading == Some(id);
    let before = match reply {
        Reply::Queued(place) => record.queue.previous(place.sequence),
        Reply::Busy { .. } if is_upgrading => None,
        _ => return Vec::new(),
    };
    let before = before.and_then(|sequence| record.queue.find(sequence)).map(|it| it.id.client);
    let watched: Vec<ClientId> = match before {
        Some(before) => vec![before],
        None => {
            let slots = 0..record.holds.count().min(WATCH_BOUND);
            slots.map(|slot| record.holds.at(slot).id.client).collect()
        }
    };
    watched.into_iter().filter(|client| *client != id.client).collect()
}

/// Whether the attempt may still hold or wait after a reply. When in doubt it may.
pub(super) fn may_be_left(action: &Action, reply: &Reply) -> bool {
    match reply {
        Reply::Cancelled(_) | Reply::Gone | Reply::NotHeld { .. } | Reply::Released => false,
        Reply::Busy { .. } | Reply::Refused(_) | Reply::Stale => {
            !matches!(action, Action::Acquire(_) | Action::Adopt(_))
        }
        _ => true,
    }
}
