//! The write lock of the file store: one process at a time uses the database, and processes are
//! served in the order of arrival.
//!
//! SQLite waits for its own lock by sleeping and trying again. So an unlucky process may wait for
//! ever, and a hundred processes burn processor time. The kernel keeps the waiters of a file lock
//! in a queue, and wakes one at a time. Only a caller that opens the store tries again and again: a
//! thread in the kernel's queue cannot give up. This lock is only for that order: without it,
//! SQLite's lock still keeps transactions apart.
//!
//! The text in the lock's file identifies the database that the lock belongs to: see
//! [`super::super::identity`].

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FlockOperation, OFlags, flock, openat};
use rustix::io::Errno;

use super::access::Access;

pub(crate) const FILE_NAME: &str = "gate";

/// The largest number of bytes that are read from the file: several times the length of its text.
const MAX_TEXT: usize = 512;

/// A file whose lock is the right to use the database.
#[derive(Debug)]
pub(crate) struct WriteLock(File);

/// The right to use the database, until this value is dropped.
#[derive(Debug)]
pub(crate) struct WriteLockGuard<'a>(&'a WriteLock);

impl WriteLock {
    pub(crate) fn open(directory: BorrowedFd<'_>, access: Access) -> io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(directory, FILE_NAME, flags, access.of_file())?;
        access.give(&file)?;
        Ok(Self(file.into()))
    }

    /// Reads the text in the file.
    pub(crate) fn read(&self) -> io::Result<String> {
        let mut bytes = [0; MAX_TEXT];
        let length = self.0.read_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// Writes another text into the file. The text is written in place: others wait for the lock of
    /// this very file, and the owner stays the same.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.write_all_at(text.as_bytes(), 0)
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn try_lock(&self) -> io::Result<Option<WriteLockGuard<'_>>> {
        match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(WriteLockGuard(self))),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the lock. That takes long only if a process was stopped while it had the lock.
    pub(crate) fn lock(&self) -> io::Result<WriteLockGuard<'_>> {
        loop {
            match flock(&self.0, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(WriteLockGuard(self)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for WriteLockGuard<'_> {
    fn drop(&mut self) {
        // The call cannot fail on a descriptor that is open and was locked.
        let _ = flock(&self.0.0, FlockOperation::Unlock);
    }
}
