//! Which clients are alive, and how to reach them: one named pipe per client beside the database.
//!
//! A client keeps its pipe open for reading for as long as it lives, and the kernel closes it with
//! the process, whatever ends that. So opening a pipe for writing tells two cases apart without
//! waiting: somebody reads it, or `ENXIO`, nobody does and the client is dead. A client that was
//! granted a lock learns it through the same pipe. A waiter behind it keeps the pipe open for
//! writing, which the kernel reports as broken within microseconds of the death.
//!
//! A pipe has advantages over a file lock and a socket. There is no moment between creation and
//! locking. A question takes no lock that another asker could mistake for life, and waiting for a
//! death needs no thread. Paths may be long, and a supervisor that outlives a client may keep it
//! alive.
//!
//! A pipe that is *not there* proves nothing, since somebody may have cleaned up; then the lease
//! decides. Pipes of the dead are removed after no record mentions them any more.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use leasehold_core::{ClientId, FencingToken, Message, StoreError};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, open, openat, unlinkat};
use rustix::io::Errno;
use tokio::sync::Notify;

use crate::mutex::Mutex;
use crate::process::{self, MadeIn, Note};
use crate::store::file::place::{Access, Location};

/// Bytes of one message on a pipe: six numbers. Far below what a pipe takes as a whole (512 bytes
/// in POSIX), so messages of several writers do not mix.
pub(crate) const FRAME: usize = 48;

/// A pipe that is made to see whether pipes can be made. It stays there: some file systems take
/// half a millisecond to make another one.
const TRIAL: &str = "trial";

/// What is found, what it costs, and what mends it.
pub(crate) const NO_PIPES: [&str; 3] = [
    "no named pipes can be made beside the database",
    "a dead process is noticed when its lease ends, and a release within a second",
    "use another file system",
];

const GRANTED: u64 = 1;
const REVOKED: u64 = 2;
const REVOKED_BY_FORCE: u64 = 3;

/// The directory beside the database, and the clients that live in this process.
#[derive(Debug)]
pub(crate) struct Liveness {
    made_in: MadeIn,
    directory: OwnedFd,
    access: Access,
    has_pipes: bool,
    clients: Mutex<HashMap<ClientId, Arc<LocalClient>>>,
}

/// One client of this process.
#[derive(Debug)]
pub(crate) struct LocalClient {
    /// A child that is forked closes the pipe, or this process would seem alive.
    _lifeline: Option<Note>,
    /// The pipe of the client. It is open for writing, too, so that it does not end when the last
    /// writer leaves.
    pub(crate) pipe: OwnedFd,
    /// The attempts of the client that hold or wait, each with the clients whose deaths concern it.
    attempts: Mutex<HashMap<u64, Vec<ClientId>>>,
    /// The deaths it wants to know of have changed.
    pub(crate) changed: Notify,
}

/// What is known of a client's process.
#[derive(Debug)]
pub(crate) enum ClientState {
    /// Somebody has its pipe open. This end of it breaks when the last of them closes it.
    Alive(OwnedFd),
    /// Nobody has.
    Dead,
    /// There is no pipe, or it cannot be opened.
    Unknown,
}

impl Liveness {
    pub(crate) fn open(location: &Location, access: Access) -> Result<Self, StoreError> {
        let failed = |error: Errno| location.beside_error(error.into());
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = open(&location.side, flags, Mode::empty()).map_err(failed)?;
        access.give(&directory).map_err(|error| location.beside_error(error))?;
        location.refuse_others_side(&fstat(&directory).map_err(failed)?, access)?;
        let has_pipes = match make_pipe(directory.as_fd(), TRIAL, access) {
            Ok(()) | Err(Errno::EXIST) => true,
            // What file systems without special files say, such as FAT.
            Err(Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => false,
            Err(error) => return Err(failed(error)),
        };
        let made_in = MadeIn::this();
        Ok(Self { made_in, directory, access, has_pipes, clients: Mutex::default() })
    }

    /// Whether named pipes can be made here. Without, a dead process is noticed when its lease
    /// ends, and a waiter finds out by asking.
    pub(crate) fn has_pipes(&self) -> bool {
        self.has_pipes
    }

    /// Whether it is that of a process which this one was forked from.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.made_in.is_another()
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Registers a client that this process acts for. With the write lock held, because the
    /// dead are removed there: else a pipe could be taken for a dead one's before it is open.
    pub(crate) fn register(&self, id: ClientId) -> io::Result<()> {
        if !self.has_pipes || self.client(id).is_some() {
            return Ok(());
        }
        let name = id.to_string();
        match make_pipe(self.directory.as_fd(), &name, self.access) {
            // The pipe exists if another store of this process acts for this client, too.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let pipe = open_pipe(self.directory.as_fd(), &name, self.access)?;
        let _lifeline = process::note_lifeline(&pipe);
        let client =
            LocalClient { _lifeline, pipe, attempts: Mutex::default(), changed: Notify::new() };
        self.clients.lock().insert(id, Arc::new(client));
        Ok(())
    }

    pub(crate) fn client(&self, id: ClientId) -> Option<Arc<LocalClient>> {
        self.clients.lock().get(&id).cloned()
    }

    /// A client of this process has ended, whichever process still has its pipe open: the pipe
    /// goes, if nothing of the client is left that its death would end.
    pub(crate) fn leave(&self, id: ClientId) {
        let mut clients = self.clients.lock();
        if clients.get(&id).is_some_and(|client| client.attempts.lock().is_empty()) {
            clients.remove(&id);
            self.forget(id);
        }
    }

    /// Whether a client's process is certain to have ended.
    ///
    /// # Cost
    ///
    /// Two system calls, some 2 µs; none for a client of this process.
    pub(crate) fn is_dead(&self, id: ClientId) -> bool {
        self.client(id).is_none() && matches!(self.state_of(id), ClientState::Dead)
    }

    pub(crate) fn state_of(&self, id: ClientId) -> ClientState {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(&self.directory, id.to_string(), flags, Mode::empty()) {
            Ok(end) => ClientState::Alive(end),
            Err(Errno::NXIO) => ClientState::Dead,
            Err(_) => ClientState::Unknown,
        }
    }

    /// Writes a message to a client's pipe. It is a hint: one that does not get through (nobody
    /// there, no room) is made good by the waiter's next poll.
    pub(crate) fn send(&self, id: ClientId, message: Message) {
        let Some(frame) = encode(message) else { return };
        if let Some(client) = self.client(id) {
            let _ = rustix::io::write(&client.pipe, &frame);
        } else if let ClientState::Alive(end) = self.state_of(id) {
            let _ = rustix::io::write(&end, &frame);
        }
    }

    /// The clients whose processes have ended and whose pipes are still there.
    pub(crate) fn dead(&self) -> io::Result<Vec<ClientId>> {
        Ok(self.pipes()?.into_iter().filter(|id| self.is_dead(*id)).collect())
    }

    /// Whether somebody has a client's pipe open.
    pub(crate) fn is_anyone_alive(&self) -> io::Result<bool> {
        Ok(self.pipes()?.into_iter().any(|id| matches!(self.state_of(id), ClientState::Alive(_))))
    }

    fn pipes(&self) -> io::Result<Vec<ClientId>> {
        let mut pipes = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let id = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            pipes.extend::<Option<ClientId>>(id);
        }
        Ok(pipes)
    }

    /// Removes the pipe of a client that no record mentions.
    pub(crate) fn forget(&self, id: ClientId) {
        // If it cannot be removed, it costs a look now and then.
        let _ = unlinkat(&self.directory, id.to_string(), AtFlags::empty());
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        if self.made_in.is_another() {
            std::mem::forget(std::mem::take(self.clients.get_mut()));
            return;
        }
        for (id, client) in std::mem::take(self.clients.get_mut()) {
            // A pipe that nobody reads proves that what is left of this client can be ended at
            // once; one that is not there would prove nothing.
            let leaves_nothing = client.attempts.lock().is_empty();
            drop(client);
            if leaves_nothing && matches!(self.state_of(id), ClientState::Dead) {
                self.forget(id);
            }
        }
    }
}

impl LocalClient {
    /// Notes that an attempt holds or waits, and whose deaths concern it.
    pub(crate) fn keep(&self, attempt: u64, watched: Vec<ClientId>) {
        let mut attempts = self.attempts.lock();
        let before = attempts.get(&attempt);
        let is_same = before.map_or(watched.is_empty(), |before| *before == watched);
        attempts.insert(attempt, watched);
        if !is_same {
            self.changed.notify_one();
        }
    }

    /// Notes that an attempt neither holds nor waits any more.
    pub(crate) fn end(&self, attempt: u64) {
        let watched = self.attempts.lock().remove(&attempt);
        if watched.is_some_and(|watched| !watched.is_empty()) {
            self.changed.notify_one();
        }
    }

    /// The clients whose deaths concern this one.
    pub(crate) fn watched(&self) -> Vec<ClientId> {
        let mut watched: Vec<_> = self.attempts.lock().values().flatten().copied().collect();
        watched.sort_unstable();
        watched.dedup();
        watched
    }
}

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn make_pipe(
    directory: BorrowedFd<'_>,
    name: &str,
    access: Access,
) -> Result<(), Errno> {
    rustix::fs::mkfifoat(directory, name, access.of_file())
}

/// Apple's systems have had mkfifoat(3) since 2022 only, and rustix does not offer it.
#[cfg(target_vendor = "apple")]
pub(crate) fn make_pipe(
    _directory: BorrowedFd<'_>,
    _name: &str,
    _access: Access,
) -> Result<(), Errno> {
    Err(Errno::NOTSUP)
}

/// Opens a pipe that this process has made: from then on messages reach it, and it counts as alive.
/// Gives access to all users of the database.
pub(crate) fn open_pipe(
    directory: BorrowedFd<'_>,
    name: &str,
    access: Access,
) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let pipe = openat(directory, name, flags, Mode::empty())?;
    access.give(&pipe)?;
    Ok(pipe)
}

fn encode(message: Message) -> Option<[u8; FRAME]> {
    let numbers = match message {
        Message::Granted { attempt, nonce, token, now_us, deadline_us } => {
            [GRANTED, attempt, nonce, token.get(), now_us, deadline_us]
        }
        Message::Revoked { attempt, nonce, token, forced } => {
            let tag = if forced { REVOKED_BY_FORCE } else { REVOKED };
            [tag, attempt, nonce, token.get(), 0, 0]
        }
        // A reader of a pipe knows by itself when it may have missed something.
        _ => return None,
    };
    let mut frame = [0; FRAME];
    for (bytes, number) in frame.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    Some(frame)
}

/// Reads a message; anything that is none becomes a gap.
pub(crate) fn decode(frame: &[u8]) -> Message {
    let mut numbers = [0; FRAME / 8];
    for (number, bytes) in numbers.iter_mut().zip(frame.chunks_exact(8)) {
        *number = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    let [tag, attempt, nonce, token, now_us, deadline_us] = numbers;
    match (tag, FencingToken::from_number(token)) {
        (GRANTED, Some(token)) => Message::Granted { attempt, nonce, token, now_us, deadline_us },
        (REVOKED | REVOKED_BY_FORCE, Some(token)) => {
            Message::Revoked { attempt, nonce, token, forced: tag == REVOKED_BY_FORCE }
        }
        _ => Message::Gap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_pipe() {
        let token = FencingToken::from_micros(1_800_000_000_000_000);
        let (attempt, nonce) = (7, u64::MAX);
        for message in [
            Message::Granted { attempt, nonce, token, now_us: 5, deadline_us: 6 },
            Message::Revoked { attempt, nonce, token, forced: false },
            Message::Revoked { attempt, nonce, token, forced: true },
        ] {
            assert_eq!(decode(&encode(message).unwrap()), message);
        }
        assert_eq!(decode(&[0xff; FRAME]), Message::Gap);
    }
}
