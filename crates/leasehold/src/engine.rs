//! What a client and all that it makes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_core::backoff::Jitter;
use leasehold_core::{HolderId, HolderInfo, LeaseOptions};

use crate::keeper::Keeper;
use crate::poll_queue::PollQueues;

/// A client's identity, defaults and keeper.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) defaults: LeaseOptions,
    pub(crate) poll_queues: Arc<PollQueues>,
    attempts: AtomicU64,
    secret: u64,
    seeds: AtomicU64,
}

impl Engine {
    pub(crate) fn new(keeper: Arc<Keeper>, defaults: LeaseOptions, secret: u64) -> Self {
        Self {
            keeper,
            defaults,
            poll_queues: Arc::default(),
            attempts: AtomicU64::new(0),
            secret,
            seeds: AtomicU64::new(Jitter::new(!secret).next_u64()),
        }
    }

    /// The identity of a new attempt, and the number only it knows.
    pub(crate) fn next_attempt(&self) -> (HolderId, u64) {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let nonce = Jitter::new(self.secret ^ attempt).next_u64();
        (HolderId { client: self.keeper.client, attempt }, nonce)
    }

    /// Jitter that no other call of this client draws, nor of another.
    pub(crate) fn jitter(&self) -> Jitter {
        Jitter::new(Jitter::new(self.seeds.fetch_add(1, Ordering::Relaxed)).next_u64())
    }

    pub(crate) fn info(&self, label: Option<String>) -> HolderInfo {
        self.keeper.info(label)
    }
}

/// An engine in the hands of somebody who may ask for leases. While there is one, or a lease, the
/// keeper keeps its connection.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Engine>);

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        engine.keeper.add_handle();
        Self(engine)
    }
}

impl std::ops::Deref for Handle {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.keeper.drop_handle();
    }
}
