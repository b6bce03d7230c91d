//! The state of each lease: how every node holds it, by the node's last reply.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::time::Duration;

use leasehold_core::model::NOT_AFTER;
use leasehold_core::quorum::NodeHold;
use leasehold_core::{Acquire, Adopt, FencingToken, Grant, HolderId, HolderInfo, Instant, Reply};

use crate::mutex::Mutex;
use crate::store::clocked::TimedAnswer;

/// From this number of entries on, those that no longer matter are removed.
const SWEEP_AT: usize = 1024;

/// The facts about a lease at this client.
#[derive(Clone, Debug)]
pub(super) struct KnownLease {
    pub(super) nonce: u64,
    pub(super) info: HolderInfo,
    pub(super) ttl: Duration,
    pub(super) token: FencingToken,
    /// How each node holds the lease.
    pub(super) holds: Vec<NodeHold>,
    /// The nodes at which a copy of the acquire, or a reclaim, may still arrive, whatever they
    /// answer to a later request. At these nodes, a release must leave a tombstone.
    pub(super) unanswered: Vec<bool>,
    /// The end of the lease, by the last answer to its holder.
    pub(super) until: Instant,
}

/// All leases of the clients of one quorum in this process.
#[derive(Debug)]
pub(super) struct Leases {
    known: HashMap<HolderId, KnownLease>,
    /// Attempts that were given up while a request was unanswered, and until when that matters.
    over: HashMap<HolderId, Instant>,
    /// The number of the newest run of each attempt, until that run is dropped.
    runs: HashMap<HolderId, u64>,
    last_run: u64,
    sweep_at: usize,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            over: HashMap::new(),
            runs: HashMap::new(),
            last_run: 0,
            sweep_at: SWEEP_AT,
        }
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
        // After another ttl, no late copy of their acquire can arrive either.
        self.known.retain(|_, known| known.until + known.ttl.max(NOT_AFTER) > now);
        self.over.retain(|_, until| *until > now);
        self.sweep_at = SWEEP_AT.max(2 * (self.known.len() + self.over.len()));
    }

    pub(super) fn get(&self, id: HolderId) -> Option<&KnownLease> {
        self.known.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: HolderId) -> Option<&mut KnownLease> {
        self.known.get_mut(&id)
    }

    /// Removes a lease that ends. If a call still acquires its attempt, that call wins nothing.
    pub(super) fn remove(&mut self, id: HolderId) -> Option<KnownLease> {
        self.runs.remove(&id);
        self.known.remove(&id)
    }

    /// Marks an attempt that must not be sent again: a cancel of it may still be on its way, and
    /// would end the lease of a later request on some node. Returns true if it was marked before.
    pub(super) fn end(&mut self, id: HolderId, now: Instant, until: Instant) -> bool {
        let was_over = self.over.insert(id, until).is_some();
        self.sweep(now);
        was_over
    }

    /// Removes the mark of an attempt, because nothing of it is on its way any more.
    pub(super) fn reopen(&mut self, id: HolderId) {
        self.over.remove(&id);
    }

    pub(super) fn is_over(&self, id: HolderId) -> bool {
        self.over.contains_key(&id)
    }
}

/// A lease, as it was handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandedOut {
    pub(super) holder: HolderId,
    pub(super) token: FencingToken,
}

impl HandedOut {
    /// The request to one node. It adopts the lease, whatever token the node has granted the lease
    /// with.
    pub(super) fn adoption(self, acquire: Acquire) -> Adopt {
        // Nodes that record no tokens do not agree on one. With this ballot, each of them grants a
        // higher token.
        let ballot_us = acquire.ballot_us.or(Some(self.token.micros() + 1));
        Adopt::new(self.holder, None, acquire.with_ballot(ballot_us))
    }

    /// Whether a node has never granted the lease, nor any later one. Such a node was not needed
    /// for the grant, and grants the name to any adopter. If it refused, two adopters could each
    /// get half of the nodes that have the lease, and neither would have a majority. Such nodes
    /// alone are not enough: if no node of a majority has granted the lease, the lease has ended.
    pub(super) fn is_unknown_to(self, timed: &TimedAnswer) -> bool {
        match &timed.answer.reply {
            Reply::NotHeld { newest } => {
                newest.is_none_or(|newest| newest.micros() < self.token.micros())
            }
            _ => false,
        }
    }
}

/// One call that acquires an attempt. If a caller is not polled, its client gives the attempt to
/// the next caller, while the call of the first one still exists. Only the newest call may win the
/// attempt or end it: otherwise the older one could end the lease that the newer one has won.
#[derive(Debug)]
pub(super) struct Run<'a> {
    leases: &'a Mutex<Leases>,
    id: HolderId,
    number: u64,
}

impl<'a> Run<'a> {
    pub(super) fn begin(leases: &'a Mutex<Leases>, id: HolderId) -> Self {
        let mut table = leases.lock();
        table.last_run += 1;
        let number = table.last_run;
        table.runs.insert(id, number);
        Self { leases, id, number }
    }

    /// The leases, or `None` if a newer run has begun. While they are locked, no other run begins.
    pub(super) fn leases(&self) -> Option<MutexGuard<'a, Leases>> {
        let leases = self.leases.lock();
        (leases.runs.get(&self.id) == Some(&self.number)).then_some(leases)
    }

    pub(super) fn is_newest(&self) -> bool {
        self.leases().is_some()
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Some(mut leases) = self.leases() {
            leases.runs.remove(&self.id);
        }
    }
}

/// The token of a lease that a node has granted, and how the node holds it.
pub(super) fn granted(timed: &TimedAnswer) -> Option<(FencingToken, NodeHold)> {
    match &timed.answer.reply {
        Reply::Granted(grant) => Some((grant.token, held(timed, grant))),
        _ => None,
    }
}

/// How a node holds a lease that it has granted.
pub(super) fn held(timed: &TimedAnswer, grant: &Grant) -> NodeHold {
    let left_us = grant.deadline_us.saturating_sub(timed.answer.now.lease_us);
    NodeHold::Held { sent: timed.sent, left: Duration::from_micros(left_us) }
}

#[cfg(test)]
mod tests {
    use leasehold_core::ClientId;

    use super::*;

    #[test]
    fn only_the_newest_run_of_an_attempt_counts_and_nothing_is_kept_of_an_attempt_that_is_over() {
        let leases = Mutex::<Leases>::default();
        let id = HolderId { client: ClientId(1), attempt: 1 };
        let first = Run::begin(&leases, id);
        assert!(first.is_newest());
        let second = Run::begin(&leases, id);
        assert!(!first.is_newest());
        drop(first);
        assert!(second.is_newest());
        leases.lock().remove(id);
        assert!(!second.is_newest());
        drop(Run::begin(&leases, id));
        assert!(leases.lock().runs.is_empty());
    }
}
