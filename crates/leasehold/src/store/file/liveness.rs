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

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use leasehold_core::{ClientId, Message, StoreError};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, open, openat, unlinkat};
use rustix::io::Errno;
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

/// A pipe that is made to see whether pipes can be made. It is kept, because some file systems take
/// half a millisecond to make a pipe.
const TRIAL: &str = "trial";

/// The directory beside the database, and the clients that live in this process.
#[derive(Debug)]
pub(crate) struct Liveness {
    directory: OwnedFd,
    access: Access,
    has_pipes: bool,
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
        let failed = |error: Errno| location.beside_error(error);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = open(&location.side, flags, Mode::empty()).map_err(failed)?;
        access.give(&directory).map_err(|error| location.beside_error(error))?;
        location.refuse_others_side(&fstat(&directory).map_err(failed)?, access)?;
        let mut liveness = Self { directory, access, has_pipes: true, clients: Mutex::default() };
        match liveness.make_pipe(TRIAL) {
            Ok(()) | Err(Errno::EXIST) => {}
            // The errors of file systems without special files, such as FAT.
            Err(Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => liveness.has_pipes = false,
            Err(error) => return Err(failed(error)),
        }
        Ok(liveness)
    }

    /// Whether named pipes can be made here. Without them, a dead process is noticed when its lease
    /// ends, and waiters depend on asking.
    pub(crate) fn has_pipes(&self) -> bool {
        self.has_pipes
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The names of the files in the directory that begin with `beginning`.
    pub(crate) fn files(&self, beginning: &str) -> io::Result<Vec<String>> {
        let entries = Dir::read_from(&self.directory)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let begins = |name: &io::Result<String>| {
            name.as_ref().map_or(true, |name| name.starts_with(beginning))
        };
        names.filter(begins).collect()
    }

    /// Registers a client that this process acts for. The caller holds the write lock, under which
    /// pipes of dead clients are removed. Otherwise this pipe could be removed before it is open,
    /// because it looks like that of a dead client.
    pub(crate) fn register(&self, id: ClientId) -> io::Result<()> {
        if !self.has_pipes || self.client(id).is_some() {
            return Ok(());
        }
        let name = id.to_string();
        match self.make_pipe(&name) {
            // The pipe exists if another store of this process acts for this client, too.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let pipe = self.open_pipe(&name)?;
        let client = LocalClient { pipe, attempts: Mutex::default(), changed: Notify::new() };
        self.clients.lock().insert(id, Arc::new(client));
        Ok(())
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
        let line = text + "\n";
        if let Some(client) = self.client(id) {
            let _ = rustix::io::write(&client.pipe, line.as_bytes());
        } else if let Ok(end) = self.writer_to(&id.to_string()) {
            let _ = rustix::io::write(&end, line.as_bytes());
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

    #[cfg(not(target_vendor = "apple"))]
    pub(crate) fn make_pipe(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::mkfifoat(&self.directory, name, self.access.of_file())
    }

    /// Apple's systems have had mkfifoat(3) since 2022 only, and rustix does not offer it.
    #[cfg(target_vendor = "apple")]
    pub(crate) fn make_pipe(&self, _name: &str) -> Result<(), Errno> {
        Err(Errno::NOTSUP)
    }

    /// Opens a pipe that this process has made. From then on, messages reach it, and its client
    /// counts as alive. All users of the database get access to it.
    pub(crate) fn open_pipe(&self, name: &str) -> io::Result<OwnedFd> {
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
    /// Records that an attempt holds or waits, and the clients whose deaths concern it.
    pub(crate) fn keep(&self, attempt: u64, watched: Vec<ClientId>) {
        let before = self.attempts.lock().insert(attempt, watched.clone());
        if before.unwrap_or_default() != watched {
            self.changed.notify_one();
        }
    }

    /// Records that an attempt neither holds nor waits any more.
    pub(crate) fn end(&self, attempt: u64) {
        let before = self.attempts.lock().remove(&attempt);
        if !before.unwrap_or_default().is_empty() {
            self.changed.notify_one();
        }
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
    receiver: Option<Receiver>,
    /// The beginning of a line whose end is not read yet.
    rest: Vec<u8>,
    /// The lines that were read; `None` stands for lines that are perhaps missing.
    lines: VecDeque<Option<String>>,
}

impl PipeReader {
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self { pipe, receiver: None, rest: Vec::new(), lines: VecDeque::new() }
    }

    /// Waits for the next line; `None` stands for lines that are perhaps missing. If the runtime
    /// has no I/O driver, or no descriptor is left, nothing arrives, as on a file system without
    /// pipes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return line;
            }
            if self.read().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Waits for lines and reads them.
    async fn read(&mut self) -> io::Result<()> {
        let receiver = match &mut self.receiver {
            Some(receiver) => receiver,
            none => none.insert(Receiver::from_owned_fd(self.pipe.try_clone()?)?),
        };
        let mut page = [0; PAGE];
        let length = loop {
            receiver.readable().await?;
            match receiver.try_read(&mut page) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        self.rest.extend(&page[..length]);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let text = String::from_utf8_lossy(&whole);
        self.lines.extend(text.lines().map(|line| Some(line.to_owned())));
        self.lines.extend((length >= NEARLY_FULL).then_some(None));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_out_of_a_pipe_one_by_one_and_a_full_page_may_be_a_gap() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let mut reader = PipeReader::new(reader);
        let mut read = async |bytes: &[u8]| {
            rustix::io::write(&writer, bytes).unwrap();
            reader.read().await.unwrap();
            Vec::from(std::mem::take(&mut reader.lines))
        };
        let line = |text: &str| Some(text.to_owned());
        assert_eq!(read(b"one\n\ntwo\nth").await, [line("one"), line(""), line("two")]);
        assert_eq!(read(b"re").await, []);
        assert_eq!(read(b"e\n").await, [line("three")]);
        let long = "x".repeat(NEARLY_FULL - 1);
        assert_eq!(read(format!("{long}\n").as_bytes()).await, [line(&long), None]);
    }
}
