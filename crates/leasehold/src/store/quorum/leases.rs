//! The state of each lease at this client, and the attempts that must not be sent again.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use leasehold_core::model::Times;
use leasehold_core::{FencingToken, HolderId, Instant};

use super::node::Pending;
use crate::mutex::Mutex;
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
        // Some time later, no late copy of their takes arrives either.
        self.known.retain(|_, known| known.until + known.ttl.max(LATEST) > now);
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

    /// Marks an attempt that must not be sent again: its end may still be on its way, and
    /// would end the lease of a later request on some node.
    pub(super) fn end(&mut self, id: HolderId, now: Instant, until: Instant) {
        self.over.insert(id, until);
        self.sweep(now);
    }

    /// Removes the mark of an attempt, because nothing of it is on its way any more.
    pub(super) fn reopen(&mut self, id: HolderId) {
        self.over.remove(&id);
    }

    pub(super) fn is_over(&self, id: HolderId) -> bool {
        self.over.contains_key(&id)
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
