//! The queue of results for one event loop, and the descriptor that wakes the loop.

use std::io;
use std::sync::Mutex;

use leasehold::LossReason;

use crate::done::Done;
use crate::errors::Failure;
use crate::process::lock;
use crate::wake::Wake;

/// The result of a verb, with the key of its waiter.
pub(crate) type Keyed = (u64, Result<Done, Failure>);

/// The results that were not taken yet, and a descriptor, which is readable while results are left.
pub(crate) struct Queue {
    ended: Mutex<Ended>,
    wake: Wake,
}

#[derive(Default)]
struct Ended {
    verbs: Vec<Keyed>,
    is_closed: bool,
}

impl Queue {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { ended: Mutex::default(), wake: Wake::new()? })
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.wake.descriptor()
    }

    /// Adds a result. If this returns `true`, the caller must then call [`ring`](Self::ring) to
    /// wake the loop.
    pub(crate) fn put(&self, key: u64, ended: Result<Done, Failure>) -> bool {
        let mut queue = lock(&self.ended);
        if queue.is_closed {
            drop(queue);
            return false;
        }
        queue.verbs.push((key, ended));
        queue.verbs.len() == 1
    }

    /// Wakes the loop if there are results to take.
    pub(crate) fn ring(&self) {
        let queue = lock(&self.ended);
        if !queue.verbs.is_empty() {
            self.wake.ring();
        }
    }

    /// Adds the loss of a lease, and wakes the loop.
    pub(crate) fn lost(&self, key: u64, reason: LossReason) {
        if self.put(key, Ok(Done::Reason(Some(reason)))) {
            self.ring();
        }
    }

    pub(crate) fn take(&self) -> Vec<Keyed> {
        let mut queue = lock(&self.ended);
        self.wake.clear();
        std::mem::take(&mut queue.verbs)
    }

    pub(crate) fn close(&self) {
        let left = {
            let mut queue = lock(&self.ended);
            queue.is_closed = true;
            std::mem::take(&mut queue.verbs)
        };
        drop(left);
    }
}
