//! The clients of this process: nobody should wait unawares for what another of them holds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::ClientId;

use crate::mutex::Mutex;
use crate::process::PerProcess;

/// Those of this process.
#[derive(Debug)]
struct Clients {
    ids: Mutex<BTreeSet<ClientId>>,
    /// How many they are, for every call that asks.
    count: AtomicUsize,
}

static CLIENTS: PerProcess<Clients> = PerProcess::new(
    [const { Clients { ids: Mutex::new(BTreeSet::new()), count: AtomicUsize::new(0) } }; _],
);

/// Has a client known as one of this process, until it is dropped.
#[derive(Debug)]
pub(crate) struct OwnClient(ClientId);

impl OwnClient {
    pub(crate) fn new(client: ClientId) -> Self {
        if let Ok(clients) = CLIENTS.this() {
            clients.ids.lock().insert(client);
            clients.count.fetch_add(1, Ordering::Relaxed);
        }
        Self(client)
    }
}

impl Drop for OwnClient {
    fn drop(&mut self) {
        if let Ok(clients) = CLIENTS.this()
            && clients.ids.lock().remove(&self.0)
        {
            clients.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether this process has more clients than one, which then may be in each other's way.
pub(crate) fn has_several_clients() -> bool {
    CLIENTS.this().is_ok_and(|clients| clients.count.load(Ordering::Relaxed) > 1)
}

/// Whether it is a client of this process.
pub(crate) fn is_own(client: ClientId) -> bool {
    CLIENTS.this().is_ok_and(|clients| clients.ids.lock().contains(&client))
}
