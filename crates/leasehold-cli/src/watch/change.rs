//! The changes of a lock between two looks at it.

use leasehold::admin::{HoldState, Holder, HolderId, HolderInfo, Status};
use leasehold::{FencingToken, LockName};
use serde::Serialize;
use utoipa::ToSchema;

/// A lock that has changed since the look before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name of the lock.
    pub name: LockName,
    /// The events, oldest first. Empty if only the waiters have changed, or whether they are in a
    /// deadlock.
    pub events: Vec<Event>,
}

/// A hold that has begun or ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Event {
    /// The kind of the event.
    pub kind: EventKind,
    /// The time in milliseconds since 1970. For the end of a hold, it is when the end was noticed.
    pub at_ms: u64,
    /// The token of the hold.
    #[schema(value_type = String)]
    pub token: FencingToken,
    /// The holder.
    #[serde(flatten)]
    pub who: Who,
}

/// The kinds of events of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The hold was granted at once, or the watcher did not see its holder wait.
    Granted,
    /// The hold was granted, and its holder was seen waiting before.
    HandedOver,
    /// The hold has ended: it was released, expired or revoked.
    Released,
}

/// A process that holds, has held or waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Process)]
pub struct Who {
    /// The client's id, the same for all holds of one client.
    pub client: String,
    /// The name of the process's machine.
    pub host: String,
    /// The number of the process on that machine.
    pub pid: u32,
    /// The label.
    pub label: Option<String>,
}

impl Who {
    pub(crate) fn new(id: HolderId, info: &HolderInfo) -> Self {
        let (host, label) = (info.host.clone(), info.label.clone());
        Self { client: id.client.to_string(), host, pid: info.pid, label }
    }
}

/// The holds that have begun or ended between two looks. The later look was at `now_ms`.
pub(super) fn events(old: &Status, new: &Status, now_ms: u64) -> Vec<Event> {
    let begun = new.holders.iter().filter(|holder| is_new(holder, old));
    let begun: Vec<Event> = begun.map(|holder| began(holder, old, now_ms)).collect();
    // If a newer hold replaced a hold, the old one had ended when the newer one began.
    let next_ms = begun.iter().map(|event| event.at_ms).min().unwrap_or(now_ms);
    let ended = old.holders.iter().filter(|holder| is_new(holder, new));
    let ended = ended.map(|holder| Event {
        kind: EventKind::Released,
        at_ms: next_ms,
        token: holder.token,
        who: Who::new(holder.id, &holder.info),
    });
    let mut events: Vec<Event> = ended.chain(begun).collect();
    events.sort_by_key(|event| event.at_ms);
    events
}

/// Whether nothing but the time differs, so that there is no change to report.
pub(super) fn is_alike(old: &Status, new: &Status) -> bool {
    let holders = |status: &Status| {
        let each = status.holders.iter();
        let mut all: Vec<_> = each
            .map(|one| (one.token, one.mode.weight(), rank(one.state), one.info.clone()))
            .collect();
        all.sort_by_key(|(token, ..)| *token);
        all
    };
    let waiters = |status: &Status| status.waiters.iter().map(|one| one.id).collect::<Vec<_>>();
    let foreign = |status: &Status| status.foreign.as_ref().map(|other| other.value.clone());
    (old.waiting, foreign(old), waiters(old), holders(old))
        == (new.waiting, foreign(new), waiters(new), holders(new))
}

fn rank(state: HoldState) -> u8 {
    match state {
        HoldState::Claimed => 0,
        HoldState::Cooldown => 1,
        HoldState::Revoked => 2,
        _ => 3,
    }
}

fn is_new(holder: &Holder, than: &Status) -> bool {
    than.holders.iter().all(|other| other.token != holder.token)
}

fn began(holder: &Holder, old: &Status, now_ms: u64) -> Event {
    let was_waiting = old.waiters.iter().any(|waiter| waiter.id == holder.id);
    let kind = if was_waiting { EventKind::HandedOver } else { EventKind::Granted };
    let at_ms = now_ms.saturating_sub(millis(holder.held_for));
    Event { kind, at_ms, token: holder.token, who: Who::new(holder.id, &holder.info) }
}

/// A span in whole milliseconds.
pub(super) fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
