//! The recent history of one lock, for a timeline: its holds, and the number of waiters.

use std::collections::VecDeque;

use leasehold::FencingToken;
use leasehold::admin::Status;
use serde::Serialize;
use utoipa::ToSchema;

use super::change::{Event, EventKind, Who};

/// The history reaches back for 10 minutes.
pub const SPAN_MS: u64 = 600_000;

/// The most holds of one name that are remembered, and the most lengths of its queue: 64. More bars
/// in a row on a screen cannot be distinguished.
const MOST: usize = 64;

/// The last holds of a lock, and the lengths of its queue.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct History {
    /// The holds, oldest first.
    #[schema(value_type = Vec<Bar>)]
    pub bars: VecDeque<Bar>,
    /// The changes of the number of waiters, oldest first: the time in milliseconds since 1970, and
    /// the new number.
    #[schema(value_type = Vec<(u64, u32)>)]
    pub queue: VecDeque<(u64, u32)>,
}

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Bar {
    /// The token of the hold.
    #[schema(value_type = String)]
    pub token: FencingToken,
    /// The holder.
    #[serde(flatten)]
    pub who: Who,
    /// When the hold was granted, in milliseconds since 1970.
    pub from_ms: u64,
    /// When the hold ended; none while it lasts.
    pub to_ms: Option<u64>,
}

impl History {
    /// Records events, and the present status of the lock.
    pub(super) fn note(&mut self, events: &[Event], status: &Status, now_ms: u64) {
        for event in events {
            match event.kind {
                // The hold goes on: its record could not be read for a while.
                EventKind::Granted | EventKind::HandedOver if self.lasts(event.token) => {}
                EventKind::Granted | EventKind::HandedOver => self.bars.push_back(Bar {
                    token: event.token,
                    who: event.who.clone(),
                    from_ms: event.at_ms,
                    to_ms: None,
                }),
                EventKind::Released => {
                    if let Some(bar) = self.bars.iter_mut().find(|bar| bar.token == event.token) {
                        bar.to_ms = Some(event.at_ms.max(bar.from_ms));
                    }
                }
            }
        }
        let before = self.queue.back().map_or(0, |(_, waiting)| *waiting);
        if status.waiting != before {
            self.queue.push_back((now_ms, status.waiting));
        }
        self.forget(now_ms);
    }

    /// Once the record is readable again, ends the holds that have ended while it was not.
    pub(super) fn end_others(&mut self, status: &Status, now_ms: u64) {
        let is_held = |bar: &&mut Bar| status.holders.iter().any(|held| held.token == bar.token);
        let lasting = self.bars.iter_mut().filter(|bar| bar.to_ms.is_none());
        lasting.filter(|bar| !is_held(bar)).for_each(|bar| bar.to_ms = Some(now_ms));
    }

    fn lasts(&self, token: FencingToken) -> bool {
        self.bars.iter().any(|bar| bar.token == token && bar.to_ms.is_none())
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
