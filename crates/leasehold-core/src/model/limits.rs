//! The limits and times that every store keeps to.

use std::time::Duration;

/// How long a waiter that was granted has to confirm it: 2 s, or its ttl if that is less. Long
/// enough for a lost message and two polls, short enough that a dead waiter is a short wait.
pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);

/// Every waiter asks at least this often: half a claim window, so that a grant whose message was
/// lost is found in time. With slower polls, 10 % message loss cost live waiters their turn.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How soon to ask again for a name that is [held back](Rules::held_back): 100 ms, since no message
/// says that the transaction in the way has ended.
pub const HELD_BACK_INTERVAL: Duration = Duration::from_millis(100);

/// By the usual [`Rules`], a client that was silent for this long is dead: a claim window and one
/// poll.
pub const DEAD_AFTER: Duration = Duration::from_secs(3);

/// How long a finished attempt is remembered where a late copy of its acquire may still arrive:
/// 60 s, well above [`NOT_AFTER`].
pub const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

/// How long after it was sent an acquire may still be executed: 10 s.
pub const NOT_AFTER: Duration = Duration::from_secs(10);

/// How far a caller's token time may be ahead of the store's clock, and the granted token behind
/// it: 10 s. Clocks under NTP differ by much less.
///
/// A quorum's tokens stay in order beyond the memory of its nodes on one condition: the retention
/// is longer than twice this lead plus the difference of their clocks ([`LEAST_RETENTION`]).
pub const BALLOT_LEAD: Duration = Duration::from_secs(10);

/// How long the nodes of a quorum keep the last token of a name at least: 30 s. A token may be one
/// lead ahead of the node that gave it. The next token is at most one lead behind the node that
/// gives it. Nodes whose clocks are further apart than one lead do not believe each other's tokens.
pub const LEAST_RETENTION: Duration = BALLOT_LEAD.saturating_mul(3);

/// The most clients of which a record remembers finished attempts; the oldest goes first.
pub const MAX_TOMBSTONES: usize = 64;

/// Most waiters of one name: 100 000, some 26 MB on a server.
pub const MAX_WAITING: usize = 100_000;

/// Most dead waiters skipped in one step.
pub const SKIP_BOUND: u32 = 16;

/// Most grants made by one step. Publishing to 64 readers took 0.7 ms, and to 16 it takes less.
pub const GRANT_BOUND: u32 = 16;

/// Most holds looked at for expiry in one step.
pub const REAP_BOUND: u32 = 64;

/// How long a record outlives its last use, with the last token in it: 2 min. Ten thousand new
/// names a second then hold 240 MB, and would hold 7 GB with an hour.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(120);

/// The rules that differ between stores. A retention alone stands for the usual rest.
///
/// ```
/// use std::time::Duration;
///
/// use leasehold_core::model::Rules;
///
/// let rules = Rules::new(Duration::from_secs(3600));
/// assert_eq!(rules.longest_silence, Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rules {
    /// How long a record outlives its last use, at least: see also [`Acquire::remember`].
    ///
    /// [`Acquire::remember`]: crate::Acquire::remember
    pub retention: Duration,
    /// The longest a waiter far behind may be silent: [`POLL_INTERVAL`], where a lost message and a
    /// death are found by polls alone.
    pub longest_silence: Duration,
    /// Whether nobody may be given a token for now: somebody works under the token before, in a
    /// transaction that is still open. Holds end, and places are kept, all the same.
    pub held_back: bool,
    /// Whether the store may have forgotten who holds what: as [held back](Self::held_back), but a
    /// holder takes back by its token what it had.
    pub in_quarantine: bool,
}

impl Rules {
    /// The rules of a usual store that keeps a record for `retention`.
    pub const fn new(retention: Duration) -> Self {
        Self { retention, longest_silence: POLL_INTERVAL, held_back: false, in_quarantine: false }
    }

    /// The same with this [`retention`](Self::retention).
    #[must_use]
    pub const fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
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

    /// Whether nobody is given what it did not have.
    pub(super) const fn gives_nothing_new(self) -> bool {
        self.held_back || self.in_quarantine
    }

    /// After this silence a client is dead: a claim window and one poll.
    pub(super) fn dead_after(self) -> Duration {
        self.longest_silence + CLAIM_WINDOW
    }
}

impl From<Duration> for Rules {
    fn from(retention: Duration) -> Self {
        Self::new(retention)
    }
}
