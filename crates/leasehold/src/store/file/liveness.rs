//! The liveness of clients, and messages to them, by one named pipe per client beside the database.
//!
//! A client keeps its pipe open for reading while it lives. The kernel closes the pipe with the
//! process, however the process ends. So opening a pipe for writing shows immediately whether
//! somebody reads it. `ENXIO` means that nobody does, and so the client is dead. A client that was
//! granted a lock gets the message through the same pipe. A waiter behind the client keeps the pipe
//! open for writing, and the kernel reports it as broken within microseconds of the death.
//!
//! A pipe has advantages over a file lock and a socket. A lock file exists for a moment before it
//! is locked; a pipe has no such moment. A check takes no lock that another process could mistake
//! for a living client, and waiting for a death needs no thread. Paths may be long, and a
//! supervisor that outlives a client can keep the pipe open.
//!
//! A pipe that is *not there* proves nothing, because somebody may have removed it; then the lease
//! decides. The pipe of a dead client is removed once no record mentions the client any more.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use leasehold_core::{ClientId, Message};
use rustix::io::Errno;
use tokio::sync::Notify;

use super::side::Side;
use crate::mutex::Mutex;
use crate::store::message;

/// The directory beside the database, and the clients that live in this process.
#[derive(Debug)]
pub(crate) struct Liveness {
    pub(crate) side: Side,
    clients: Mutex<HashMap<ClientId, Arc<LocalClient>>>,
}

/// A client of this process.
#[derive(Debug)]
pub(crate) struct LocalClient {
    pub(crate) pipe: OwnedFd,
    /// The attempts of the client that hold or wait, each with the clients whose deaths concern it.
    attempts: Mutex<HashMap<u64, Vec<ClientId>>>,
    /// Notified when the deaths that concern the client have changed.
    pub(crate) changed: Notify,
}

impl Liveness {
    pub(crate) fn new(side: Side) -> Self {
        Self { side, clients: Mutex::default() }
    }

    /// Registers a client that this process acts for. The caller has its turn.
    pub(crate) fn register(&self, id: ClientId) -> io::Result<Arc<LocalClient>> {
        if let Some(known) = self.client(id) {
            return Ok(known);
        }
        let pipe = self.side.make_pipe(&id.to_string())?;
        let client = LocalClient { pipe, attempts: Mutex::default(), changed: Notify::new() };
        let client = Arc::new(client);
        self.clients.lock().insert(id, Arc::clone(&client));
        Ok(client)
    }

    pub(crate) fn client(&self, id: ClientId) -> Option<Arc<LocalClient>> {
        self.clients.lock().get(&id).cloned()
    }

    /// Ends a client of this process, even if another process still has its pipe open. The pipe is
    /// removed if the client leaves no hold and no place: a pipe without a reader proves that those
    /// can be ended immediately, and a pipe that does not exist would prove nothing.
    pub(crate) fn leave(&self, id: ClientId) {
        let mut clients = self.clients.lock();
        if clients.get(&id).is_some_and(|client| client.attempts.lock().is_empty()) {
            clients.remove(&id);
            self.side.remove(&id.to_string());
        }
    }

    /// Whether a client's process is certain to have ended.
    ///
    /// # Cost
    ///
    /// Two system calls, some 2 µs; none for a client of this process.
    pub(crate) fn is_dead(&self, id: ClientId) -> bool {
        self.client(id).is_none() && self.side.writer_to(&id.to_string()).err() == Some(Errno::NXIO)
    }

    /// Sends a message to a client.
    pub(crate) fn send(&self, id: ClientId, message: &Message) {
        let Some(text) = message::encode(message) else { return };
        self.side.write(&id.to_string(), &(text + "\n"));
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        let ids: Vec<_> = self.clients.get_mut().keys().copied().collect();
        ids.into_iter().for_each(|id| self.leave(id));
    }
}

impl LocalClient {
    /// Records the clients whose deaths concern an attempt that holds or waits; with `None`, that
    /// it does neither any more.
    pub(crate) fn keep(&self, attempt: u64, watched: Option<Vec<ClientId>>) {
        let mut attempts = self.attempts.lock();
        let before = attempts.remove(&attempt).unwrap_or_default();
        if before != *watched.as_deref().unwrap_or_default() {
            self.changed.notify_one();
        }
        attempts.extend(watched.map(|watched| (attempt, watched)));
    }

    /// The clients whose deaths concern this client.
    pub(crate) fn watched(&self) -> BTreeSet<ClientId> {
        self.attempts.lock().values().flatten().copied().collect()
    }
}
