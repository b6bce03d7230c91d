//! The limits and times that every store keeps to.

use std::time::Duration;

/// The time within which a waiter must confirm its grant: 2 s, or its ttl if that is less. That is
/// long enough for a lost message and two polls, and short enough that a dead waiter delays others
/// only briefly.
pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);

/// The longest interval between two polls of a waiter: half a claim window, so that a grant whose
/// message was lost is found in time. With slower polls, 10 % message loss cost live waiters their
/// turn.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The delay before a waiter asks again for a name that is [held back](Rules::held_back): 100 ms,
/// because no message reports the end of the transaction in the way.
pub const HELD_BACK_INTERVAL: Duration = Duration::from_millis(100);

/// The silence after which a client counts as dead by the usual [`Rules`]: a claim window and one
/// poll.
pub const DEAD_AFTER: Duration = Duration::from_secs(3);

/// How long a finished attempt is remembered if a late copy of its acquire may still arrive: 60 s,
/// well above [`NOT_AFTER`].
pub const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

/// How long after its sending an acquire may still be executed: 10 s.
pub const NOT_AFTER: Duration = Duration::from_secs(10);

/// How far a proposed token time may be ahead of the store's clock, and how far the granted token
/// may be behind that clock: 10 s. Clocks under NTP differ by much less.
///
/// A quorum's tokens stay in order after its nodes forget a name on one condition: [`RETENTION`]
/// is longer than twice this lead plus the difference between their clocks.
pub const BALLOT_LEAD: Duration = Duration::from_secs(10);

/// The largest number of clients whose finished attempts a record remembers; the oldest is
/// forgotten first.
pub const MAX_TOMBSTONES: usize = 64;

/// The largest number of waiters for one name: 100 000, some 26 MB on a server.
pub const MAX_WAITING: usize = 100_000;

/// The largest number of dead waiters that one step skips.
pub const SKIP_BOUND: u32 = 16;

/// The largest number of grants in one step. Publishing to 64 readers took 0.7 ms; 16 take less.
pub const GRANT_BOUND: u32 = 16;

/// The largest number of holds that one step checks for expiry.
pub const REAP_BOUND: u32 = 64;

/// How long a record outlives its last use, with the last token in it: 2 min. With this, ten
/// thousand new names a second take 240 MB; with an hour, they would take 7 GB. An acquire may ask
/// for a longer time: see [`Acquire::remember`].
///
/// [`Acquire::remember`]: crate::Acquire::remember
pub const RETENTION: Duration = Duration::from_secs(120);

/// The rules that differ between stores.
///
/// ```
/// use std::time::Duration;
///
/// use leasehold_core::model::Rules;
///
/// assert_eq!(Rules::new().longest_silence, Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rules {
    /// The longest silence of a waiter far back in the queue: [`POLL_INTERVAL`] if only polls find
    /// lost messages and deaths.
    pub longest_silence: Duration,
    /// Whether the store grants no token for now: somebody works under the previous token, in a
    /// transaction that is still open. Even so, holds end, and waiters keep their places.
    pub held_back: bool,
    /// Whether the store may have forgotten holds: like [held back](Self::held_back), but a holder
    /// may take its forgotten hold back by its token.
    pub in_quarantine: bool,
}

impl Rules {
    /// The rules of a usual store.
    pub const fn new() -> Self {
        Self { longest_silence: POLL_INTERVAL, held_back: false, in_quarantine: false }
    }

    /// The same with this [`longest_silence`](Self::longest_silence).
    #[must_use]
    pub const fn with_longest_silence(mut self, longest_silence: Duration) -> Self {
        self.longest_silence = longest_silence;
        self
    }

    /// The same, and [held back](Self::held_back) or not.
    #[must_use]
    pub const fn with_held_back(mut self, held_back: bool) -> Self {
        self.held_back = held_back;
        self
    }

    /// The same, and [in quarantine](Self::in_quarantine) or not.
    #[must_use]
    pub const fn with_in_quarantine(mut self, in_quarantine: bool) -> Self {
        self.in_quarantine = in_quarantine;
        self
    }

    /// Whether the store refuses every hold that its holder did not have before.
    pub(super) const fn gives_nothing_new(self) -> bool {
        self.held_back || self.in_quarantine
    }

    /// The silence after which a client counts as dead: a claim window and one poll.
    pub(super) fn dead_after(self) -> Duration {
        self.longest_silence + CLAIM_WINDOW
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}
