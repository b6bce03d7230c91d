//! The bounds of a search, and the possible events within them.

pub(crate) const NODES: usize = 3;

/// A protection that is taken away, to show that the search notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Without it, a node that is not in quarantine gives a lease back, too.
    ClaimInQuarantine,
    /// Without it, the record forgets attempts that have ended.
    Closed,
    /// Without it, the highest of the tokens that the nodes proposed is used immediately.
    Commit,
    /// Without it, a node forgets its counter with the hold.
    Counter,
    /// Without it, one node is enough.
    Majority,
    /// Without it, a node that has forgotten grants immediately.
    Quarantine,
    /// Without it, a node that has forgotten waits for less than the longest lease.
    QuarantineLength,
    /// Without it, a node in quarantine executes a take before it refuses it.
    RefusalFirst,
    /// Without it, a node that says "not held" counts as if it had answered all requests.
    Unanswered,
    /// Without it, a lease is relied on for as long as one node keeps it.
    Validity,
}

/// The bounds of the search.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) clients: u8,
    /// How far beyond the wall clock the tokens are that clients may propose; if empty, tokens are
    /// proposed by the clock.
    pub(crate) ballots: &'static [u64],
    /// How far beyond the wall clock the counter of each node is at the beginning.
    pub(crate) counters: [u64; NODES],
    /// Seconds that a lease lasts.
    pub(crate) ttl: u64,
    /// The last second.
    pub(crate) end: u64,
    /// Seconds that a request may be under way.
    pub(crate) delay: u64,
    /// The first client holds already, by two nodes; its request to the third is under way.
    pub(crate) is_held: bool,
    /// That request is not under way: it is lost, and the holder knows that.
    pub(crate) is_answered: bool,
    /// Whether ends of attempts travel like other requests; if not, they are executed immediately.
    pub(crate) ends_travel: bool,
    /// How often each holder renews.
    pub(crate) renewals: u8,
    /// Whether a holder asks nodes that lack its lease to grant the name anew.
    pub(crate) joins: bool,
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
    /// How many times a node grants another name of the same counter.
    pub(crate) others: u8,
    pub(crate) without: Option<Protection>,
}

impl World {
    /// No time passes: a lease may end at any moment, so the results do not depend on clocks. The
    /// nodes have a past, and clients propose old tokens and new ones.
    pub(crate) fn timeless() -> Self {
        Self {
            clients: 2,
            ballots: &[1, 8],
            counters: [5, 10, 4],
            ttl: 2,
            end: 0,
            delay: 0,
            is_held: false,
            is_answered: false,
            ends_travel: false,
            renewals: 0,
            joins: true,
            jumps: 1,
            crashes: 0,
            in_turn: false,
            losses: 0,
            copies: 0,
            others: 0,
            without: None,
        }
    }

    /// Clocks are right, and time passes.
    pub(crate) fn timed() -> Self {
        Self {
            ballots: &[],
            counters: [0; NODES],
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
        if self.has(Protection::Majority) { leasehold_core::quorum::majority(NODES) } else { 1 }
    }

    pub(super) fn needed_to_renew(&self) -> usize {
        if self.has(Protection::Validity) { self.needed() } else { 1 }
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

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// A client asks all nodes for the lock, with a ballot this far beyond the wall clock.
    Begin(u8, u64),
    /// A node executes a request; another copy of it may stay under way.
    Execute { index: usize, is_heard: bool, stays: bool },
    /// A node loses all its data.
    Forget(usize),
    /// A client waits for no more answers.
    GiveUp(u8),
    /// A node's clock jumps beyond every lease.
    Jump(usize),
    /// A holder releases.
    Leave(u8),
    /// A node grants another name, whose tokens come from the same counter.
    Other(usize),
    /// A holder asks all nodes for more time.
    Renew(u8),
    /// A second passes.
    Tick,
}
