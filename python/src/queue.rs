//! What has ended for one event loop, and the descriptor that wakes it.

use std::io;
use std::sync::Mutex;

use leasehold::LossReason;

use crate::done::Done;
use crate::errors::Failure;
use crate::process::lock;
use crate::wake::Wake;

/// What a verb has ended with, under the key of who waits for it.
pub(crate) type Keyed = (u64, Result<Done, Failure>);

/// What has ended and was not taken yet, and the descriptor that is readable while there is some.
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

    /// Has something ended, of which the loop is told by [`ring`](Self::ring): that is to follow
    /// if this says so.
    pub(crate) fn put(&self, key: u64, ended: Result<Done, Failure>) -> bool {
        let mut queue = lock(&self.ended);
        if queue.is_closed {
            drop(queue);
            return false;
        }
        queue.verbs.push((key, ended));
        queue.verbs.len() == 1
    }

    /// Wakes the loop if there is something to take.
    pub(crate) fn ring(&self) {
        let queue = lock(&self.ended);
        if !queue.verbs.is_empty() {
            self.wake.ring();
        }
    }

    /// A lease was lost.
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
