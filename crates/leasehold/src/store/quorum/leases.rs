//! The state of each lease at this client, and the attempts that must not be sent again.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use leasehold_core::model::Times;
use leasehold_core::{FencingToken, HolderId, Instant};

use super::node::Pending;
use crate::store::clocked::TimedAnswer;

/// The time for which nodes remember an attempt that has ended: 60 s. A copy of its requests that
/// is later than that counts as lost.
pub(super) const LATEST: Duration = Duration::from_millis(Times::USUAL.closed_ms);

/// From this number of entries on, those that no longer matter are removed.
const SWEEP_AT: usize = 1024;

/// Answers to the takes of a round that was won without them.
#[derive(Default)]
pub(super) struct LateAnswers(pub(super) Pending<'static, TimedAnswer>);

debug_as!(LateAnswers => |it, f| f.debug_tuple("LateAnswers").field(&it.0.len()).finish());

/// The facts about a lease at this client.
#[derive(Debug)]
pub(super) struct KnownLease {
    /// The longest ttl that a node was asked for.
    pub(super) ttl: Duration,
    pub(super) token: FencingToken,
    /// The nodes at which a copy of a take may still arrive, whatever they answer to a later
    /// request. There, a release must leave the memory that the attempt has ended.
    pub(super) unanswered: Vec<bool>,
    pub(super) late: LateAnswers,
    /// The end of the lease, by the last renewal that a majority has granted.
    pub(super) until: Instant,
}

impl KnownLease {
    /// Hears of the answers that have come since the lease was won. Usually that is the last
    /// node's: then a release leaves nothing there.
    pub(super) fn hear(&mut self) {
        while let Some(Some((index, answer))) = self.late.0.next().now_or_never() {
            self.unanswered[index] = answer.is_err_and(|error| error.may_have_executed());
        }
    }

    /// Records that another take is sent to a node. From now on, it is not known which of its
    /// requests a node has yet to answer.
    pub(super) fn send_again(&mut self, index: usize) {
        self.hear();
        self.late.0.clear();
        self.unanswered[index] = true;
    }
}

/// An attempt that must not be sent again: its end may still be on its way, and would end the lease
/// of a later request on some node.
#[derive(Debug)]
struct Over {
    /// Until when that matters.
    until: Instant,
    /// Whether its client has ended it. Otherwise its call has let go of it, and may send it again
    /// once nothing of it is on its way.
    is_final: bool,
}

/// All leases of the clients of one quorum in this process.
#[derive(Debug)]
pub(super) struct Leases {
    known: HashMap<HolderId, KnownLease>,
    over: HashMap<HolderId, Over>,
    sweep_at: usize,
}

impl Default for Leases {
    fn default() -> Self {
        Self { known: HashMap::new(), over: HashMap::new(), sweep_at: SWEEP_AT }
    }
}

impl Leases {
    pub(super) fn insert(&mut self, id: HolderId, known: KnownLease, now: Instant) {
        self.known.insert(id, known);
        self.sweep(now);
    }

    fn sweep(&mut self, now: Instant) {
        if self.known.len() + self.over.len() < self.sweep_at {
            return;
        }
        // Nothing renews these leases any more: they were handed to another process, or expire.
        // Some time later, no late copy of their takes arrives either.
        self.known.retain(|_, known| known.until + known.ttl.max(LATEST) > now);
        self.over.retain(|_, over| over.until > now);
        self.sweep_at = SWEEP_AT.max(2 * (self.known.len() + self.over.len()));
    }

    pub(super) fn get(&self, id: HolderId) -> Option<&KnownLease> {
        self.known.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: HolderId) -> Option<&mut KnownLease> {
        self.known.get_mut(&id)
    }

    /// Removes a lease that ends.
    pub(super) fn remove(&mut self, id: HolderId) -> Option<KnownLease> {
        self.known.remove(&id)
    }

    /// Marks an attempt that must not be sent again: its call lets go of it, or its client has
    /// ended it for good.
    pub(super) fn end(&mut self, id: HolderId, now: Instant, until: Instant, is_final: bool) {
        self.over.entry(id).or_insert(Over { until, is_final }).is_final |= is_final;
        self.sweep(now);
    }

    /// Removes the mark of an attempt, because nothing of it is on its way any more. Returns false,
    /// and changes nothing, if the client has ended the attempt.
    pub(super) fn reopen(&mut self, id: HolderId) -> bool {
        let is_final = self.over.get(&id).is_some_and(|over| over.is_final);
        if !is_final {
            self.over.remove(&id);
        }
        !is_final
    }

    pub(super) fn is_over(&self, id: HolderId) -> bool {
        self.over.contains_key(&id)
    }
}
