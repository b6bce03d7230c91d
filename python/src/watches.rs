//! The event loops to wake when a lease is lost, without a task or a verb for each guard.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use leasehold::LossReason;
use leasehold::admin::HolderId;

use crate::process::lock;
use crate::queue::Queue;

/// The queue for the loss of a lease, and the key.
struct Watch {
    key: u64,
    queue: Arc<Queue>,
}

/// The watched leases of a client, by their holders. Each guard of a re-entered lease has its own
/// watch.
#[derive(Default)]
pub(crate) struct Watches(Mutex<HashMap<HolderId, Vec<Watch>>>);

impl Watches {
    pub(crate) fn add(&self, holder: HolderId, queue: Arc<Queue>, key: u64) {
        lock(&self.0).entry(holder).or_default().push(Watch { key, queue });
    }

    pub(crate) fn remove(&self, holder: HolderId, key: u64) {
        if let Entry::Occupied(mut watching) = lock(&self.0).entry(holder) {
            watching.get_mut().retain(|watch| watch.key != key);
            if watching.get().is_empty() {
                watching.remove();
            }
        }
    }

    /// Sends the loss of a lease to its watches.
    pub(crate) fn tell(&self, holder: HolderId, reason: LossReason) {
        let watching = lock(&self.0).remove(&holder).unwrap_or_default();
        for Watch { key, queue } in watching {
            queue.lost(key, reason);
        }
    }
}
