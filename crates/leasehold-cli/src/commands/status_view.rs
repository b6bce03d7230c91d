//! The form of a lock that `show` and `ls` share: its JSON, and the words of its cells.

use leasehold::admin::{ForeignHolder, HoldState, Holder, HolderId, HolderInfo, Status, Waiter};
use leasehold::error::StoreError;
use leasehold::lease::Mode;
use leasehold::time::show_duration;
use leasehold::{FencingToken, LockName};
use serde::Serialize;

use crate::moment::{began_ms, iso};
use crate::watch::ANOTHER;

/// A mode in one word, or as permits.
pub(super) fn mode(mode: Mode) -> String {
    match mode {
        Mode::Permits { count, capacity } => format!("{count}/{capacity}"),
        _ => mode.as_str().to_owned(),
    }
}

/// The state of a hold in one word.
pub(super) fn state(state: HoldState) -> &'static str {
    match state {
        HoldState::Cooldown => "cooldown",
        HoldState::Revoked => "revoked",
        _ => "held",
    }
}

/// A token in one word.
pub(super) fn token(token: Option<FencingToken>) -> String {
    token.map_or_else(|| "-".to_owned(), |token| token.to_string())
}

/// The cells of a holder of which only the value is known: its name, the time left, and the value.
pub(super) fn foreign_words(foreign: &ForeignHolder) -> [String; 3] {
    let left = foreign.ttl_left.map_or_else(|| "no end".to_owned(), show_duration);
    [ANOTHER.to_owned(), left, format!("value {:?}", foreign.value)]
}

/// One lock as JSON: spans are seconds, tokens are strings, points in time are in UTC.
#[derive(Debug, Serialize)]
pub(super) struct StatusView<'a> {
    name: &'a LockName,
    foreign: Option<ForeignView<'a>>,
    holders: Vec<HolderView<'a>>,
    waiters: Vec<WaiterView<'a>>,
    waiting: u32,
    last: Option<LastView<'a>>,
    /// What holds a free name back from all callers, in words.
    held_back: &'a [String],
    /// Why the record cannot be read. Then nothing else is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<UnreadableView>,
}

/// The store's error about a record that it cannot read.
#[derive(Debug, Serialize)]
pub(super) struct UnreadableView {
    kind: &'static str,
    why: String,
}

#[derive(Debug, Serialize)]
struct ForeignView<'a> {
    mode: String,
    value: &'a str,
    left_seconds: Option<f64>,
}

/// One holder of a lock as JSON.
#[derive(Debug, Serialize)]
pub(super) struct HolderView<'a> {
    holder: HolderId,
    mode: String,
    state: &'static str,
    /// Not known during the first 100 ms of some holds.
    token: Option<FencingToken>,
    #[serde(flatten)]
    info: &'a HolderInfo,
    held_since: String,
    held_seconds: f64,
    left_seconds: f64,
}

#[derive(Debug, Serialize)]
struct WaiterView<'a> {
    waiter: HolderId,
    mode: String,
    position: u32,
    #[serde(flatten)]
    info: &'a HolderInfo,
    waited_since: String,
    waited_seconds: f64,
}

#[derive(Debug, Serialize)]
struct LastView<'a> {
    holder: HolderId,
    #[serde(flatten)]
    info: &'a HolderInfo,
    token: String,
    ended: String,
    ended_seconds_ago: f64,
}

impl<'a> StatusView<'a> {
    /// The view of a lock with this status at `seen_ms`, in milliseconds since 1970.
    pub(super) fn new(
        name: &'a LockName,
        status: &'a Status,
        unreadable: Option<&StoreError>,
        seen_ms: u64,
    ) -> Self {
        Self {
            name,
            foreign: status.foreign.as_ref().map(|it| ForeignView {
                mode: mode(it.mode),
                value: &it.value,
                left_seconds: it.ttl_left.map(|left| left.as_secs_f64()),
            }),
            holders: status.holders.iter().map(|it| HolderView::new(it, seen_ms)).collect(),
            waiters: status.waiters.iter().map(|it| WaiterView::new(it, seen_ms)).collect(),
            waiting: status.waiting,
            last: status.last_holder.as_ref().map(|last| LastView {
                holder: last.id,
                info: &last.info,
                token: last.token.to_string(),
                ended: iso(began_ms(seen_ms, last.ended_ago)),
                ended_seconds_ago: last.ended_ago.as_secs_f64(),
            }),
            held_back: &status.held_back,
            unreadable: unreadable.map(|error| UnreadableView {
                kind: error.kind().as_str(),
                why: error.to_string(),
            }),
        }
    }

    /// The same view, with only the first holders and waiters.
    pub(super) fn first(mut self, most: usize) -> Self {
        self.holders.truncate(most);
        self.waiters.truncate(most);
        self
    }
}

impl<'a> HolderView<'a> {
    /// The view of a holder at `seen_ms`.
    pub(super) fn new(holder: &'a Holder, seen_ms: u64) -> Self {
        Self {
            holder: holder.id,
            mode: mode(holder.mode),
            state: state(holder.state),
            token: holder.token,
            info: &holder.info,
            held_since: iso(began_ms(seen_ms, holder.held_for)),
            held_seconds: holder.held_for.as_secs_f64(),
            left_seconds: holder.ttl_left.as_secs_f64(),
        }
    }
}

impl<'a> WaiterView<'a> {
    fn new(waiter: &'a Waiter, seen_ms: u64) -> Self {
        Self {
            waiter: waiter.id,
            mode: mode(waiter.mode),
            position: waiter.position,
            info: &waiter.info,
            waited_since: iso(began_ms(seen_ms, waiter.waited)),
            waited_seconds: waiter.waited.as_secs_f64(),
        }
    }
}
