//! The recent history of one lock, for a timeline: its holds, and the number of waiters.

use std::collections::VecDeque;

use leasehold::FencingToken;
use leasehold::admin::{ClientId, Holder, HolderId, HolderInfo, Status};
use serde::Serialize;

use crate::moment::began_ms;

/// The history reaches back for 10 minutes.
pub(crate) const SPAN_MS: u64 = 600_000;

/// The most holds of one name that are remembered, and the most lengths of its queue: 64. More bars
/// in a row on a screen cannot be distinguished.
const MOST: usize = 64;

/// The last holds of a lock, and the lengths of its queue.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct History {
    /// The holds, oldest first.
    pub(crate) bars: VecDeque<Bar>,
    /// The changes of the number of waiters, oldest first: the time in milliseconds since 1970, and
    /// the new number.
    pub(crate) queue: VecDeque<(u64, u32)>,
}

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Bar {
    #[serde(skip)]
    id: HolderId,
    /// The token of the hold, once it is known.
    pub(crate) token: Option<FencingToken>,
    /// The holder.
    #[serde(flatten)]
    pub(crate) who: Who,
    /// When the hold was granted, in milliseconds since 1970.
    pub(crate) from_ms: u64,
    /// When the hold ended; none while it lasts.
    pub(crate) to_ms: Option<u64>,
}

/// A process that holds, has held or waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Who {
    /// The client's id, the same for all holds of one client.
    client: ClientId,
    #[serde(flatten)]
    pub(super) info: HolderInfo,
}

impl Who {
    pub(crate) fn new(id: HolderId, info: &HolderInfo) -> Self {
        Self { client: id.client, info: info.clone() }
    }
}

impl Bar {
    fn new(holder: &Holder, now_ms: u64) -> Self {
        Self {
            id: holder.id,
            token: holder.token,
            who: Who::new(holder.id, &holder.info),
            from_ms: began_ms(now_ms, holder.held_for),
            to_ms: None,
        }
    }

    /// Whether the bar is about this holder. The token of a fresh hold is not known yet, and a
    /// lease that is passed on has a new one.
    fn is_of(&self, holder: &Holder) -> bool {
        self.id == holder.id && (self.token.is_none() || self.token == holder.token)
    }
}

impl History {
    /// Records the status of the lock at a look. A hold that is new began when the store says. A
    /// hold that is gone ended when the next one began, or else at this look.
    pub(super) fn note(&mut self, status: &Status, now_ms: u64) {
        let mut begun = Vec::new();
        for holder in &status.holders {
            let mut lasting = self.bars.iter_mut().filter(|bar| bar.to_ms.is_none());
            match lasting.find(|bar| bar.is_of(holder)) {
                Some(bar) if bar.token.is_none() => *bar = Bar::new(holder, now_ms),
                Some(_) => {}
                None => begun.push(Bar::new(holder, now_ms)),
            }
        }
        begun.sort_by_key(|bar| bar.from_ms);
        let next_ms = begun.first().map_or(now_ms, |bar| bar.from_ms);
        let is_held = |bar: &&mut Bar| status.holders.iter().any(|holder| bar.is_of(holder));
        let lasting = self.bars.iter_mut().filter(|bar| bar.to_ms.is_none());
        for bar in lasting.filter(|bar| !is_held(bar)) {
            bar.to_ms = Some(next_ms.max(bar.from_ms));
        }
        self.bars.extend(begun);
        let before = self.queue.back().map_or(0, |(_, waiting)| *waiting);
        if status.waiting != before {
            self.queue.push_back((now_ms, status.waiting));
        }
        self.forget(now_ms);
    }

    /// Forgets holds that are too old, and the oldest holds if there are too many.
    fn forget(&mut self, now_ms: u64) {
        let begin_ms = now_ms.saturating_sub(SPAN_MS);
        self.bars.retain(|bar| bar.to_ms.is_none_or(|to_ms| to_ms >= begin_ms));
        while self.bars.len() > MOST {
            self.bars.pop_front();
        }
        // The last length before the beginning is kept, because it is the length at the beginning.
        while self.queue.len() > MOST || self.queue.get(1).is_some_and(|(at, _)| *at < begin_ms) {
            self.queue.pop_front();
        }
    }
}
