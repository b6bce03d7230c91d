//! The loops that are woken when a lease is lost, without a task or a verb for each guard.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use leasehold::LossReason;
use leasehold::admin::HolderId;

use crate::done::Done;
use crate::process::lock;
use crate::queue::Queue;

/// The watched leases of a client, by their holders.
#[derive(Default)]
pub(crate) struct Watches(Mutex<HashMap<HolderId, (Arc<Queue>, u64)>>);

impl Watches {
    pub(crate) fn add(&self, holder: HolderId, queue: Arc<Queue>, key: u64) {
        lock(&self.0).insert(holder, (queue, key));
    }

    pub(crate) fn remove(&self, holder: HolderId) {
        lock(&self.0).remove(&holder);
    }

    /// A lease was lost.
    pub(crate) fn tell(&self, holder: HolderId, reason: LossReason) {
        let watch = lock(&self.0).remove(&holder);
        if let Some((queue, key)) = watch {
            queue.push(key, Ok(Done::Reason(Some(reason))));
        }
    }
}
