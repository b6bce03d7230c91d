//! The bounds of a search, and what may happen within them.

use leasehold_core::Mode;

/// How many nodes there are.
pub(crate) const NODES: usize = 3;

/// What is taken away to see that the search notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// The highest of the tokens that the nodes gave by themselves is used at once.
    Commit,
    /// A node forgets its last token with the hold.
    LastToken,
    /// One node is enough.
    Majority,
    /// The tokens of readers do not say which node has minted them.
    Minter,
    /// A node that has forgotten grants at once.
    Quarantine,
    /// A node that has forgotten waits for less than the longest lease.
    QuarantineLength,
    /// A node that refuses an acquire in its quarantine refuses before it does anything.
    RefusalFirst,
    /// The record forgets attempts that have ended.
    Tombstone,
    /// A node that says it does not hold it is taken to have answered all that it was asked.
    Unanswered,
    /// A lease is relied on for as long as any node keeps it.
    Validity,
}

/// The bounds of the search.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) clients: u8,
    /// What all of them ask for.
    pub(crate) mode: Mode,
    /// Which tokens, beyond the wall clock, clients may propose; by the clock if there are none.
    pub(crate) ballots: &'static [u64],
    /// The last token of each node at the beginning, beyond the wall clock.
    pub(crate) last_tokens: [u64; NODES],
    /// Seconds that a lease lasts.
    pub(crate) ttl: u64,
    /// The last second.
    pub(crate) end: u64,
    /// Seconds that a request may be under way.
    pub(crate) delay: u64,
    /// The first client holds already, by two nodes; what it asked the third is under way.
    pub(crate) is_held: bool,
    /// Whether what ends an attempt travels like everything else; if not, it is executed at once.
    pub(crate) ends_travel: bool,
    /// How often each holder renews.
    pub(crate) renewals: u8,
    /// How many times a node's clock jumps beyond every lease.
    pub(crate) jumps: u8,
    /// How many times a node forgets everything.
    pub(crate) crashes: u8,
    /// A node forgets only once the one before it has answered a renewal.
    pub(crate) in_turn: bool,
    /// How many answers are lost.
    pub(crate) losses: u8,
    /// How many requests come a second time.
    pub(crate) copies: u8,
    pub(crate) without: Option<Protection>,
}

impl World {
    /// No time passes: what holds here holds whatever the clocks do, for a lease ends when it
    /// pleases. The nodes have a past, and clients propose old tokens and new ones.
    pub(crate) fn timeless() -> Self {
        Self {
            clients: 2,
            mode: Mode::Exclusive,
            ballots: &[1, 8],
            last_tokens: [5, 10, 4],
            ttl: 2,
            end: 0,
            delay: 0,
            is_held: false,
            ends_travel: false,
            renewals: 0,
            jumps: 1,
            crashes: 0,
            in_turn: false,
            losses: 0,
            copies: 0,
            without: None,
        }
    }

    /// Clocks are right, and time passes.
    pub(crate) fn timed() -> Self {
        Self {
            ballots: &[],
            last_tokens: [0; NODES],
            end: 4,
            delay: 1,
            renewals: 1,
            jumps: 0,
            ..Self::timeless()
        }
    }

    pub(super) fn has(&self, protection: Protection) -> bool {
        self.without != Some(protection)
    }

    pub(super) fn needed(&self) -> usize {
        match self.has(Protection::Majority) {
            true => leasehold_core::quorum::majority(NODES),
            false => 1,
        }
    }

    /// How long a node that has forgotten grants nothing new.
    pub(super) fn quarantine(&self) -> u64 {
        match self.without {
            Some(Protection::Quarantine) => 0,
            Some(Protection::QuarantineLength) => self.ttl - 1,
            Some(_) | None => self.ttl,
        }
    }
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// A client asks all nodes for the lock, with this ballot beyond the wall clock.
    Begin(u8, u64),
    /// A node executes a request; another copy of it may stay under way.
    Execute { index: usize, is_heard: bool, stays: bool },
    /// A node loses all it knew.
    Forget(usize),
    /// A client waits for no more answers.
    GiveUp(u8),
    /// A node's clock jumps beyond every lease.
    Jump(usize),
    /// A holder lets go.
    Leave(u8),
    /// A holder asks all nodes for more time.
    Renew(u8),
    /// A second passes.
    Tick,
}
