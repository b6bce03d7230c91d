//! The dead: whoever is found dead loses what it holds and its places at once.

use leasehold_core::model::{self, Record};
use leasehold_core::{Action, Addressed, ClientId, HoldState, HolderId, Now, Reply};

use super::RULES;
use super::presence::Presence;

/// Most processes looked at in one go: as many as a step looks at holds for expiry. At 2 µs each
/// that is little more than the step itself takes.
const LOOK_BOUND: usize = model::REAP_BOUND as usize;

/// Most processes one waiter watches: the head may wait for any of several readers.
const WATCH_BOUND: usize = 16;

/// What burying has led to.
#[derive(Debug, Default)]
pub(super) struct Buried {
    pub(super) messages: Vec<Addressed>,
    pub(super) more: bool,
}

impl Buried {
    pub(super) fn append(&mut self, later: Self) {
        self.messages.extend(later.messages);
        self.more |= later.more;
    }
}

/// Ends what the dead hold, and their places at the head of the queue.
///
/// The head comes first: were a dead holder buried before, the lock would be handed to the next
/// dead one. Whoever is granted by a burial is looked at as well.
pub(super) fn the_dead(record: &mut Record, now: Now, presence: &Presence) -> Buried {
    let mut buried = Buried::default();
    let mut seen = Vec::new();
    while seen.len() < LOOK_BOUND {
        let Some(client) = next_to_look_at(record, now, &seen) else { break };
        seen.push(client);
        if presence.is_dead(client) {
            let outcome = model::reap(record, now, RULES, client);
            buried.messages.extend(outcome.messages);
            buried.more |= outcome.more;
        }
    }
    buried
}

fn next_to_look_at(record: &Record, now: Now, seen: &[ClientId]) -> Option<ClientId> {
    let head = record.queue.first_key_value().map(|(_, head)| head.id.client);
    // With more holders than can be looked at, each step begins elsewhere.
    let len = record.holds.len();
    let start = if len > LOOK_BOUND { now.lease_us as usize % len } else { 0 };
    let holders = (0..len).map(|step| &record.holds[(start + step) % len]);
    let holders = holders.filter(|hold| hold.state != HoldState::Kept).map(|hold| hold.id.client);
    head.into_iter().chain(holders).find(|client| !seen.contains(client))
}

/// Whose deaths concern an attempt that has to wait.
///
/// Every waiter watches the one before it, and the head watches the holders. So a death wakes one
/// process and not a hundred, and no death goes unseen: the waiter behind a dead one takes its
/// place and watches whom it watched. One that left the queue alive is noticed by the next poll.
pub(super) fn concerning(record: &Record, action: &Action, reply: &Reply) -> Vec<ClientId> {
    let Some(id) = attempt_of(action) else { return Vec::new() };
    let is_upgrading = record.upgrading == Some(id);
    let before = match reply {
        Reply::Queued(place) => record.queue.range(..place.sequence).next_back(),
        Reply::Busy { .. } if is_upgrading => None,
        _ => return Vec::new(),
    };
    let concerning: Vec<HolderId> = match before {
        Some((_, before)) => vec![before.id],
        None => record.holds.iter().map(|hold| hold.id).take(WATCH_BOUND).collect(),
    };
    concerning.into_iter().map(|id| id.client).filter(|client| *client != id.client).collect()
}

/// The attempt that an action is about, if it is its own caller's.
pub(super) fn attempt_of(action: &Action) -> Option<HolderId> {
    match action {
        Action::Acquire(request) => Some(request.id),
        Action::Adopt(request) => Some(request.id),
        Action::Reclaim(request) => Some(request.id),
        Action::Cancel { id, .. }
        | Action::ChangeMode { id, .. }
        | Action::Commit { id, .. }
        | Action::Describe { id, .. }
        | Action::Poll { id, .. }
        | Action::Release { id, .. }
        | Action::Renew { id, .. } => Some(*id),
        _ => None,
    }
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
