//! What has happened between two looks at a lock.

use leasehold::admin::{HoldState, Holder, HolderId, HolderInfo, Status};
use leasehold::{FencingToken, LockName};
use serde::Serialize;
use utoipa::ToSchema;

/// A lock that is not as it was when it was looked at before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which lock.
    pub name: LockName,
    /// What has happened, oldest first; nothing if only the waiters have changed, or whether they
    /// are in a deadlock.
    pub events: Vec<Event>,
}

/// A hold that has begun or ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Event {
    /// Which of both.
    pub kind: EventKind,
    /// When, in milliseconds since 1970: of an end, when it was noticed.
    pub at_ms: u64,
    /// The token of the hold.
    #[schema(value_type = String)]
    pub token: FencingToken,
    /// Whose it is or was.
    #[serde(flatten)]
    pub who: Who,
}

/// What has happened to a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It was granted at once, or nobody saw its holder wait.
    Granted,
    /// Its holder was seen waiting before.
    HandedOver,
    /// It is held no more: let go, ended by its deadline, or revoked.
    Released,
}

/// A process that holds, has held or waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Process)]
pub struct Who {
    /// The client's id, the same for all holds of one client.
    pub client: String,
    /// The name of its machine.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// What it says of itself.
    pub label: Option<String>,
}

impl Who {
    pub(crate) fn new(id: HolderId, info: &HolderInfo) -> Self {
        let (host, label) = (info.host.clone(), info.label.clone());
        Self { client: id.client.to_string(), host, pid: info.pid, label }
    }
}

/// The holds that have begun or ended between two looks, of which the later was at `now_ms`.
pub(super) fn events(old: &Status, new: &Status, now_ms: u64) -> Vec<Event> {
    let begun = new.holders.iter().filter(|holder| is_new(holder, old));
    let begun: Vec<Event> = begun.map(|holder| began(holder, old, now_ms)).collect();
    // A holder that was overtaken by the next has ended by then, not when the watcher looked.
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

/// Whether anything is different but the time: then nobody needs to be told.
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
