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

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use leasehold_core::{ClientId, Message, StoreError};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, open, openat, unlinkat};
use rustix::io::Errno;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;

use super::access::Access;
use super::location::Location;
use crate::mutex::Mutex;
use crate::store::message;

/// The size of the smallest pipe: one page. On Linux, a pipe writes a line of at most this length
/// at once (pipe(7)), so lines of several writers do not mix.
pub(crate) const PAGE: usize = 4096;

/// If a read returns this many bytes, the pipe may have been too full for another message to its
/// client: such a line has less than 128 bytes. A pipe that is too full refuses the line.
const NEARLY_FULL: usize = PAGE - 128;

/// The directory beside the database, and the clients that live in this process.
#[derive(Debug)]
pub(crate) struct Liveness {
    side: PathBuf,
    directory: OwnedFd,
    access: Access,
    clients: Mutex<HashMap<ClientId, Arc<LocalClient>>>,
}

/// A client of this process.
#[derive(Debug)]
pub(crate) struct LocalClient {
    /// The pipe of the client. It is open for writing, too, so that it does not end when the last
    /// writer leaves.
    pub(crate) pipe: OwnedFd,
    /// The attempts of the client that hold or wait, each with the clients whose deaths concern it.
    attempts: Mutex<HashMap<u64, Vec<ClientId>>>,
    /// Notified when the deaths that concern the client have changed.
    pub(crate) changed: Notify,
}

impl Liveness {
    pub(crate) fn open(location: &Location, access: Access) -> Result<Self, StoreError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = location.beside(open(&location.side, flags, Mode::empty()))?;
        location.beside(access.give(&directory))?;
        location.refuse_others_side(&location.beside(fstat(&directory))?, access)?;
        let (side, clients) = (location.side.clone(), Mutex::default());
        Ok(Self { side, directory, access, clients })
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The names of the files in the directory that begin with `beginning`.
    pub(crate) fn files(&self, beginning: &str) -> io::Result<Vec<String>> {
        let entries = Dir::read_from(&self.directory)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<String>>>()?;
        names.retain(|name| name.starts_with(beginning));
        Ok(names)
    }

    /// Registers a client that this process acts for. The caller holds the write lock, under which
    /// pipes of dead clients are removed. Otherwise this pipe could be removed before it is open,
    /// because it looks like that of a dead client.
    pub(crate) fn register(&self, id: ClientId) -> io::Result<Arc<LocalClient>> {
        if let Some(known) = self.client(id) {
            return Ok(known);
        }
        let pipe = self.make_pipe(&id.to_string())?;
        let client = LocalClient { pipe, attempts: Mutex::default(), changed: Notify::new() };
        let client = Arc::new(client);
        self.clients.lock().insert(id, Arc::clone(&client));
        Ok(client)
    }

    pub(crate) fn client(&self, id: ClientId) -> Option<Arc<LocalClient>> {
        self.clients.lock().get(&id).cloned()
    }

    /// Ends a client of this process, even if another process still has its pipe open. The pipe is
    /// removed if the client has no lease and no place that its death would end.
    pub(crate) fn leave(&self, id: ClientId) {
        let mut clients = self.clients.lock();
        if clients.get(&id).is_some_and(|client| client.attempts.lock().is_empty()) {
            clients.remove(&id);
            self.remove(&id.to_string());
        }
    }

    /// Whether a client's process is certain to have ended.
    ///
    /// # Cost
    ///
    /// Two system calls, some 2 µs; none for a client of this process.
    pub(crate) fn is_dead(&self, id: ClientId) -> bool {
        self.client(id).is_none() && self.writer_to(&id.to_string()).err() == Some(Errno::NXIO)
    }

    /// Opens a pipe for writing. This end breaks when the last reader closes the pipe. The error is
    /// `ENXIO` if nobody reads it, so its process has ended. Another error proves nothing.
    pub(crate) fn writer_to(&self, pipe: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(&self.directory, pipe, flags, Mode::empty())
    }

    /// Writes a message to a client's pipe. The message is a hint: if it does not get through (no
    /// reader, no room), the waiter's next ask makes up for it.
    pub(crate) fn send(&self, id: ClientId, message: Message) {
        let Some(text) = message::encode(&message) else { return };
        if let Ok(end) = self.writer_to(&id.to_string()) {
            let _ = rustix::io::write(&end, (text + "\n").as_bytes());
        }
    }

    /// The clients whose processes have ended and whose pipes are still there.
    pub(crate) fn dead(&self) -> io::Result<Vec<ClientId>> {
        let ids = self.files("")?.into_iter().filter_map(|name| name.parse().ok());
        Ok(ids.filter(|id| self.is_dead(*id)).collect())
    }

    /// Removes a pipe. A pipe that cannot be removed does no harm: it is just checked again now and
    /// then.
    pub(crate) fn remove(&self, pipe: &str) {
        let _ = unlinkat(&self.directory, pipe, AtFlags::empty());
    }

    /// Makes a pipe and opens it. From then on, messages reach it, and its client counts as alive.
    /// All users of the database get access to it.
    pub(crate) fn make_pipe(&self, name: &str) -> io::Result<OwnedFd> {
        let mode = nix::sys::stat::Mode::from_bits_truncate(self.access.of_file().as_raw_mode());
        // The path is needed because not every system has mkfifoat(3).
        match nix::unistd::mkfifo(&self.side.join(name), mode) {
            // Another store of this process acts for this client, too.
            Ok(()) | Err(nix::Error::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let pipe = openat(&self.directory, name, flags, Mode::empty())?;
        self.access.give(&pipe)?;
        Ok(pipe)
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        for (id, client) in std::mem::take(self.clients.get_mut()) {
            // A pipe without a reader proves that the leases of this client can be ended
            // immediately. A pipe that does not exist would prove nothing. So the pipe is removed
            // only if the client leaves no hold and no place.
            let leaves_nothing = client.attempts.lock().is_empty();
            drop(client);
            if leaves_nothing && self.is_dead(id) {
                self.remove(&id.to_string());
            }
        }
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
    pub(crate) fn watched(&self) -> Vec<ClientId> {
        let mut watched: Vec<_> = self.attempts.lock().values().flatten().copied().collect();
        watched.sort_unstable();
        watched.dedup();
        watched
    }
}

/// The reading end of a pipe of this process, registered with the runtime that first reads it.
#[derive(Debug)]
pub(crate) struct PipeReader {
    pipe: OwnedFd,
    lines: Option<Lines<BufReader<Receiver>>>,
    /// Lines are perhaps missing after the last one.
    is_gap: bool,
}

impl PipeReader {
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self { pipe, lines: None, is_gap: false }
    }

    /// Waits for the next line; `None` stands for lines that are perhaps missing. If the runtime
    /// has no I/O driver, or no descriptor is left, nothing arrives, and asking has to do.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.is_gap) {
            return None;
        }
        match self.line().await {
            Ok(Some(line)) => Some(line),
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    async fn line(&mut self) -> io::Result<Option<String>> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => {
                let receiver = Receiver::from_owned_fd(self.pipe.try_clone()?)?;
                none.insert(BufReader::with_capacity(PAGE, receiver).lines())
            }
        };
        let line = lines.next_line().await?;
        let rest = lines.get_ref().buffer().len();
        self.is_gap = line.as_ref().is_some_and(|line| line.len() + rest >= NEARLY_FULL);
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_come_out_of_a_pipe_one_by_one_and_a_full_page_may_be_a_gap() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let mut reader = PipeReader::new(reader);
        let write = |text: &str| assert!(rustix::io::write(&writer, text.as_bytes()).is_ok());
        let line = |text: &str| Some(text.to_owned());
        write("one\n\ntwo\nth");
        for expected in ["one", "", "two"] {
            assert_eq!(reader.next().await, line(expected));
        }
        // What was read of a line outlives the future that read it.
        assert_eq!(reader.next().now_or_never(), None);
        write("ree\n");
        assert_eq!(reader.next().await, line("three"));
        let long = "x".repeat(NEARLY_FULL);
        write(&format!("{long}\n"));
        assert_eq!(reader.next().await, line(&long));
        assert_eq!(reader.next().await, None);
        write("four\n");
        assert_eq!(reader.next().await, line("four"));
    }
}
