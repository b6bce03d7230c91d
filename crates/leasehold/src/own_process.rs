//! The clients of this process: nobody should wait unawares for what another of them holds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::ClientId;

use crate::mutex::Mutex;

static CLIENTS: Mutex<BTreeSet<ClientId>> = Mutex::new(BTreeSet::new());

/// How many they are, for every call that asks.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Has a client known as one of this process, until it is dropped.
#[derive(Debug)]
pub(crate) struct OwnClient(ClientId);

impl OwnClient {
    pub(crate) fn new(client: ClientId) -> Self {
        CLIENTS.lock().insert(client);
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self(client)
    }
}

impl Drop for OwnClient {
    fn drop(&mut self) {
        CLIENTS.lock().remove(&self.0);
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether this process has more clients than one, which then may be in each other's way.
pub(crate) fn has_several_clients() -> bool {
    COUNT.load(Ordering::Relaxed) > 1
}

/// Whether it is a client of this process.
pub(crate) fn is_own(client: ClientId) -> bool {
    CLIENTS.lock().contains(&client)
}
