//! Cleanups that one node has yet to answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use leasehold_core::{HolderId, StoreError};
use tokio::sync::mpsc::UnboundedSender;

use crate::mutex::Mutex;
use crate::store::clocked::TimedAnswer;

/// Where the answers of one node go, with its number.
type Listener = UnboundedSender<(usize, Result<TimedAnswer, StoreError>)>;

/// The attempts that one node has yet to end, and who waits for its answers.
#[derive(Debug, Default)]
pub(super) struct PendingCleanups(Mutex<HashMap<HolderId, Vec<Listener>>>);

impl PendingCleanups {
    pub(super) fn contains(&self, id: HolderId) -> bool {
        self.0.lock().contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Adds one with the first who listens. False if it is pending already: then that one only
    /// listens.
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

    /// Listens to one that is pending.
    pub(super) fn listen(&self, id: HolderId, listener: Listener) {
        if let Some(listeners) = self.0.lock().get_mut(&id) {
            listeners.push(listener);
        }
    }

    /// The listeners until the next answer, or for the last time if this answer ends the cleanup.
    pub(super) fn take_listeners(&self, id: HolderId, is_done: bool) -> Vec<Listener> {
        let mut entries = self.0.lock();
        match is_done {
            true => entries.remove(&id),
            false => entries.get_mut(&id).map(std::mem::take),
        }
        .unwrap_or_default()
    }
}
