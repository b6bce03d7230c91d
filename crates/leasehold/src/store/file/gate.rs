//! The gate: one process at a time goes to the database, in the order of arrival.
//!
//! SQLite waits for its own lock by sleeping and trying again, so whoever is unlucky often enough
//! waits for ever, and a hundred processes that try again burn processor time. The kernel keeps
//! those who wait for a file lock in a queue and wakes one at a time. The gate is for order alone:
//! were it missing, SQLite's lock would still keep transactions apart.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

const FILE_NAME: &str = "gate";

/// A file whose lock is the right to go to the database.
#[derive(Debug)]
pub(super) struct Gate(OwnedFd);

/// The right to go to the database, until dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Gate);

impl Gate {
    pub(super) fn open(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Self(openat(directory, FILE_NAME, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Enters if nobody is inside.
    pub(super) fn try_enter(&self) -> io::Result<Option<Turn<'_>>> {
        match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Turn(self))),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its turn. Only a process that was stopped inside makes that long.
    pub(super) fn enter(&self) -> io::Result<Turn<'_>> {
        loop {
            match flock(&self.0, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Turn(self)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // It cannot fail on a descriptor that is open and was locked.
        let _ = flock(&self.0.0, FlockOperation::Unlock);
    }
}
