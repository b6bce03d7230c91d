//! Cleanups that one node has yet to answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use leasehold_core::{HolderId, StoreError};
use tokio::sync::mpsc::UnboundedSender;

use crate::mutex::Mutex;
use crate::store::clocked::TimedAnswer;

/// The receiver of one node's answers, with the number of the node.
type Listener = UnboundedSender<(usize, Result<TimedAnswer, StoreError>)>;

/// The attempts that one node has yet to end, with the listeners for its answers.
#[derive(Debug, Default)]
pub(super) struct PendingCleanups(Mutex<HashMap<HolderId, Vec<Listener>>>);

impl PendingCleanups {
    pub(super) fn contains(&self, id: HolderId) -> bool {
        self.0.lock().contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Adds a cleanup with its first listener. If the cleanup is pending already, only adds the
    /// listener, and returns false.
    pub(super) fn add(&self, id: HolderId, listener: Listener) -> bool {
        match self.0.lock().entry(id) {
            Entry::Occupied(mut listeners) => {
                listeners.get_mut().push(listener);
                false
            }
            Entry::Vacant(listeners) => {
                listeners.insert(vec![listener]);
                true
            }
        }
    }

    /// Adds a listener to a pending cleanup, in place of those who wait no longer. Returns whether
    /// the cleanup is pending.
    pub(super) fn listen(&self, id: HolderId, listener: Listener) -> bool {
        let mut entries = self.0.lock();
        let Some(listeners) = entries.get_mut(&id) else { return false };
        listeners.retain(|listener| !listener.is_closed());
        listeners.push(listener);
        true
    }

    /// The listeners for the next answer. If this answer ends the cleanup, the listeners are
    /// removed.
    pub(super) fn take_listeners(&self, id: HolderId, is_done: bool) -> Vec<Listener> {
        let mut entries = self.0.lock();
        match is_done {
            true => entries.remove(&id),
            false => entries.get_mut(&id).map(std::mem::take),
        }
        .unwrap_or_default()
    }
}
