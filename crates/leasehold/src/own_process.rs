//! The clients of this process. If a caller waits for a lease of another client of its process, an
//! event says so.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::ClientId;

use crate::mutex::Mutex;
use crate::process::PerProcess;

/// The clients of this process.
#[derive(Debug)]
struct Clients {
    ids: Mutex<BTreeSet<ClientId>>,
    /// The number of clients. Every call reads it, so it can be read without the mutex.
    count: AtomicUsize,
}

static CLIENTS: PerProcess<Clients> = PerProcess::new(
    [const { Clients { ids: Mutex::new(BTreeSet::new()), count: AtomicUsize::new(0) } }; _],
);

/// Registers a client as one of this process, until this value is dropped.
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

/// Whether this process has more than one client, so that one may wait for another.
pub(crate) fn has_several_clients() -> bool {
    CLIENTS.this().is_ok_and(|clients| clients.count.load(Ordering::Relaxed) > 1)
}

/// Whether `client` belongs to this process.
pub(crate) fn is_own(client: ClientId) -> bool {
    CLIENTS.this().is_ok_and(|clients| clients.ids.lock().contains(&client))
}
