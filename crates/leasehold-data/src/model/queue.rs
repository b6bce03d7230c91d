//! Entries that producers append, and the results that the holder of the lease has stored.
//!
//! An entry leaves the queue in the same step in which its result is stored, so no crash can lose
//! one of the two.

use std::collections::BTreeMap;

use leasehold::FencingToken;
use leasehold::fence::{Fence, Fences};

use super::due::Due;
use super::id::Id;
use super::limits::COLLECT_BOUND;

/// The largest payload, and the largest result: 64 KiB.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 10;

/// The most entries that wait: 100 000. A queue that nobody drains must not fill the store.
pub const MAX_WAITING: u64 = 100_000;

/// The most entries that one step takes or finishes: as many as one step forgets.
pub const MAX_BATCH: usize = COLLECT_BOUND;

/// The state of a queue between two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The waiting entries, the oldest first.
    pub entries: BTreeMap<u64, Entry>,
    /// The key in `entries` of each waiting entry.
    pub places: BTreeMap<Id, u64>,
    /// The number of waiting entries.
    pub waiting: u64,
    /// The number of entries that were ever appended.
    pub appended: u64,
    /// The results of the finished entries.
    pub results: Due<Vec<u8>>,
    /// The highest token that was seen of each lock.
    pub fences: Fences,
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The producer's id for the entry; an entry with the same id is appended only once.
    pub id: Id,
    /// The bytes of the entry, in any format.
    pub payload: Vec<u8>,
}

/// A step on a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueAction {
    /// Asks for the progress of an entry.
    Ask {
        /// The id of the entry.
        id: Id,
    },
    /// Stores results and removes their entries.
    Finish {
        /// The results by id, at most [`MAX_BATCH`].
        results: Vec<(Id, Vec<u8>)>,
        /// How long the results are kept.
        remember_us: u64,
    },
    /// Appends an entry.
    Push(Entry),
    /// Returns the oldest entries, and leaves them in the queue.
    Take {
        /// The most entries to return.
        limit: u64,
    },
}

/// The outcome of a step on a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueReply {
    /// The entry is done, with this result.
    Done(Vec<u8>),
    /// The oldest entries.
    Entries(Vec<Entry>),
    /// The number of entries that were waiting and are now done.
    Finished(u64),
    /// The queue has no room; nothing was appended.
    Full,
    /// The entry waits.
    Pending,
    /// No such entry is known.
    Unknown,
}

/// Does one step.
///
/// # Errors
///
/// If a newer token of the lock of `fence` was seen: that token is the error, and nothing was done.
pub fn step(
    queue: &mut Queue,
    now_us: u64,
    fence: Option<&Fence>,
    action: &QueueAction,
) -> Result<QueueReply, FencingToken> {
    if let Some(Err(newest)) = fence.map(|fence| queue.fences.install(fence)) {
        return Err(newest);
    }
    for id in queue.results.due(now_us, COLLECT_BOUND) {
        queue.results.remove(&id);
    }
    Ok(match action {
        QueueAction::Ask { id } => queue.find(now_us, id).unwrap_or(QueueReply::Unknown),
        QueueAction::Finish { results, remember_us } => {
            let finished = results
                .iter()
                .filter(|(id, result)| queue.finish(id, now_us + remember_us, result));
            QueueReply::Finished(finished.count() as u64)
        }
        QueueAction::Push(entry) => queue.push(now_us, entry),
        QueueAction::Take { limit } => {
            let oldest = queue.entries.values().take(*limit as usize);
            QueueReply::Entries(oldest.cloned().collect())
        }
    })
}

impl Queue {
    fn find(&self, now_us: u64, id: &Id) -> Option<QueueReply> {
        if self.places.contains_key(id) {
            return Some(QueueReply::Pending);
        }
        let (until_us, result) = self.results.get(id)?;
        (*until_us > now_us).then(|| QueueReply::Done(result.clone()))
    }

    fn push(&mut self, now_us: u64, entry: &Entry) -> QueueReply {
        if let Some(known) = self.find(now_us, &entry.id) {
            return known;
        }
        if self.waiting >= MAX_WAITING {
            return QueueReply::Full;
        }
        self.appended += 1;
        self.waiting += 1;
        self.places.insert(entry.id.clone(), self.appended);
        self.entries.insert(self.appended, entry.clone());
        QueueReply::Pending
    }

    /// Stores a result, and returns whether its entry was waiting. A repeated result changes
    /// nothing.
    fn finish(&mut self, id: &Id, until_us: u64, result: &[u8]) -> bool {
        let Some(place) = self.places.remove(id) else { return false };
        self.entries.remove(&place);
        self.waiting -= 1;
        self.results.put(id.clone(), until_us, result.to_vec());
        true
    }
}
