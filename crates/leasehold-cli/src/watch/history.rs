//! Who held one lock when, and how many waited: what a timeline shows.

use std::collections::VecDeque;

use leasehold::FencingToken;
use leasehold::admin::Status;
use serde::Serialize;
use utoipa::ToSchema;

use super::change::{Event, EventKind, Who};

/// The history reaches back for 10 minutes.
pub const SPAN_MS: u64 = 600_000;

/// The most holds that are remembered of one name, and most lengths of its queue: 64 bars are as
/// many as can be told apart in a row on a screen.
const MOST: usize = 64;

/// The last holds of a lock, and the lengths that its queue had.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct History {
    /// Oldest first.
    #[schema(value_type = Vec<Bar>)]
    pub bars: VecDeque<Bar>,
    /// When the number of waiters changed, in milliseconds since 1970, and to what; oldest first.
    #[schema(value_type = Vec<(u64, u32)>)]
    pub queue: VecDeque<(u64, u32)>,
}

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Bar {
    /// Its token.
    #[schema(value_type = String)]
    pub token: FencingToken,
    /// Whose it is or was.
    #[serde(flatten)]
    pub who: Who,
    /// When it was granted, in milliseconds since 1970.
    pub from_ms: u64,
    /// When it ended; none while it lasts.
    pub to_ms: Option<u64>,
}

impl History {
    /// Notes what has happened, and how the lock is now.
    pub(super) fn note(&mut self, events: &[Event], status: &Status, now_ms: u64) {
        for event in events {
            match event.kind {
                // One whose record could not be read meanwhile goes on.
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

    /// Ends the holds that lasted when the record was last readable, and have ended now that it is
    /// readable again.
    pub(super) fn end_others(&mut self, status: &Status, now_ms: u64) {
        let is_held = |bar: &&mut Bar| status.holders.iter().any(|held| held.token == bar.token);
        let lasting = self.bars.iter_mut().filter(|bar| bar.to_ms.is_none());
        lasting.filter(|bar| !is_held(bar)).for_each(|bar| bar.to_ms = Some(now_ms));
    }

    fn lasts(&self, token: FencingToken) -> bool {
        self.bars.iter().any(|bar| bar.token == token && bar.to_ms.is_none())
    }

    /// Forgets holds that lie too far back, and the oldest of too many.
    fn forget(&mut self, now_ms: u64) {
        let begin_ms = now_ms.saturating_sub(SPAN_MS);
        self.bars.retain(|bar| bar.to_ms.is_none_or(|to_ms| to_ms >= begin_ms));
        while self.bars.len() > MOST {
            self.bars.pop_front();
        }
        // The last length before the beginning is the one at the beginning.
        while self.queue.len() > MOST || self.queue.get(1).is_some_and(|(at, _)| *at < begin_ms) {
            self.queue.pop_front();
        }
    }
}
