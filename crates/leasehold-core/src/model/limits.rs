//! The limits and times that every store keeps to.

use std::time::Duration;

/// How far a proposed token time may be ahead of the store's clock, and how far the granted token
/// may be behind that clock: 10 s. Clocks under NTP differ by much less.
pub const BALLOT_LEAD: Duration = Duration::from_secs(10);

/// The largest number of waiters, or of ended holds, that one step looks at. Then the step tells
/// the caller to ask again at once.
pub const BATCH: usize = 16;

/// The largest number of waiters for one name: 100 000, some 17 MB on a server.
pub const MAX_WAITING: usize = 100_000;

/// The largest number of ended attempts that a record remembers; the oldest is forgotten first.
pub const MAX_CLOSED: usize = 64;

/// The time in which a grant that was handed over must be claimed: 2 s. That is long enough for a
/// lost message and two asks, and short enough that a dead waiter delays others only briefly.
pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);

/// The longest interval between two asks of a waiter: half a claim window, so that a grant whose
/// message was lost is found in time.
pub const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// The times of the protocol, in milliseconds. Searches shorten them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time for which the record of an attempt that has ended is kept, so that a late copy of
    /// its request finds it.
    pub closed_ms: u64,
    /// The time for which a gate that somebody awaits outlives its deadline: longer than the time
    /// until the next waiter asks, so that no newcomer overtakes the queue. It is no shorter than
    /// `closed_ms`, so that no attempt that has ended finds the name without a gate.
    pub grace_ms: u64,
    /// A waiter asks at least once in this time: [`ASK_INTERVAL`] in most stores.
    pub ask_ms: u64,
    /// The time for which a queue outlives its last change.
    pub queue_ms: u64,
    /// The time in which a grant that was handed over must be claimed: [`CLAIM_WINDOW`].
    pub window_ms: u64,
}

impl Times {
    /// The times of a usual store.
    pub const USUAL: Self = Self {
        closed_ms: 60_000,
        grace_ms: 60_000,
        ask_ms: ASK_INTERVAL.as_millis() as u64,
        queue_ms: 60_000,
        window_ms: CLAIM_WINDOW.as_millis() as u64,
    };
}

/// The rules that differ between stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The times.
    pub times: Times,
    /// Whether the store grants no token for now: somebody works under the previous token, in a
    /// transaction that is still open. Even so, holds end, and waiters keep their places.
    pub held_back: bool,
    /// Whether the store may have forgotten holds: like [held back](Self::held_back), but a holder
    /// may take its forgotten hold back by its token.
    pub in_quarantine: bool,
}

impl Rules {
    /// The rules of a usual store.
    pub const USUAL: Self = Self { times: Times::USUAL, held_back: false, in_quarantine: false };

    /// The time until a waiter asks again for a name that is [held back](Self::held_back): no
    /// message reports the end of the transaction in the way.
    const HELD_BACK_MS: u64 = 100;

    /// If nothing new is granted for now, the time after which to ask again.
    pub(super) fn grants_after_ms(self) -> Option<u64> {
        match self {
            Self { held_back: true, .. } => Some(Self::HELD_BACK_MS),
            Self { in_quarantine: true, times, .. } => Some(times.ask_ms),
            Self { .. } => None,
        }
    }
}
